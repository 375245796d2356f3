//! Changes that a command makes, due or not: new certificates, and the next step of a rotation of the CAs. A running
//! server finds them when it reads the files again.

use std::path::Path;

use jiff::Timestamp;
use setpoint_x509::{Certificate, oid};

use crate::authority::AuthorityFiles;
use crate::certificates::{
    ADMINISTRATOR, KUBELET_CLIENT, PROXY, SERVER, cluster_authority, lock, proxy_authority,
};
use crate::issue::{self, Subject};
use crate::{Authority, CertKeyPair, Error, Rotation};

/// Issues the server and client certificates in a directory again, with the names that they have. Returns their files.
pub fn renew_certificates(dir: &Path, now: Timestamp) -> Result<Vec<String>, Error> {
    let _lock = lock(dir)?;
    let mut renewed = Vec::new();
    let issued = [
        (SERVER, cluster_authority(dir), oid::SERVER_AUTH),
        (ADMINISTRATOR, cluster_authority(dir), oid::CLIENT_AUTH),
        (KUBELET_CLIENT, cluster_authority(dir), oid::CLIENT_AUTH),
        (PROXY, proxy_authority(dir), oid::CLIENT_AUTH),
    ];
    for (file, authority, usage) in issued {
        if let Some(pair) = CertKeyPair::read(dir, file)? {
            let authority = Authority::open(authority, now)?;
            let subject = subject(&pair, file, usage)?;
            issue::signed(&authority.signing, file, &subject, now)?.write(dir, file)?;
            renewed.push(format!("{file}.crt"));
        }
    }
    Ok(renewed)
}

/// Takes the next step of the rotation of both CAs. Returns the files and the steps.
pub fn rotate_authorities(dir: &Path, now: Timestamp) -> Result<Vec<(String, Rotation)>, Error> {
    let _lock = lock(dir)?;
    let rotate = |files: AuthorityFiles<'_>| -> Result<(String, Rotation), Error> {
        let authority = Authority::open(files, now)?;
        let step = files.next_step()?;
        files.rotate(step, authority.signing, now)?;
        Ok((format!("{}.crt", files.file), step))
    };
    Ok(vec![
        rotate(cluster_authority(dir))?,
        rotate(proxy_authority(dir))?,
    ])
}

/// The subject of a certificate, to issue it again.
fn subject(pair: &CertKeyPair, file: &str, usage: &'static [u32]) -> Result<Subject, Error> {
    let der = pair.certificate_der()?;
    let certificate = Certificate::from_der(&der).map_err(Error::issue(file))?;
    Ok(Subject {
        name: certificate.subject.raw.to_vec(),
        alt_names: certificate.subject_alt_names(),
        usage,
    })
}
