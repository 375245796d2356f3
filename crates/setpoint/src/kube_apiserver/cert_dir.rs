//! The serving certificate in `--cert-dir`, which is used unless `--tls-cert-file` names another one.

use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jiff::Timestamp;
use setpoint_kinds::bootstrap::PROXY_NAME;
use setpoint_pki::Pki;

use crate::args::TlsFlags;

/// kube-apiserver's default of `--cert-dir`.
pub(super) const DEFAULT: &str = "/var/run/kubernetes";

/// Sets the serving certificate to that in the directory. If there is none, one of the cluster's CA is written to it, with
/// the CA after it, so that a client can trust the file.
pub(super) fn use_certificate(
    flags: &mut TlsFlags,
    cert_dir: &Path,
    pki: &Path,
    addresses: &[IpAddr],
    now: Timestamp,
) -> Result<()> {
    if flags.tls_cert_file.is_some() {
        return Ok(());
    }
    let (certificate, key) = (cert_dir.join("apiserver.crt"), cert_dir.join("apiserver.key"));
    if !certificate.exists() || !key.exists() {
        write(&certificate, &key, &Pki::open(pki, addresses, PROXY_NAME, now)?).with_context(|| {
            format!(
                "error creating self-signed certificates in {}",
                cert_dir.display()
            )
        })?;
    }
    (flags.tls_cert_file, flags.tls_private_key_file) = (Some(certificate), Some(key));
    Ok(())
}

fn write(certificate: &PathBuf, key: &Path, pki: &Pki) -> std::io::Result<()> {
    certificate.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(
        certificate,
        format!("{}{}", pki.server.certificate, pki.authority.bundle),
    )?;
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(key)?;
    file.write_all(pki.server.key.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags_of(dir: &Path) -> TlsFlags {
        let mut flags = TlsFlags::default();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let addresses = [IpAddr::from([127, 0, 0, 1])];
        use_certificate(&mut flags, &dir.join("certs"), &dir.join("pki"), &addresses, now).unwrap();
        flags
    }

    #[test]
    fn a_certificate_is_written_once_and_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let flags = flags_of(dir.path());
        let path = flags.tls_cert_file.unwrap();
        assert_eq!(path, dir.path().join("certs/apiserver.crt"));
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches("BEGIN CERTIFICATE").count(), 2);
        fs::write(&path, "of the user").unwrap();
        flags_of(dir.path());
        assert_eq!(fs::read_to_string(&path).unwrap(), "of the user");
    }
}
