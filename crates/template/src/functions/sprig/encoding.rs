//! Base 64 and base 32.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::Type::String as Text;
use super::super::{Row, row};
use super::text::text;

pub(super) const ROWS: &[Row] = &[
    row("b64enc", &[Text], |_, args| {
        text(STANDARD.encode(args[0].as_str()))
    }),
    row("b64dec", &[Text], |_, args| text(decode64(args[0].as_str()))),
    row("b32enc", &[Text], |_, args| {
        text(encode32(args[0].as_str().as_bytes()))
    }),
    row("b32dec", &[Text], |_, args| text(decode32(args[0].as_str()))),
];

/// The decoded text, or the error as text. Bytes that are not UTF-8 become U+FFFD.
fn decode64(value: &str) -> String {
    let clean = value.replace(['\r', '\n'], "");
    match STANDARD.decode(&clean) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => format!("illegal base64 data at input byte {}", first_error64(value)),
    }
}

/// The byte at which Go's decoder stops.
fn first_error64(value: &str) -> usize {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    let mut in_group = 0;
    for (i, byte) in value.bytes().enumerate() {
        match byte {
            b'\r' | b'\n' => {}
            b'=' if in_group >= 2 => return after_padding(value, i, in_group),
            byte if is_digit(byte) => {
                in_group = (in_group + 1) % 4;
            }
            _ => return i,
        }
    }
    value.len() - in_group
}

fn after_padding(value: &str, at: usize, in_group: usize) -> usize {
    let rest = &value.as_bytes()[at + 1..];
    match (in_group, rest) {
        (2, [] | [b'=']) | (3, []) => value.len(),
        (2, [b'=', ..]) => at + 2,
        _ => at + 1,
    }
}

const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn encode32(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(5) {
        let mut group = [0; 5];
        group[..chunk.len()].copy_from_slice(chunk);
        let bits = group
            .iter()
            .fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        let digits = (chunk.len() * 8).div_ceil(5);
        for i in 0..8 {
            let digit = usize::try_from(bits >> (35 - 5 * i) & 31).unwrap_or(0);
            out.push(if i < digits {
                char::from(ALPHABET[digit])
            } else {
                '='
            });
        }
    }
    out
}

/// The decoded text, or the error as text.
fn decode32(value: &str) -> String {
    let clean: Vec<u8> = value
        .bytes()
        .filter(|byte| !matches!(byte, b'\r' | b'\n'))
        .collect();
    let digits: Vec<u8> = clean.iter().copied().take_while(|byte| *byte != b'=').collect();
    let mut bytes = Vec::new();
    for (group, chunk) in digits.chunks(8).enumerate() {
        let mut bits = 0_u64;
        for (i, byte) in chunk.iter().enumerate() {
            let Some(digit) = ALPHABET.iter().position(|known| known == byte) else {
                return format!("illegal base32 data at input byte {}", group * 8 + i);
            };
            bits |= (digit as u64) << (35 - 5 * i);
        }
        let count = chunk.len() * 5 / 8;
        bytes.extend_from_slice(&bits.to_be_bytes()[3..3 + count]);
    }
    if !clean.len().is_multiple_of(8) {
        return format!(
            "illegal base32 data at input byte {}",
            clean.len() / 8 * 8 + clean.len() % 8
        );
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
