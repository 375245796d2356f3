//! [`Authority`]: a CA, and its rotation.
//!
//! A CA is replaced in two steps, so that clients learn to trust the next one before it signs anything:
//!
//! | validity passed | files | trusted | signs |
//! |---|---|---|---|
//! | less than 2/3 | `ca.crt`, `ca.key` | the CA | the CA |
//! | from 2/3 on | `ca-next.crt`, `ca-next.key` beside them | both | the CA |
//! | from 5/6 on | the next one becomes `ca.crt`, `ca.key`; the old certificate goes to `ca-previous.crt` | both | the next one |
//!
//! With a validity of ten years the overlap before the change is twenty months, and a certificate of one year that the
//! old CA signed last ends before that CA does. `setpoint certs rotate` takes either step earlier.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use setpoint_x509::{Certificate, pem};

use crate::pair::{READABLE, certificates, paths, read_file, write_file};
use crate::{CertKeyPair, Error, issue, lifetime};

/// The share of a CA's validity after which the next CA is created.
const CREATE_NEXT: (i64, i64) = (2, 3);
/// The share of a CA's validity after which the next CA signs.
const PROMOTE_NEXT: (i64, i64) = (5, 6);

/// A CA as it is used now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// The CA that signs certificates.
    pub signing: CertKeyPair,
    /// The certificates of all CAs to trust, in PEM: the signing one first, then the next one and previous ones.
    pub bundle: String,
}

/// A step of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// The next CA was created. It is trusted from now on.
    Created,
    /// The next CA signs from now on. The previous one is trusted until it expires.
    Promoted,
}

/// The files of a CA.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuthorityFiles<'a> {
    pub(crate) dir: &'a Path,
    /// The name of the files.
    pub(crate) file: &'static str,
    /// The common name of a CA that is created.
    pub(crate) common_name: &'static str,
}

// === impl Authority ===

impl Authority {
    /// Reads a CA, or creates one. Takes the steps of its rotation that are due.
    pub(crate) fn open(files: AuthorityFiles<'_>, now: Timestamp) -> Result<Self, Error> {
        files.finish_promotion()?;
        let mut signing = match files.read()? {
            Some(signing) => signing,
            None => files.create(files.file, now)?,
        };
        // At most two steps: a CA that expired while the server was stopped is replaced at once.
        while let Some(step) = files.due_rotation(&signing, now)? {
            signing = files.rotate(step, signing, now)?;
        }
        let bundle = files.bundle(&signing, now)?;
        Ok(Self { signing, bundle })
    }

    /// The certificates to trust, in DER.
    pub fn trusted(&self) -> Result<Vec<rustls_pki_types::CertificateDer<'static>>, Error> {
        certificates(self.bundle.as_bytes())
    }
}

// === impl AuthorityFiles ===

impl AuthorityFiles<'_> {
    fn next(&self) -> String {
        format!("{}-next", self.file)
    }

    fn previous(&self) -> PathBuf {
        self.dir.join(format!("{}-previous.crt", self.file))
    }

    /// The signing CA; `None` if there is none yet.
    fn read(&self) -> Result<Option<CertKeyPair>, Error> {
        let pair = CertKeyPair::read(self.dir, self.file)?;
        match pair {
            Some(pair) if !pair.is_matching() => Err(Error::Mismatch {
                file: self.file.to_owned(),
            }),
            pair => Ok(pair),
        }
    }

    fn create(&self, file: &str, now: Timestamp) -> Result<CertKeyPair, Error> {
        let pair = issue::authority(self.common_name, now)?;
        pair.write(self.dir, file)?;
        Ok(pair)
    }

    /// The step that is due. A CA of another name was not created by this server: its owner rotates it.
    fn due_rotation(&self, signing: &CertKeyPair, now: Timestamp) -> Result<Option<Rotation>, Error> {
        let der = signing.certificate_der()?;
        let certificate = Certificate::from_der(&der).map_err(Error::Authority)?;
        let has_passed = |share| lifetime::has_passed(&certificate, share, now);
        let is_own = certificate.subject.common_names().eq([self.common_name]);
        Ok(match CertKeyPair::read(self.dir, &self.next())? {
            Some(_) => has_passed(PROMOTE_NEXT).then_some(Rotation::Promoted),
            None => (is_own && has_passed(CREATE_NEXT)).then_some(Rotation::Created),
        })
    }

    /// The step that a command takes, due or not.
    pub(crate) fn next_step(&self) -> Result<Rotation, Error> {
        Ok(match CertKeyPair::read(self.dir, &self.next())? {
            Some(_) => Rotation::Promoted,
            None => Rotation::Created,
        })
    }

    /// Takes a step. Returns the CA that signs afterwards.
    pub(crate) fn rotate(
        &self,
        step: Rotation,
        signing: CertKeyPair,
        now: Timestamp,
    ) -> Result<CertKeyPair, Error> {
        match step {
            Rotation::Created => {
                self.create(&self.next(), now)?;
                Ok(signing)
            }
            Rotation::Promoted => {
                let previous = [signing.certificate, self.unexpired_previous(now)?].concat();
                write_file(&self.previous(), &previous, READABLE)?;
                self.promote()?;
                self.read()?.ok_or_else(|| Error::Mismatch {
                    file: self.file.to_owned(),
                })
            }
        }
    }

    /// Renames the files of the next CA, the key first.
    fn promote(&self) -> Result<(), Error> {
        let (from, to) = (paths(self.dir, &self.next()), paths(self.dir, self.file));
        for (from, to) in [(from.1, to.1), (from.0, to.0)] {
            fs::rename(&from, &to).map_err(Error::file("rename", &from))?;
        }
        Ok(())
    }

    /// Renames the certificate of the next CA, if a crash left it behind after its key was renamed.
    fn finish_promotion(&self) -> Result<(), Error> {
        let (next_certificate, next_key) = paths(self.dir, &self.next());
        let (certificate, key) = paths(self.dir, self.file);
        if next_key.exists() || !next_certificate.exists() || !key.exists() {
            return Ok(());
        }
        let pair = CertKeyPair {
            certificate: read_file(&next_certificate)?,
            key: read_file(&key)?,
        };
        match pair.is_matching() {
            true => {
                fs::rename(&next_certificate, &certificate).map_err(Error::file("rename", &next_certificate))
            }
            false => Ok(()),
        }
    }

    fn bundle(&self, signing: &CertKeyPair, now: Timestamp) -> Result<String, Error> {
        let next = CertKeyPair::read(self.dir, &self.next())?;
        let next = next.map(|pair| pair.certificate).unwrap_or_default();
        Ok([signing.certificate.clone(), next, self.unexpired_previous(now)?].concat())
    }

    /// The certificates of previous CAs that have not expired, in PEM.
    fn unexpired_previous(&self, now: Timestamp) -> Result<String, Error> {
        let path = self.previous();
        if !path.exists() {
            return Ok(String::new());
        }
        let text = read_file(&path)?;
        let valid = certificates(text.as_bytes())?
            .into_iter()
            .filter(|der| Certificate::from_der(der).is_ok_and(|one| now < one.not_after));
        Ok(valid.map(|der| pem::encode(pem::CERTIFICATE, &der)).collect())
    }
}
