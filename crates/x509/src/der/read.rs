//! A DER decoder that borrows from its input. Lengths are definite and minimal, as DER requires.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::{BIT_STRING, GENERALIZED_TIME, OBJECT_IDENTIFIER, SEQUENCE, UTC_TIME};

/// The elements of a DER encoding, read from front to back.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

/// One tag-length-value triple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    pub tag: u8,
    pub content: &'a [u8],
    /// Tag, length and content.
    pub raw: &'a [u8],
}

// === impl Reader ===

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The elements of a sequence that is all of `bytes`.
    pub fn of_sequence(bytes: &'a [u8]) -> Option<Self> {
        let mut outer = Self::new(bytes);
        let inner = outer.sequence()?;
        outer.is_empty().then_some(inner)
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next element, whatever its tag.
    pub fn any(&mut self) -> Option<Element<'a>> {
        let (&tag, rest) = self.rest.split_first()?;
        // A tag number above 30 takes several bytes; no structure here has one.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, header) = content_length(rest)?;
        let content = rest.get(header..)?.get(..length)?;
        let (raw, behind) = self.rest.split_at(1 + header + length);
        self.rest = behind;
        Some(Element { tag, content, raw })
    }

    /// The next element, which must have this tag.
    pub fn element(&mut self, tag: u8) -> Option<Element<'a>> {
        self.any().filter(|element| element.tag == tag)
    }

    /// The next element if it has this tag; otherwise nothing is read.
    pub fn optional(&mut self, tag: u8) -> Option<Element<'a>> {
        (self.rest.first() == Some(&tag)).then(|| self.any()).flatten()
    }

    /// The elements of the next element, which must be a sequence.
    pub fn sequence(&mut self) -> Option<Reader<'a>> {
        self.element(SEQUENCE).map(|element| Reader::new(element.content))
    }
}

/// The content length and the number of bytes that encode it.
fn content_length(bytes: &[u8]) -> Option<(usize, usize)> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        return Some((usize::from(first), 1));
    }
    let count = usize::from(first & 0x7f);
    let digits = rest.get(..count)?;
    if digits.is_empty() || digits[0] == 0 || count > 4 {
        return None;
    }
    let length = digits
        .iter()
        .fold(0, |length, digit| length << 8 | usize::from(*digit));
    (length >= 0x80).then_some((length, 1 + count))
}

// === impl Element ===

impl<'a> Element<'a> {
    /// The elements inside.
    pub fn reader(&self) -> Reader<'a> {
        Reader::new(self.content)
    }

    /// Whether this is the object identifier with these arcs.
    pub fn is_identifier(&self, arcs: &[u32]) -> bool {
        self.tag == OBJECT_IDENTIFIER && super::write::identifier(arcs) == self.raw
    }

    /// The bytes of a BIT STRING of whole bytes.
    pub fn bytes_of_bits(&self) -> Option<&'a [u8]> {
        let (&unused, bytes) = self.content.split_first()?;
        (self.tag == BIT_STRING && unused == 0).then_some(bytes)
    }

    /// The bytes of a non-negative INTEGER, without leading zeros.
    pub fn unsigned(&self) -> Option<&'a [u8]> {
        let is_negative = self.content.first().is_none_or(|first| *first >= 0x80);
        let zeros = self.content.iter().take_while(|digit| **digit == 0).count();
        (self.tag == super::INTEGER && !is_negative).then(|| &self.content[zeros..])
    }

    /// A UTCTime or GeneralizedTime.
    pub fn time(&self) -> Option<Timestamp> {
        let digits = std::str::from_utf8(self.content).ok()?.strip_suffix('Z')?;
        let (year, rest) = match (self.tag, digits.len()) {
            (UTC_TIME, 12) => (short_year(number(&digits[..2])?), &digits[2..]),
            (GENERALIZED_TIME, 14) => (number(&digits[..4])?, &digits[4..]),
            _ => return None,
        };
        let part = |index: usize| i8::try_from(number(rest.get(index * 2..index * 2 + 2)?)?).ok();
        let time = DateTime::new(year, part(0)?, part(1)?, part(2)?, part(3)?, part(4)?, 0).ok()?;
        // The last day of 9999, which stands for "never", is beyond the range.
        let zoned = time.to_zoned(TimeZone::UTC);
        Some(zoned.map_or(Timestamp::MAX, |zoned| zoned.timestamp()))
    }
}

/// Two digits stand for the years from 1950 to 2049.
fn short_year(year: i16) -> i16 {
    if year < 50 { 2000 + year } else { 1900 + year }
}

fn number(digits: &str) -> Option<i16> {
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::der::write;

    #[track_caller]
    fn check_length(bytes: &[u8], expected: Option<(usize, usize)>) {
        assert_eq!(content_length(bytes), expected);
    }

    #[test]
    fn lengths_are_definite_and_minimal() {
        check_length(&[0x7f], Some((127, 1)));
        check_length(&[0x81, 0x80], Some((128, 2)));
        check_length(&[0x82, 1, 0x2c], Some((300, 3)));
        check_length(&[0x80], None);
        check_length(&[0x81, 0x7f], None);
        check_length(&[0x82, 0, 0x80], None);
        check_length(&[0x85, 1, 0, 0, 0, 0], None);
        check_length(&[], None);
    }

    #[test]
    fn an_element_longer_than_its_input_is_rejected() {
        assert_eq!(Reader::new(&[0x04, 5, 1, 2]).any(), None);
        assert_eq!(Reader::new(&[0x04]).any(), None);
    }

    #[test]
    fn a_sequence_with_trailing_bytes_is_rejected() {
        assert!(Reader::of_sequence(&[0x30, 0]).is_some());
        assert!(Reader::of_sequence(&[0x30, 0, 0]).is_none());
    }

    #[track_caller]
    fn check_time(tag: u8, text: &str, expected: Option<&str>) {
        let encoded = write::value(tag, text.as_bytes());
        let time = Reader::new(&encoded).any().unwrap().time();
        assert_eq!(time, expected.map(|text| text.parse().unwrap()));
    }

    #[test]
    fn times_have_two_or_four_digits_for_the_year() {
        check_time(UTC_TIME, "260102030405Z", Some("2026-01-02T03:04:05Z"));
        check_time(UTC_TIME, "500102030405Z", Some("1950-01-02T03:04:05Z"));
        check_time(GENERALIZED_TIME, "20500102030405Z", Some("2050-01-02T03:04:05Z"));
        check_time(UTC_TIME, "261302030405Z", None);
        check_time(UTC_TIME, "2601020304Z", None);
        check_time(UTC_TIME, "26+102030405Z", None);
        let never = write::value(GENERALIZED_TIME, b"99991231235959Z");
        assert_eq!(Reader::new(&never).any().unwrap().time(), Some(Timestamp::MAX));
    }
}
