//! [`CertificateTemplate`]: a certificate to issue.

use jiff::Timestamp;

use crate::der::write;
use crate::{Error, PrivateKey};

/// The fields of a certificate that its issuer signs.
#[derive(Debug, Clone)]
pub struct CertificateTemplate<'a> {
    /// A number that the issuer has not used before.
    pub serial_number: &'a [u8],
    /// The DER encoding of the issuer's name.
    pub issuer: &'a [u8],
    /// The DER encoding of the subject's name.
    pub subject: &'a [u8],
    /// The DER encoding of the subject's SubjectPublicKeyInfo.
    pub public_key: &'a [u8],
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// Extensions, encoded by the functions of [`crate::extension`].
    pub extensions: Vec<Vec<u8>>,
}

/// X.509 version 3, the one with extensions.
const VERSION_3: [u8; 1] = [2];

impl CertificateTemplate<'_> {
    /// The DER encoding of the certificate, signed with the issuer's key.
    pub fn sign(&self, issuer: &PrivateKey) -> Result<Vec<u8>, Error> {
        let algorithm = issuer.algorithm().to_vec();
        let unsigned = write::sequence(&[
            write::field(0, &[write::integer(&VERSION_3)]),
            write::integer(self.serial_number),
            algorithm.clone(),
            self.issuer.to_vec(),
            write::sequence(&[write::time(self.not_before), write::time(self.not_after)]),
            self.subject.to_vec(),
            self.public_key.to_vec(),
            write::field(3, &[write::sequence(&self.extensions)]),
        ]);
        let signature = issuer.sign(&unsigned)?;
        Ok(write::sequence(&[unsigned, algorithm, write::bits(&signature)]))
    }
}

#[cfg(test)]
mod tests;
