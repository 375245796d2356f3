//! A certificate and its private key, in memory and on disk.

use std::fmt;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use setpoint_x509::{Certificate, PrivateKey};

use crate::Error;

/// The mode of files that only their owner may read.
pub(crate) const OWNER_ONLY: u32 = 0o600;
/// The mode of certificates.
pub(crate) const READABLE: u32 = 0o644;

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct CertKeyPair {
    pub certificate: String,
    pub key: String,
}

impl CertKeyPair {
    /// The certificate in DER.
    pub fn certificate_der(&self) -> Result<CertificateDer<'static>, Error> {
        Ok(CertificateDer::from_pem_slice(self.certificate.as_bytes())?)
    }

    /// The certificates in DER: the first one and those of intermediate CAs after it.
    pub fn chain(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        certificates(self.certificate.as_bytes())
    }

    /// The private key in DER.
    pub fn key_der(&self) -> Result<PrivateKeyDer<'static>, Error> {
        Ok(PrivateKeyDer::from_pem_slice(self.key.as_bytes())?)
    }

    /// Whether the key is that of the certificate.
    pub fn is_matching(&self) -> bool {
        let (Ok(der), Ok(key)) = (self.certificate_der(), PrivateKey::from_pem(&self.key)) else {
            return false;
        };
        Certificate::from_der(&der)
            .is_ok_and(|certificate| certificate.public_key.raw == key.public_key_info())
    }

    /// The pair of this name in a directory; `None` if one of its files does not exist.
    pub(crate) fn read(dir: &Path, name: &str) -> Result<Option<Self>, Error> {
        let (certificate, key) = paths(dir, name);
        if !certificate.exists() || !key.exists() {
            return Ok(None);
        }
        Ok(Some(Self {
            certificate: read_file(&certificate)?,
            key: read_file(&key)?,
        }))
    }

    /// Writes the pair. The key is readable by its owner only.
    pub(crate) fn write(&self, dir: &Path, name: &str) -> Result<(), Error> {
        let (certificate, key) = paths(dir, name);
        write_file(&key, &self.key, OWNER_ONLY)?;
        write_file(&certificate, &self.certificate, READABLE)
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

/// All certificates of a PEM text, which must have one.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>()?;
    match certificates.is_empty() {
        true => Err(Error::Pem(rustls_pki_types::pem::Error::NoItemsFound)),
        false => Ok(certificates),
    }
}

/// The files of the certificate and the key of a pair.
pub(crate) fn paths(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
    (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")))
}

pub(crate) fn read_file(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(Error::file("read", path))
}

/// Writes a file atomically: a reader sees the old text or the new one, also after a crash.
pub(crate) fn write_file(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let fresh = path.with_extension("new");
    let written = || -> std::io::Result<()> {
        // One that a crash left behind may have another mode.
        let _ = fs::remove_file(&fresh);
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    written().map_err(Error::file("write", path))
}
