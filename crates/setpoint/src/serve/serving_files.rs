//! The serving certificates of the user, from the files of `--tls-cert-file` and `--tls-sni-cert-key`.

use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use setpoint_apiserver::tls::{Identity, NamedCertificate};
use setpoint_pki::{CertKeyPair, CertificateInfo, DynamicFiles, LOOPBACK_NAME, Pki};

use crate::args::TlsFlags;

/// The files of the flags and the certificates in them. They are read again when they change.
#[derive(Debug)]
pub(super) struct ServingFiles {
    default: Option<ServingFile>,
    named: Vec<(ServingFile, Vec<String>)>,
}

#[derive(Debug)]
struct ServingFile {
    files: DynamicFiles<CertKeyPair>,
    pair: CertKeyPair,
}

// === impl ServingFiles ===

impl ServingFiles {
    pub(super) fn open(flags: &TlsFlags) -> Result<Self> {
        let default = match (&flags.tls_cert_file, &flags.tls_private_key_file) {
            (Some(certificate), Some(key)) => Some(ServingFile::open(certificate, key)?),
            _ => None,
        };
        let mut named = Vec::new();
        for sni in &flags.tls_sni_cert_key {
            named.push((ServingFile::open(&sni.certificate, &sni.key)?, sni.names.clone()));
        }
        Ok(Self { default, named })
    }

    /// Whether clients that know only the cluster's CA need [`LOOPBACK_NAME`] to get a certificate of it.
    pub(super) fn replaces_default(&self) -> bool {
        self.default.is_some()
    }

    /// Reads changed files. Returns whether there are new certificates.
    pub(super) fn poll(&mut self) -> bool {
        let named = self.named.iter_mut().map(|(file, _)| file);
        let polled: Vec<bool> = self
            .default
            .iter_mut()
            .chain(named)
            .map(ServingFile::poll)
            .collect();
        polled.contains(&true)
    }

    /// The certificates to serve: the user's, and for the names that they do not have the one of the cluster's CA.
    /// Names that a flag sets take precedence over those in certificates, as upstream.
    pub(super) fn identity(&self, pki: &Pki) -> Result<Identity> {
        let default = self.default.as_ref().map_or(&pki.server, |file| &file.pair);
        let mut named = vec![named_certificate(&pki.server, vec![LOOPBACK_NAME.to_owned()])?];
        let (explicit, extracted): (Vec<_>, Vec<_>) =
            self.named.iter().partition(|(_, names)| !names.is_empty());
        for (file, names) in explicit {
            named.push(named_certificate(&file.pair, names.clone())?);
        }
        let extracted = extracted.iter().map(|(file, _)| &file.pair);
        for pair in extracted.chain([default, &pki.server]) {
            named.push(named_certificate(pair, names(pair)?)?);
        }
        Ok(Identity {
            chain: default.chain().context("cannot use the server's certificate")?,
            key: default.key_der().context("cannot use the server's key")?,
            named,
            client_ca: pki.authority.trusted().context("cannot use the cluster's CA")?,
            proxy_ca: Vec::new(),
        })
    }

    /// The files' certificates and when they expire.
    pub(super) fn expiries(&self) -> Vec<(String, Timestamp)> {
        let named = self.named.iter().map(|(file, _)| file);
        let all = self.default.iter().chain(named);
        let infos =
            all.filter_map(|file| CertificateInfo::all_from_pem(file.pair.certificate.as_bytes()).ok());
        infos
            .flatten()
            .map(|info| (info.subject, info.not_after))
            .collect()
    }
}

// === impl ServingFile ===

impl ServingFile {
    fn open(certificate: &Path, key: &Path) -> Result<Self> {
        let paths = vec![certificate.to_owned(), key.to_owned()];
        let (files, pair) = DynamicFiles::open(paths, parse)?;
        Ok(Self { files, pair })
    }

    fn poll(&mut self) -> bool {
        match self.files.poll() {
            Ok(None) => false,
            Ok(Some(pair)) => {
                tracing::info!(files = ?self.files, "the serving certificate was read again");
                self.pair = pair;
                true
            }
            Err(error) => {
                tracing::warn!(%error, "the previous serving certificate stays in use");
                false
            }
        }
    }
}

/// The pair in the files of a certificate and its key.
fn parse(contents: &[Vec<u8>]) -> Result<CertKeyPair, String> {
    let text = |at: usize| String::from_utf8_lossy(&contents[at]).into_owned();
    let (certificate, key) = (text(0), text(1));
    let pair = CertKeyPair { certificate, key };
    pair.chain().map_err(|error| error.to_string())?;
    match pair.is_matching() {
        true => Ok(pair),
        false => Err("the private key does not belong to the certificate".to_owned()),
    }
}

fn named_certificate(pair: &CertKeyPair, names: Vec<String>) -> Result<NamedCertificate> {
    Ok(NamedCertificate {
        names,
        chain: pair.chain()?,
        key: pair.key_der()?,
    })
}

/// The alternative names in the first certificate of a chain.
fn names(pair: &CertKeyPair) -> Result<Vec<String>> {
    Ok(CertificateInfo::from_der(&pair.certificate_der()?)?.names)
}
