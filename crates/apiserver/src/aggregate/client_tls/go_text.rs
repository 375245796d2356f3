//! The errors of failed certificate verification and TLS handshakes, with Go's text.

use std::io;

use jiff::Timestamp;
use rustls::{CertificateError, Error, InvalidMessage};
use rustls_pki_types::{ServerName, UnixTime};

/// The error of a failed handshake.
pub(crate) fn certificate_error(error: &io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let text = match inner {
        Some(Error::InvalidCertificate(reason)) => {
            format!("tls: failed to verify certificate: x509: {}", reason_text(reason))
        }
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        _ if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), text)
}

fn reason_text(reason: &CertificateError) -> String {
    match reason {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::ExpiredContext { time, not_after } => validity_text(*time, "after", *not_after),
        CertificateError::NotValidYetContext { time, not_before } => {
            validity_text(*time, "before", *not_before)
        }
        CertificateError::NotValidForNameContext { expected, presented } => name_text(expected, presented),
        other => other.to_string(),
    }
}

fn validity_text(now: UnixTime, relation: &str, limit: UnixTime) -> String {
    let text = |time: UnixTime| {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
    };
    format!(
        "certificate has expired or is not yet valid: current time {} is {relation} {}",
        text(now),
        text(limit)
    )
}

/// The text of a certificate for other names. The verifier presents them as `DnsName("a.b")` and `IpAddress(1.2.3.4)`.
fn name_text(expected: &ServerName<'_>, presented: &[String]) -> String {
    let names = |prefix: &str| -> Vec<&str> {
        let names = presented.iter().filter_map(|name| name.strip_prefix(prefix));
        let names = names.map(|name| name.trim_end_matches(')').trim_matches('"'));
        names.collect()
    };
    let host = expected.to_str();
    let valid = match expected {
        ServerName::IpAddress(_) => {
            let addresses = names("IpAddress(");
            if addresses.is_empty() {
                return format!(
                    "cannot validate certificate for {host} because it doesn't contain any IP SANs"
                );
            }
            addresses
        }
        _ => names("DnsName("),
    };
    match valid.is_empty() {
        true => format!("certificate is not valid for any names, but wanted to match {host}"),
        false => format!("certificate is valid for {}, not {host}", valid.join(", ")),
    }
}
