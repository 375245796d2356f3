//! Strings and numbers as the reference server writes them.

use std::io::Write;

/// How a byte is written inside a string: 0 unchanged, `u` as a four-digit escape, [`LOOKAHEAD`] depending on the bytes
/// after it, else as a backslash and that letter.
const ESCAPES: [u8; 256] = escapes();

const LOOKAHEAD: u8 = 2;

const fn escapes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = b'u';
        byte += 1;
    }
    table[b'\n' as usize] = b'n';
    table[b'\r' as usize] = b'r';
    table[b'\t' as usize] = b't';
    table[8] = b'b';
    table[12] = b'f';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'<' as usize] = b'u';
    table[b'>' as usize] = b'u';
    table[b'&' as usize] = b'u';
    table[0xe2] = LOOKAHEAD;
    table
}

/// Bytes that are looked at together, as one number.
const WORD_BYTES: usize = 8;

/// Writes a string with its quotes. Besides what JSON demands, `<`, `>`, `&` and the two Unicode line separators are
/// escaped.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    write_escaped(text, out);
    out.push(b'"');
}

/// Writes the inside of a string.
pub(crate) fn write_escaped(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let (mut start, mut at) = (0, plain_words(bytes));
    while let Some(byte) = bytes.get(at) {
        let escape = ESCAPES[usize::from(*byte)];
        if escape == 0 {
            at += 1;
            continue;
        }
        if escape == LOOKAHEAD && !is_line_separator(&bytes[at..]) {
            at += 1;
        } else {
            out.extend_from_slice(&bytes[start..at]);
            at += write_escape(escape, &bytes[at..], out);
            start = at;
        }
        at += plain_words(&bytes[at..]);
    }
    out.extend_from_slice(&bytes[start..]);
}

/// The bytes at the beginning of which none needs an escape: whole words, or all.
fn plain_words(bytes: &[u8]) -> usize {
    let Some(last) = bytes.last_chunk() else {
        return if is_short_plain(bytes) { bytes.len() } else { 0 };
    };
    let (words, rest) = bytes.as_chunks();
    let plain = words.iter().take_while(|word| is_plain(**word)).count();
    // The rest is a part of the last word, which overlaps with the one before.
    match plain == words.len() && !rest.is_empty() && is_plain(*last) {
        true => bytes.len(),
        false => plain * WORD_BYTES,
    }
}

/// Whether no byte may need an escape, for fewer bytes than a word has. The shortest are not looked at.
fn is_short_plain(bytes: &[u8]) -> bool {
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some([a, b, c, d]), Some([e, f, g, h])) => is_plain([*a, *b, *c, *d, *e, *f, *g, *h]),
        _ => false,
    }
}

/// Whether no byte of a word may need an escape. A byte is looked for in all of them at once: a word less one in each byte
/// borrows from the high bit of a byte that is zero. Characters that differ in one bit are looked for together.
#[inline]
fn is_plain(word: [u8; WORD_BYTES]) -> bool {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let word = u64::from_le_bytes(word);
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word;
    let equal = |word: u64, byte: u8| zeros(word ^ (ONES * u64::from(byte)));
    let quote_or_ampersand = equal(word | (ONES * u64::from(b'"' ^ b'&')), b'"' | b'&');
    let less_or_greater = equal(word | (ONES * u64::from(b'<' ^ b'>')), b'<' | b'>');
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let found = quote_or_ampersand | less_or_greater | equal(word, b'\\') | equal(word, 0xe2) | control;
    found & HIGH == 0
}

/// Writes one escape and returns how many bytes it stands for.
fn write_escape(escape: u8, rest: &[u8], out: &mut Vec<u8>) -> usize {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match escape {
        LOOKAHEAD => {
            out.extend_from_slice(b"\\u202");
            out.push(HEX[usize::from(rest[2] & 0xf)]);
            return 3;
        }
        b'u' => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[HEX[usize::from(rest[0] >> 4)], HEX[usize::from(rest[0] & 0xf)]]);
        }
        letter => out.extend_from_slice(&[b'\\', letter]),
    }
    1
}

/// U+2028 and U+2029.
fn is_line_separator(rest: &[u8]) -> bool {
    matches!(rest, [0xe2, 0x80, 0xa8 | 0xa9, ..])
}

/// Writes a whole number.
pub(super) fn write_integer(number: i64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Writes a number in the shortest form that reads back the same; very small and very large ones with an exponent.
pub fn write_number(number: f64, out: &mut Vec<u8>) {
    let size = number.abs();
    let written = match size {
        0.0 => write!(out, "{number}"),
        _ if !number.is_finite() => write!(out, "null"),
        _ if !(1e-6..1e21).contains(&size) => write_with_exponent(number, out),
        _ => write!(out, "{number}"),
    };
    written.expect("a vector takes any bytes");
}

/// `1e+21`, `1e-7`: the exponent has a sign and no leading zero.
fn write_with_exponent(number: f64, out: &mut Vec<u8>) -> std::io::Result<()> {
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').expect("the form has an exponent");
    let sign = if exponent.starts_with('-') { "" } else { "+" };
    write!(out, "{digits}e{sign}{exponent}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What [`write_string`] writes for one character.
    fn written(character: char) -> String {
        match character {
            '\n' => "\\n".into(),
            '"' => "\\\"".into(),
            '\\' => "\\\\".into(),
            '<' | '>' | '&' | '\u{1}' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", u32::from(character)),
            plain => plain.into(),
        }
    }

    #[test]
    fn every_character_is_escaped_at_every_position() {
        let characters = [
            '\n', '"', '\\', '<', '>', '&', '\u{1}', '\u{2028}', '\u{2029}', '€', 'é', ' ',
        ];
        for character in characters {
            for before in 0..3 * WORD_BYTES {
                for after in [0, 1, WORD_BYTES, 2 * WORD_BYTES + 1] {
                    let (before, after) = ("x".repeat(before), "y".repeat(after));
                    let mut out = Vec::new();
                    write_string(&format!("{before}{character}{after}{character}"), &mut out);
                    let character = written(character);
                    let expected = format!("\"{before}{character}{after}{character}\"");
                    assert_eq!(String::from_utf8(out).unwrap(), expected);
                }
            }
        }
    }
}
