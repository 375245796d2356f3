//! Flags of the serving certificates, with kube-apiserver's names.

use std::path::PathBuf;
use std::str::FromStr;

/// The flags of the serving certificates.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TlsFlags {
    /// File containing the default x509 certificate for HTTPS, with those of intermediate CAs after it. It is read again
    /// when it changes [default: a certificate of the cluster's CA, which is renewed automatically].
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// File containing the private key of the certificate in `--tls-cert-file`.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Files of a certificate and its private key for certain server names, such as `example.crt,example.key` or
    /// `foo.crt,foo.key:*.foo.com,foo.com`; without names, those in the certificate. May be given several times.
    #[arg(long, value_name = "CERT,KEY[:NAME,...]")]
    pub tls_sni_cert_key: Vec<SniCertKey>,
}

/// The files of a certificate for certain server names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SniCertKey {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Empty for the names in the certificate.
    pub names: Vec<String>,
}

impl FromStr for SniCertKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (files, names) = match text.split_once(':') {
            Some((_, names)) if names.trim().is_empty() => {
                return Err("empty names list is not allowed".to_owned());
            }
            Some((files, names)) => (
                files,
                names.split(',').map(|name| name.trim().to_owned()).collect(),
            ),
            None => (text, Vec::new()),
        };
        match files.split(',').map(str::trim).collect::<Vec<_>>()[..] {
            [certificate, key] => Ok(Self {
                certificate: certificate.into(),
                key: key.into(),
                names,
            }),
            _ => Err("expected comma separated certificate and key file paths".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(&str, &str, &[&str]), &str>) {
        let expected = expected.map(|(certificate, key, names)| SniCertKey {
            certificate: certificate.into(),
            key: key.into(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        });
        assert_eq!(text.parse(), expected.map_err(str::to_owned));
    }

    #[test]
    fn an_sni_certificate_has_two_files_and_perhaps_names() {
        check("a.crt,a.key", Ok(("a.crt", "a.key", &[])));
        check(
            "a.crt, a.key: *.a.org,a.org",
            Ok(("a.crt", "a.key", &["*.a.org", "a.org"])),
        );
        check(
            "a.crt",
            Err("expected comma separated certificate and key file paths"),
        );
        check("a.crt,a.key:", Err("empty names list is not allowed"));
    }
}
