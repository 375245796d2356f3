//! Placeholders inside a text: one pass, with the first pattern that matches at each position.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::Normalizer;

/// A time further from now than this is not the server's, and stays.
const RECENT: SignedDuration = SignedDuration::from_hours(48);

/// The alphabet of generated name suffixes.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
/// A longer `generateName` is truncated before the suffix is added.
const GENERATE_NAME_MAX: usize = 58;

const UID_DASHES: [usize; 4] = [8, 13, 18, 23];
const UID_LENGTH: usize = 36;

/// A position in a text: the rest of the text, and the byte before it.
struct Cursor<'a> {
    rest: &'a str,
    before: Option<u8>,
}

/// The length of the matched text, and its placeholder.
type Match = (usize, String);

impl Normalizer {
    /// A text with placeholders.
    pub fn text(&self, text: &str) -> String {
        let text = self.with_known_names(text);
        let mut output = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(letter) = text[at..].chars().next() {
            let cursor = Cursor {
                rest: &text[at..],
                before: at.checked_sub(1).map(|index| text.as_bytes()[index]),
            };
            match self.find(&cursor, letter) {
                Some((length, placeholder)) => {
                    output.push_str(&placeholder);
                    at += length;
                }
                None => {
                    output.push(letter);
                    at += letter.len_utf8();
                }
            }
        }
        output
    }

    fn with_known_names(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, placeholder) in &self.names {
            if text.contains(name.as_str()) {
                text = text.replace(name.as_str(), placeholder);
            }
        }
        self.with_generated_suffixes(&text)
    }

    fn with_generated_suffixes(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for prefix in &self.generated {
            if text.contains(prefix.as_str()) {
                text = replace_suffixes(&text, prefix);
            }
        }
        text
    }

    /// A recorded body with placeholders for generated names wherever [`Self::text`] has them.
    pub(crate) fn recorded(&self, body: &Value) -> Value {
        match body {
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| (name.clone(), self.recorded(value)))
                .collect::<Map<_, _>>()
                .into(),
            Value::Array(items) => items.iter().map(|item| self.recorded(item)).collect(),
            Value::String(text) => Value::String(self.with_generated_suffixes(text)),
            other => other.clone(),
        }
    }

    fn find(&self, cursor: &Cursor<'_>, letter: char) -> Option<Match> {
        match letter {
            'r' => cursor.version(&[
                "resourceVersion\":\"",
                "resourceVersion\\\":\\\"",
                "resourceVersion: \"",
            ]),
            'R' => cursor.version(&[
                "ResourceVersion in the precondition (",
                "ResourceVersion in record (",
            ]),
            'T' => cursor.current_version(),
            'c' => cursor.continue_token().or_else(|| cursor.uid()),
            'X' => cursor.credential(),
            'k' => cursor.volume(),
            ':' => cursor.node_port(),
            'e' => cursor.token().or_else(|| cursor.uid()),
            '0'..='9' | 'a'..='f' => self
                .time(cursor.rest)
                .or_else(|| cursor.uid())
                .or_else(|| cursor.address()),
            _ => None,
        }
    }

    fn time(&self, rest: &str) -> Option<Match> {
        let length = time_length(rest.as_bytes())?;
        let time: Timestamp = rest[..length].parse().ok()?;
        let distance = self.now.duration_since(time).abs();
        (distance < RECENT).then(|| (length, "<time>".to_owned()))
    }
}

impl Cursor<'_> {
    /// One of these prefixes, then a number without leading zero.
    fn version(&self, prefixes: &[&str]) -> Option<Match> {
        let prefix = prefixes.iter().find(|prefix| self.rest.starts_with(**prefix))?;
        let digits = positive(&self.rest[prefix.len()..])?;
        Some((prefix.len() + digits, format!("{prefix}<rv>")))
    }

    /// The continue token of a list in YAML. It contains the resource version.
    fn continue_token(&self) -> Option<Match> {
        let prefix = "continue: ey";
        let token = self.rest.strip_prefix(prefix)?;
        let end =
            token.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-' && letter != '_');
        let length = prefix.len() + end.unwrap_or(token.len());
        Some((length, "continue: <continue>".to_owned()))
    }

    fn current_version(&self) -> Option<Match> {
        let prefix = "Too large resource version: ";
        let after = self.rest.strip_prefix(prefix)?;
        let requested = digits(after)?;
        let after_current = after[requested..].strip_prefix(", current: ")?;
        let current = digits(after_current)?;
        let unchanged = &self.rest[..self.rest.len() - after_current.len()];
        Some((unchanged.len() + current, format!("{unchanged}<rv>")))
    }

    /// The fingerprint of the caller's client certificate.
    fn credential(&self) -> Option<Match> {
        let prefix = "X509SHA256=";
        let digits = self
            .rest
            .strip_prefix(prefix)?
            .bytes()
            .take_while(u8::is_ascii_hexdigit)
            .count();
        (digits == 64).then(|| (prefix.len() + digits, format!("{prefix}<hash>")))
    }

    fn volume(&self) -> Option<Match> {
        let prefix = "kube-api-access-";
        let after = self.rest.strip_prefix(prefix)?.as_bytes();
        let suffix = after.get(..SUFFIX_LENGTH)?;
        let matches = suffix
            .iter()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        matches.then(|| (prefix.len() + SUFFIX_LENGTH, format!("{prefix}<rand>")))
    }

    /// `:30000/` to `:32999/`, as a Service's cell shows it.
    fn node_port(&self) -> Option<Match> {
        let bytes = self.rest.as_bytes().get(1..7)?;
        let matches =
            bytes[0] == b'3' && matches!(bytes[1], b'0'..=b'2') && bytes[2..5].iter().all(u8::is_ascii_digit);
        (matches && bytes[5] == b'/').then(|| (7, ":<port>/".to_owned()))
    }

    /// A JWT: three segments of base64url, of which the first starts with `eyJ`.
    fn token(&self) -> Option<Match> {
        let segment = |text: &str| {
            text.bytes()
                .take_while(|byte| is_word(*byte) || *byte == b'-')
                .count()
        };
        if !self.rest.starts_with("eyJ") {
            return None;
        }
        let first = segment(self.rest);
        let after_first = self.rest[first..].strip_prefix('.')?;
        let second = segment(after_first);
        let third = segment(after_first[second..].strip_prefix('.')?);
        let matches = first >= 13 && second >= 10 && third >= 1;
        matches.then(|| (first + second + third + 2, "<token>".to_owned()))
    }

    fn uid(&self) -> Option<Match> {
        let bytes = self.rest.as_bytes().get(..UID_LENGTH)?;
        let matches = bytes
            .iter()
            .enumerate()
            .all(|(index, byte)| match UID_DASHES.contains(&index) {
                true => *byte == b'-',
                false => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            });
        matches.then(|| (UID_LENGTH, "<uid>".to_owned()))
    }

    /// An address of the service range; the range itself, with its slash, stays.
    fn address(&self) -> Option<Match> {
        if self.before.is_some_and(is_word) {
            return None;
        }
        let prefix = "10.0.0.";
        let after = self.rest.strip_prefix(prefix)?;
        let digits = digits(after)?;
        let next = after.as_bytes().get(digits).copied();
        let ends = digits <= 3 && !next.is_some_and(|byte| is_word(byte) || byte == b'/');
        ends.then(|| (prefix.len() + digits, "<ip>".to_owned()))
    }
}

/// The values of every `"generateName"` in a JSON text.
pub(super) fn generate_names(body: &str) -> impl Iterator<Item = String> {
    body.split("\"generateName\":").skip(1).filter_map(|rest| {
        let name = rest.trim_start().strip_prefix('"')?.split('"').next()?;
        let name: String = name.chars().take(GENERATE_NAME_MAX).collect();
        (!name.is_empty()).then_some(name)
    })
}

/// Replaces the random suffix of every name with this prefix, until none is left: a prefix that looks like a name is
/// replaced to the same extent in a recording, which may have been normalized more than once.
fn replace_suffixes(text: &str, prefix: &str) -> String {
    let mut text = text.to_owned();
    while let Some(start) = suffix_start(&text, prefix) {
        text.replace_range(start..start + SUFFIX_LENGTH, "<rand>");
    }
    text
}

/// The index of the first random suffix after this prefix.
fn suffix_start(text: &str, prefix: &str) -> Option<usize> {
    let starts = text.char_indices().map(|(index, _)| index);
    let mut ends = starts
        .filter(|start| text[*start..].starts_with(prefix))
        .map(|start| start + prefix.len());
    ends.find(|end| {
        let bytes = &text.as_bytes()[*end..];
        let has_suffix = bytes.len() >= SUFFIX_LENGTH
            && bytes[..SUFFIX_LENGTH]
                .iter()
                .all(|byte| SUFFIX_ALPHABET.contains(byte));
        let continues = bytes
            .get(SUFFIX_LENGTH)
            .is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        has_suffix && !continues
    })
}

/// The length of a time in RFC 3339 form at the start of a text.
fn time_length(bytes: &[u8]) -> Option<usize> {
    const SHAPE: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    let start = bytes.get(..SHAPE.len())?;
    let matches = start.iter().zip(SHAPE).all(|(byte, shape)| match shape {
        b'd' => byte.is_ascii_digit(),
        _ => byte == shape,
    });
    if !matches {
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
