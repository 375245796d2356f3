//! A minimal DER encoder: functions that return the encoding of one value.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{
    BIT_STRING, BOOLEAN, CONTEXT, CONTEXT_CONSTRUCTED, GENERALIZED_TIME, INTEGER, NULL, OBJECT_IDENTIFIER,
    OCTET_STRING, SEQUENCE, SET, UTC_TIME, UTF8_STRING,
};

/// From this year on a time is a GeneralizedTime, with four digits for the year.
const LONG_YEARS: i16 = 2050;

/// A tag-length-value triple.
pub fn value(tag: u8, content: &[u8]) -> Vec<u8> {
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

pub fn sequence(elements: &[Vec<u8>]) -> Vec<u8> {
    value(SEQUENCE, &elements.concat())
}

/// A SET of one element.
pub fn set_of(element: &[u8]) -> Vec<u8> {
    value(SET, element)
}

/// A constructed context-specific field with this tag number.
pub fn field(number: u8, elements: &[Vec<u8>]) -> Vec<u8> {
    value(CONTEXT_CONSTRUCTED | number, &elements.concat())
}

/// A primitive context-specific field with this tag number.
pub fn plain_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    value(CONTEXT | number, bytes)
}

/// A non-negative INTEGER of any length.
pub fn integer(bytes: &[u8]) -> Vec<u8> {
    let mut digits: Vec<u8> = bytes.iter().copied().skip_while(|digit| *digit == 0).collect();
    if digits.first().is_none_or(|first| *first >= 0x80) {
        digits.insert(0, 0);
    }
    value(INTEGER, &digits)
}

pub fn octets(bytes: &[u8]) -> Vec<u8> {
    value(OCTET_STRING, bytes)
}

pub fn utf8(text: &str) -> Vec<u8> {
    value(UTF8_STRING, text.as_bytes())
}

pub fn null() -> Vec<u8> {
    value(NULL, &[])
}

pub fn boolean_true() -> Vec<u8> {
    value(BOOLEAN, &[0xff])
}

/// A BIT STRING of whole bytes.
pub fn bits(bytes: &[u8]) -> Vec<u8> {
    let mut content = vec![0];
    content.extend_from_slice(bytes);
    value(BIT_STRING, &content)
}

/// A BIT STRING of named bits, the first of them the highest; trailing zero bits are dropped.
pub fn flags(set: u16) -> Vec<u8> {
    let unused = u8::try_from(set.trailing_zeros() % 8).expect("a remainder of 8 fits a byte");
    let bytes = set.to_be_bytes();
    let used = if bytes[1] == 0 { &bytes[..1] } else { &bytes[..] };
    value(BIT_STRING, &[&[unused], used].concat())
}

/// An OBJECT IDENTIFIER.
pub fn identifier(arcs: &[u32]) -> Vec<u8> {
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

/// A UTCTime, or from 2050 on a GeneralizedTime.
pub fn time(time: Timestamp) -> Vec<u8> {
    let time = time.to_zoned(TimeZone::UTC);
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
