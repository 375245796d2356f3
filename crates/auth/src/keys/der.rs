//! Encoding of public keys to DER and of DER to PEM, which the libraries only decode.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The DER prefix of a P-256 public key: sequence, curve OID, bit string header.
const P256: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// The same for P-384.
const P384: &[u8] = &[
    0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81,
    0x04, 0x00, 0x22, 0x03, 0x62, 0x00,
];
/// The algorithm identifier of RSA.
const RSA: &[u8] = &[
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;
/// A line of PEM.
const LINE_BYTES: usize = 64;

/// SubjectPublicKeyInfo of an EC point. The curve follows from the length of the point.
pub(super) fn spki_of_point(point: &[u8]) -> Vec<u8> {
    let start = if point.len() == 65 { P256 } else { P384 };
    [start, point].concat()
}

/// SubjectPublicKeyInfo of an RSA public key.
pub(super) fn spki_of_rsa(key: &[u8]) -> Vec<u8> {
    let bits = [&[0], key].concat();
    let body = [RSA.to_vec(), tagged(BIT_STRING, &bits)].concat();
    tagged(SEQUENCE, &body)
}

fn tagged(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = body.len().to_be_bytes();
    let short = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut out = vec![tag];
    if body.len() >= 0x80 {
        out.push(0x80 | u8::try_from(short.len()).expect("a length has at most eight bytes"));
    }
    out.extend_from_slice(short);
    out.extend_from_slice(body);
    out
}

/// The bytes in PEM form.
pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(LINE_BYTES));
        out.push_str(line);
        out.push('\n');
        rest = behind;
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}
