//! Field selectors: `spec.nodeName=a,status.phase!=Running`.

use std::str::FromStr;

use compact_str::CompactString;

use super::ParseSelectorError;

/// Terms that must all match. The empty selector matches every object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: CompactString,
    value: CompactString,
    equal: bool,
}

impl FieldSelector {
    /// A selector of the objects whose field has this value.
    pub fn equals(field: &str, value: &str) -> Self {
        Self {
            terms: vec![Term {
                field: field.into(),
                value: value.into(),
                equal: true,
            }],
        }
    }

    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The same selector with each field label replaced (upstream: `Selector.Transform`).
    #[must_use]
    pub fn rename_fields<'a>(&'a self, rename: impl Fn(&'a str) -> &'a str) -> Self {
        let terms = self.terms.iter().map(|term| Term {
            field: rename(&term.field).into(),
            ..term.clone()
        });
        Self {
            terms: terms.collect(),
        }
    }

    /// The terms: field, value, and whether the field must have that value or must not.
    pub fn terms(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.terms
            .iter()
            .map(|term| (term.field.as_str(), term.value.as_str(), term.equal))
    }

    /// The field labels of all terms.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|term| term.field.as_str())
    }

    /// The terms about name and namespace, which an object has in every version.
    #[must_use]
    pub fn only_metadata(&self) -> Self {
        let terms = self
            .terms
            .iter()
            .filter(|term| term.field.starts_with("metadata."));
        Self {
            terms: terms.cloned().collect(),
        }
    }

    /// The value that the selector requires of the field, if any (upstream: `RequiresExactMatch`).
    pub fn exact_match(&self, field: &str) -> Option<&str> {
        let term = self.terms.iter().find(|term| term.equal && term.field == field)?;
        Some(&term.value)
    }

    /// Whether all terms match. An absent field counts as empty.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        let holds = |term: &Term| (value_of(&term.field).unwrap_or_default() == term.value) == term.equal;
        self.terms.iter().all(holds)
    }
}

impl std::fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (n, term) in self.terms.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            let operator = if term.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace(',', "\\,")
        .replace('=', "\\=")
}

impl FromStr for FieldSelector {
    type Err = ParseSelectorError;

    fn from_str(text: &str) -> Result<Self, ParseSelectorError> {
        let mut terms = Vec::new();
        for part in split_terms(text) {
            if !part.is_empty() {
                terms.push(term(part)?);
            }
        }
        Ok(Self { terms })
    }
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn term(part: &str) -> Result<Term, ParseSelectorError> {
    let bad = || ParseSelectorError(format!("invalid selector: '{part}'; can't understand '{part}'"));
    let at = part.find(['=', '!']).ok_or_else(bad)?;
    let (field, rest) = part.split_at(at);
    let (value, equal) = match rest.as_bytes() {
        [b'!', b'=', ..] => (&rest[2..], false),
        [b'=', b'=', ..] => (&rest[2..], true),
        [b'=', ..] => (&rest[1..], true),
        _ => return Err(bad()),
    };
    Ok(Term {
        field: field.into(),
        value: unescape(value)?,
        equal,
    })
}

fn unescape(value: &str) -> Result<CompactString, ParseSelectorError> {
    let mut plain = CompactString::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                Some(c) => {
                    return Err(ParseSelectorError(format!(
                        "invalid field selector: invalid escape sequence: \\{c}"
                    )));
                }
                None => {
                    return Err(ParseSelectorError(
                        "invalid field selector: invalid escape sequence: \\".to_owned(),
                    ));
                }
            },
            ',' | '=' => {
                return Err(ParseSelectorError(format!(
                    "invalid field selector: unescaped character in value: {c}"
                )));
            }
            c => plain.push(c),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(selector: &str, object: &[(&str, &'static str)], expected: bool) {
        let selector: FieldSelector = selector.parse().unwrap();
        let value = |label: &str| {
            object
                .iter()
                .find(|(own, _)| *own == label)
                .map(|(_, value)| *value)
        };
        assert_eq!(selector.matches(value), expected);
    }

    #[test]
    fn every_term_must_hold() {
        let running = &[("spec.nodeName", "a"), ("status.phase", "Running")];
        check("", running, true);
        check("spec.nodeName=a", running, true);
        check("spec.nodeName==a,status.phase!=Running", running, false);
        check("spec.nodeName!=b,status.phase=Running", running, true);
    }

    #[test]
    fn an_absent_field_is_empty() {
        check("spec.nodeName=", &[], true);
        check("spec.nodeName!=", &[], false);
    }

    #[test]
    fn a_backslash_escapes_commas_equals_and_itself() {
        check(r"a=x\,y\=\\", &[("a", r"x,y=\")], true);
        assert!(r"a=\x".parse::<FieldSelector>().is_err());
        assert!("a".parse::<FieldSelector>().is_err());
    }

    #[test]
    fn a_selector_prints_as_it_parses() {
        let text = r"a=x\,y,b!=c";
        assert_eq!(text.parse::<FieldSelector>().unwrap().to_string(), text);
    }
}
