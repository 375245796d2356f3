//! A minimal DER encoder (X.690), with just the types that a certificate needs.

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const NULL: u8 = 0x05;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// Context-specific tags: primitive and constructed.
const CONTEXT: u8 = 0x80;
const CONTEXT_CONSTRUCTED: u8 = 0xa0;

/// From this year on a time is a GeneralizedTime, with four digits for the year.
const LONG_YEARS: i16 = 2050;

/// A tag-length-value triple.
pub(super) fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut der = vec![tag];
    match u8::try_from(content.len()) {
        Ok(length) if length < 0x80 => der.push(length),
        _ => {
            let length = content.len().to_be_bytes();
            let digits: Vec<u8> = length.into_iter().skip_while(|digit| *digit == 0).collect();
            der.push(0x80 | u8::try_from(digits.len()).expect("a length has at most eight bytes"));
            der.extend(digits);
        }
    }
    der.extend_from_slice(content);
    der
}

pub(super) fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    value(SEQUENCE, &parts.concat())
}

/// A constructed context-specific field with this tag number.
pub(super) fn field(number: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    value(CONTEXT_CONSTRUCTED | number, &parts.concat())
}

/// A primitive context-specific field with this tag number.
pub(super) fn plain_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    value(CONTEXT | number, bytes)
}

/// A non-negative INTEGER of any length.
pub(super) fn integer(bytes: &[u8]) -> Vec<u8> {
    let mut digits: Vec<u8> = bytes.iter().copied().skip_while(|digit| *digit == 0).collect();
    if digits.first().is_none_or(|first| *first >= 0x80) {
        digits.insert(0, 0);
    }
    value(INTEGER, &digits)
}

pub(super) fn null() -> Vec<u8> {
    value(NULL, &[])
}

pub(super) fn boolean_true() -> Vec<u8> {
    value(BOOLEAN, &[0xff])
}

/// A BIT STRING of whole bytes.
pub(super) fn bits(bytes: &[u8]) -> Vec<u8> {
    let mut content = vec![0];
    content.extend_from_slice(bytes);
    value(BIT_STRING, &content)
}

/// A BIT STRING of named bits, the first of them the highest; trailing zero bits are dropped.
pub(super) fn flags(set: u16) -> Vec<u8> {
    let unused = u8::try_from(set.trailing_zeros() % 8).expect("a remainder of 8 fits a byte");
    let bytes = set.to_be_bytes();
    let used = if bytes[1] == 0 { &bytes[..1] } else { &bytes[..] };
    value(BIT_STRING, &[&[unused], used].concat())
}

/// An OBJECT IDENTIFIER.
pub(super) fn identifier(arcs: &[u32]) -> Vec<u8> {
    let mut content = vec![u8::try_from(arcs[0] * 40 + arcs[1]).expect("the first two arcs are small")];
    for arc in &arcs[2..] {
        let groups = (0..5)
            .rev()
            .map(|n| u8::try_from((arc >> (7 * n)) & 0x7f).expect("seven bits fit"));
        let mut groups: Vec<u8> = groups.skip_while(|group| *group == 0).collect();
        if groups.is_empty() {
            groups.push(0);
        }
        let last = groups.len() - 1;
        groups[..last].iter_mut().for_each(|group| *group |= 0x80);
        content.extend(groups);
    }
    value(OBJECT_IDENTIFIER, &content)
}

pub(super) fn time(moment: Timestamp) -> Vec<u8> {
    let time = moment.to_zoned(TimeZone::UTC);
    match time.year() < LONG_YEARS {
        true => value(UTC_TIME, time.strftime("%y%m%d%H%M%SZ").to_string().as_bytes()),
        false => value(
            GENERALIZED_TIME,
            time.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(der: &[u8], expected: &str) {
        let hex: String = der.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
    }

    #[test]
    fn object_identifiers_are_encoded_in_base_128() {
        check(&identifier(&[2, 5, 29, 15]), "0603551d0f");
        check(&identifier(&[1, 2, 840, 10045, 4, 3, 2]), "06082a8648ce3d040302");
        check(
            &identifier(&[2, 16, 840, 1, 113_730, 4, 1]),
            "060960864801 86f8420401".replace(' ', "").as_str(),
        );
    }

    #[test]
    fn numbers_are_never_negative() {
        check(&integer(&[0x80]), "02020080");
        check(&integer(&[0, 0x7f]), "02017f");
        check(&integer(&[]), "020100");
    }

    #[test]
    fn flags_end_with_the_last_that_is_set() {
        check(&flags(0x8000), "03020780");
        check(&flags(0xa000), "030205a0");
        check(&flags(0x0080), "0303070080");
    }

    #[test]
    fn long_values_have_a_long_form_length() {
        check(&value(OCTET_STRING, &[7; 200])[..4], "0481c807");
        check(&value(OCTET_STRING, &[7; 300])[..5], "0482012c07");
    }

    #[test]
    fn times_are_generalized_from_2050() {
        let at = |text: &str| time(text.parse().unwrap());
        assert_eq!(&at("2026-01-02T03:04:05Z")[2..], b"260102030405Z");
        assert_eq!(&at("2050-01-02T03:04:05Z")[2..], b"20500102030405Z");
    }
}
