//! Encoding to PEM (RFC 7468). `rustls-pki-types` decodes it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub const CERTIFICATE: &str = "CERTIFICATE";
pub const PRIVATE_KEY: &str = "PRIVATE KEY";
pub const PUBLIC_KEY: &str = "PUBLIC KEY";

const LINE_BYTES: usize = 64;

/// The bytes as a PEM block with this label.
pub fn encode(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(LINE_BYTES));
        pem.push_str(line);
        pem.push('\n');
        rest = behind;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}
