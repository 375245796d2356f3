//! The query of a URL, decoded once.

use std::borrow::Cow;

/// Query parameters in their original order. A parameter may occur more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Parses the query string.
    pub fn parse(text: Option<&'a str>) -> Self {
        let pairs = text
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name, true), decode(value, true))
        });
        Self {
            pairs: pairs.collect(),
        }
    }

    /// The first value of a parameter.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The first value of a parameter that is not empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.find(name).filter(|value| !value.is_empty())
    }

    /// Every value of a parameter.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.pairs
            .iter()
            .filter(move |(own, _)| own == name)
            .map(|(_, value)| value.as_ref())
    }

    /// A boolean. Only `false` and `0` are false: `?watch` and `?watch=yes` are both true.
    pub fn flag(&self, name: &str) -> Option<bool> {
        let value = self.find(name)?;
        Some(!(value.eq_ignore_ascii_case("false") || value == "0"))
    }
}

/// Decodes percent-encoding. Invalid UTF-8 is replaced, invalid escapes stay as they are.
pub fn decode(text: &str, plus_is_space: bool) -> Cow<'_, str> {
    if !text
        .bytes()
        .any(|byte| byte == b'%' || (plus_is_space && byte == b'+'))
    {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escape = (byte == b'%')
            .then(|| bytes.get(at + 1..at + 3).and_then(hex_byte))
            .flatten();
        decoded.push(match (escape, byte) {
            (Some(escaped), _) => escaped,
            (None, b'+') if plus_is_space => b' ',
            (None, byte) => byte,
        });
        at += if escape.is_some() { 3 } else { 1 };
    }
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let value = digit(digits[0])? * 16 + digit(digits[1])?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let query = Query::parse(Some(text));
        let pairs: Vec<(&str, &str)> = query
            .pairs
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        assert_eq!(pairs, expected);
    }

    #[test]
    fn a_query_is_pairs_in_order() {
        check("", &[]);
        check("a=1&b=2&a=3", &[("a", "1"), ("b", "2"), ("a", "3")]);
        check("watch&x=", &[("watch", ""), ("x", "")]);
        check("&&a=1&", &[("a", "1")]);
    }

    #[test]
    fn escapes_are_decoded_once() {
        check(
            "labelSelector=par%20in%20%28a%2Cb%29",
            &[("labelSelector", "par in (a,b)")],
        );
        check("a=b+c", &[("a", "b c")]);
        check("a=%2525", &[("a", "%25")]);
    }

    #[test]
    fn invalid_escapes_stay_as_they_are() {
        check("a=100%", &[("a", "100%")]);
        check("a=%zz%4", &[("a", "%zz%4")]);
        check("a=%ff", &[("a", "\u{fffd}")]);
    }

    #[test]
    fn only_false_and_zero_are_false() {
        for (text, expected) in [
            ("w=true", true),
            ("w=1", true),
            ("w", true),
            ("w=False", false),
            ("w=0", false),
        ] {
            assert_eq!(Query::parse(Some(text)).flag("w"), Some(expected), "{text}");
        }
        assert_eq!(Query::parse(None).flag("w"), None);
    }
}
