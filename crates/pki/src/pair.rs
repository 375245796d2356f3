//! A certificate and its private key, in memory and on disk.

use std::fmt;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::Error;

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct CertKeyPair {
    pub certificate: String,
    pub key: String,
}

impl CertKeyPair {
    /// The certificate in DER.
    pub fn certificate_der(&self) -> Result<CertificateDer<'static>, Error> {
        Ok(CertificateDer::from_pem_slice(self.certificate.as_bytes())?)
    }

    /// The private key in DER.
    pub fn key_der(&self) -> Result<PrivateKeyDer<'static>, Error> {
        Ok(PrivateKeyDer::from_pem_slice(self.key.as_bytes())?)
    }

    /// The pair of this name in a directory; `None` if one of its files does not exist.
    pub(crate) fn read(dir: &Path, name: &str) -> Result<Option<Self>, Error> {
        let (certificate, key) = paths(dir, name);
        if !certificate.exists() || !key.exists() {
            return Ok(None);
        }
        let read = |path: &Path| fs::read_to_string(path).map_err(Error::file("read", path));
        Ok(Some(Self {
            certificate: read(&certificate)?,
            key: read(&key)?,
        }))
    }

    /// Writes the pair. The key is readable by its owner only.
    pub(crate) fn write(&self, dir: &Path, name: &str) -> Result<(), Error> {
        let (certificate, key) = paths(dir, name);
        write_file(&key, &self.key, 0o600)?;
        write_file(&certificate, &self.certificate, 0o644)
    }
}

impl fmt::Debug for CertKeyPair {
    /// Without the key, which must not get into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertKeyPair")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

fn paths(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
    (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")))
}

/// Writes a file atomically: a reader sees the old text or the new one.
fn write_file(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let fresh = path.with_extension("new");
    let written = || -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(&fresh)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&fresh, path)
    };
    written().map_err(Error::file("write", path))
}
