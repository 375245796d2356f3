//! Base 85: bytes as a string that JSON does not escape: five characters for four bytes, where base 64 needs five and
//! a third.
//!
//! The alphabet is that of Z85 (<https://rfc.zeromq.org/spec/32/>). A last group of fewer than four bytes takes one
//! character more than it has bytes.

const SIGNS: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
/// The value of each character; [`NONE`] for characters outside the alphabet.
const VALUES: [u8; 256] = values();
const NONE: u8 = u8::MAX;
const HIGHEST: u32 = 84;

/// Appends the encoded bytes.
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + bytes.len().div_ceil(4));
    for group in bytes.chunks(4) {
        let mut whole = [0; 4];
        whole[..group.len()].copy_from_slice(group);
        let mut number = u32::from_be_bytes(whole);
        let mut signs = [0; 5];
        for sign in signs.iter_mut().rev() {
            *sign = SIGNS[(number % 85) as usize];
            number /= 85;
        }
        out.extend_from_slice(&signs[..=group.len()]);
    }
}

/// Decodes a text; `None` if it is not base 85.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 5 * 4 + 4);
    for group in text.chunks(5) {
        let length = group.len().checked_sub(1).filter(|length| *length > 0)?;
        let mut number = 0_u32;
        for field in 0..5 {
            let value = match group.get(field) {
                Some(sign) => value(*sign)?,
                None => HIGHEST,
            };
            number = number.checked_mul(85)?.checked_add(value)?;
        }
        bytes.extend_from_slice(&number.to_be_bytes()[..length]);
    }
    Some(bytes)
}

fn value(sign: u8) -> Option<u32> {
    let value = VALUES[usize::from(sign)];
    (value != NONE).then_some(u32::from(value))
}

const fn values() -> [u8; 256] {
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < SIGNS.len() {
        values[SIGNS[value] as usize] = value as u8;
        value += 1;
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], text: &str) {
        let mut encoded = Vec::new();
        encode(bytes, &mut encoded);
        assert_eq!(std::str::from_utf8(&encoded).unwrap(), text);
        assert_eq!(decode(text.as_bytes()).as_deref(), Some(bytes));
    }

    #[test]
    fn bytes_survive_a_round_trip() {
        check(b"", "");
        check(&[0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B], "HelloWorld");
        check(&[0xFF; 4], "%nSc0");
        check(&[0], "00");
        check(&[0xFF], "@@");
        check(&[0xFF, 0xFF, 0xFF], "%nS9");
    }

    #[test]
    fn every_length_survives_a_round_trip() {
        let bytes: Vec<u8> = (0..=255).rev().collect();
        for length in 0..bytes.len() {
            let mut text = Vec::new();
            encode(&bytes[..length], &mut text);
            assert_eq!(decode(&text).as_deref(), Some(&bytes[..length]));
        }
    }

    #[test]
    fn invalid_text_is_not_decoded() {
        for text in ["0", "00000a", "000\"0", "#####", "é0"] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }
}
