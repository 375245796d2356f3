//! Placeholders inside a text: one walk, at each place the first shape that fits.

use jiff::{SignedDuration, Timestamp};

use super::Normal;

/// A time further from now than this was written into the document on purpose.
const RECENT: SignedDuration = SignedDuration::from_hours(48);

/// The letters of generated name endings.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const NAME_ENDING: usize = 5;
/// A longer beginning is cut before the ending is added.
const NAME_BEGINNING_MAX: usize = 58;

const UID_DASHES: [usize; 4] = [8, 13, 18, 23];
const UID_LENGTH: usize = 36;

/// A place in a text: what stands there, and the byte before it.
struct Place<'a> {
    rest: &'a str,
    before: Option<u8>,
}

/// So many bytes stand for this.
type Found = (usize, String);

impl Normal {
    /// A text with placeholders.
    pub fn text(&self, text: &str) -> String {
        let text = self.with_known_names(text);
        let mut normal = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(letter) = text[at..].chars().next() {
            let place = Place {
                rest: &text[at..],
                before: at.checked_sub(1).map(|index| text.as_bytes()[index]),
            };
            match self.find(&place, letter) {
                Some((length, placeholder)) => {
                    normal.push_str(&placeholder);
                    at += length;
                }
                None => {
                    normal.push(letter);
                    at += letter.len_utf8();
                }
            }
        }
        normal
    }

    fn with_known_names(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, shown) in &self.names {
            if text.contains(name.as_str()) {
                text = text.replace(name.as_str(), shown);
            }
        }
        for beginning in &self.generated {
            if text.contains(beginning.as_str()) {
                text = without_endings(&text, beginning);
            }
        }
        text
    }

    fn find(&self, place: &Place<'_>, letter: char) -> Option<Found> {
        match letter {
            'r' => place.version(&[
                "resourceVersion\":\"",
                "resourceVersion\\\":\\\"",
                "resourceVersion: \"",
            ]),
            'R' => place.version(&[
                "ResourceVersion in the precondition (",
                "ResourceVersion in record (",
            ]),
            'T' => place.current_version(),
            'X' => place.credential(),
            'k' => place.volume(),
            ':' => place.node_port(),
            'e' => place.token().or_else(|| place.uid()),
            '0'..='9' | 'a'..='f' => self
                .time(place.rest)
                .or_else(|| place.uid())
                .or_else(|| place.address()),
            _ => None,
        }
    }

    fn time(&self, rest: &str) -> Option<Found> {
        let length = time_length(rest.as_bytes())?;
        let time: Timestamp = rest[..length].parse().ok()?;
        let distance = self.now.duration_since(time).abs();
        (distance < RECENT).then(|| (length, "<time>".to_owned()))
    }
}

impl Place<'_> {
    /// One of these beginnings, then a number that does not begin with zero.
    fn version(&self, beginnings: &[&str]) -> Option<Found> {
        let beginning = beginnings
            .iter()
            .find(|beginning| self.rest.starts_with(**beginning))?;
        let digits = positive(&self.rest[beginning.len()..])?;
        Some((beginning.len() + digits, format!("{beginning}<rv>")))
    }

    fn current_version(&self) -> Option<Found> {
        let beginning = "Too large resource version: ";
        let after = self.rest.strip_prefix(beginning)?;
        let asked = digits(after)?;
        let after_current = after[asked..].strip_prefix(", current: ")?;
        let current = digits(after_current)?;
        let kept = &self.rest[..self.rest.len() - after_current.len()];
        Some((kept.len() + current, format!("{kept}<rv>")))
    }

    /// The fingerprint of the certificate that a caller shows.
    fn credential(&self) -> Option<Found> {
        let beginning = "X509SHA256=";
        let digits = self
            .rest
            .strip_prefix(beginning)?
            .bytes()
            .take_while(u8::is_ascii_hexdigit)
            .count();
        (digits == 64).then(|| (beginning.len() + digits, format!("{beginning}<hash>")))
    }

    fn volume(&self) -> Option<Found> {
        let beginning = "kube-api-access-";
        let after = self.rest.strip_prefix(beginning)?.as_bytes();
        let ending = after.get(..NAME_ENDING)?;
        let fits = ending
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        fits.then(|| (beginning.len() + NAME_ENDING, format!("{beginning}<rand>")))
    }

    /// `:30000/` to `:32999/`, as a Service's cell shows it.
    fn node_port(&self) -> Option<Found> {
        let bytes = self.rest.as_bytes().get(1..7)?;
        let fits =
            bytes[0] == b'3' && matches!(bytes[1], b'0'..=b'2') && bytes[2..5].iter().all(u8::is_ascii_digit);
        (fits && bytes[5] == b'/').then(|| (7, ":<port>/".to_owned()))
    }

    /// Three parts of base64 for the web, of which the first begins as every signed token does.
    fn token(&self) -> Option<Found> {
        let part = |text: &str| {
            text.bytes()
                .take_while(|byte| is_word(*byte) || *byte == b'-')
                .count()
        };
        if !self.rest.starts_with("eyJ") {
            return None;
        }
        let first = part(self.rest);
        let after_first = self.rest[first..].strip_prefix('.')?;
        let second = part(after_first);
        let third = part(after_first[second..].strip_prefix('.')?);
        let fits = first >= 13 && second >= 10 && third >= 1;
        fits.then(|| (first + second + third + 2, "<token>".to_owned()))
    }

    fn uid(&self) -> Option<Found> {
        let bytes = self.rest.as_bytes().get(..UID_LENGTH)?;
        let fits = bytes
            .iter()
            .enumerate()
            .all(|(index, byte)| match UID_DASHES.contains(&index) {
                true => *byte == b'-',
                false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            });
        fits.then(|| (UID_LENGTH, "<uid>".to_owned()))
    }

    /// An address of the service range; the range itself, with its slash, stays.
    fn address(&self) -> Option<Found> {
        if self.before.is_some_and(is_word) {
            return None;
        }
        let beginning = "10.0.0.";
        let after = self.rest.strip_prefix(beginning)?;
        let digits = digits(after)?;
        let next = after.as_bytes().get(digits).copied();
        let ends = digits <= 3 && !next.is_some_and(|byte| is_word(byte) || byte == b'/');
        ends.then(|| (beginning.len() + digits, "<ip>".to_owned()))
    }
}

/// The values of every `"generateName"` in a JSON text.
pub(super) fn generate_names(body: &str) -> impl Iterator<Item = String> {
    body.split("\"generateName\":").skip(1).filter_map(|rest| {
        let name = rest.trim_start().strip_prefix('"')?.split('"').next()?;
        let name: String = name.chars().take(NAME_BEGINNING_MAX).collect();
        (!name.is_empty()).then_some(name)
    })
}

/// Every whole name with this beginning loses its ending.
fn without_endings(text: &str, beginning: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(beginning) {
        let (before, after) = rest.split_at(start + beginning.len());
        normal.push_str(before);
        rest = after;
        let bytes = after.as_bytes();
        let has_ending = bytes.len() >= NAME_ENDING
            && bytes[..NAME_ENDING]
                .iter()
                .all(|byte| NAME_LETTERS.contains(byte));
        let goes_on = bytes
            .get(NAME_ENDING)
            .is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if has_ending && !goes_on {
            normal.push_str("<rand>");
            rest = &after[NAME_ENDING..];
        }
    }
    normal + rest
}

/// The length of a time in RFC 3339 form at the start of a text.
fn time_length(bytes: &[u8]) -> Option<usize> {
    const SHAPE: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    let start = bytes.get(..SHAPE.len())?;
    let fits = start.iter().zip(SHAPE).all(|(byte, shape)| match shape {
        b'd' => byte.is_ascii_digit(),
        _ => byte == shape,
    });
    if !fits {
        return None;
    }
    let mut length = SHAPE.len();
    if bytes.get(length) == Some(&b'.') {
        let fraction = bytes[length + 1..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        length += 1 + fraction;
    }
    match bytes.get(length)? {
        b'Z' => Some(length + 1),
        b'+' | b'-' => (bytes.len() >= length + 6).then_some(length + 6),
        _ => None,
    }
}

fn digits(text: &str) -> Option<usize> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    (count > 0).then_some(count)
}

fn positive(text: &str) -> Option<usize> {
    digits(text).filter(|_| !text.starts_with('0'))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
