//! Errors of reading and issuing certificates.

use std::io;
use std::path::{Path, PathBuf};

/// Why a certificate cannot be read, issued or stored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory cannot be read or written.
    #[error("cannot {action} {}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A key cannot be generated, or a certificate not be signed.
    #[error("cannot issue the certificate {name:?}")]
    Issue {
        name: String,
        source: setpoint_x509::Error,
    },
    /// The certificate or the key of a CA cannot be used to sign.
    #[error("invalid CA certificate or key")]
    Authority(#[source] setpoint_x509::Error),
    /// A certificate or a key cannot be read.
    #[error("unreadable certificate or key")]
    Certificate(#[source] setpoint_x509::Error),
    /// The key of a CA is not that of its certificate.
    #[error("{file}.key is not the key of {file}.crt")]
    Mismatch { file: String },
    /// Files cannot be used together.
    #[error("cannot use {}: {reason}", display(paths))]
    Invalid { paths: Vec<PathBuf>, reason: String },
    /// A certificate or key is not valid PEM.
    #[error("invalid certificate or key")]
    Pem(#[from] rustls_pki_types::pem::Error),
}

impl Error {
    /// An error of a file operation, such as `read`, on a path.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// An error of issuing the certificate of a name.
    pub(crate) fn issue(name: &str) -> impl Fn(setpoint_x509::Error) -> Self {
        move |source| Self::Issue {
            name: name.to_owned(),
            source,
        }
    }
}

fn display(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}
