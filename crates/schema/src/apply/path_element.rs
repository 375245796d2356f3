//! One element of a path into an object: a field, or an item of a list by its keys, its value or its index.
//!
//! A path element has two texts. In `fieldsV1` it is `f:name`, `k:{"name":"c"}`, `v:"x"` or `i:0`; in messages it is `.name`,
//! `[name="c"]`, `[="x"]` or `[0]`.

use std::cmp::Ordering;
use std::fmt;

use compact_str::CompactString;

use crate::tree::Tree;
use crate::write::{write_string, write_tree};

/// Initial capacity for the text of a path element.
const TEXT_BYTES: usize = 64;

/// One element of a path. The order of the variants is the order in which they are written.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of a struct or a key of a map.
    Field(CompactString),
    /// An item of an associative list: its keys, sorted by name, and their values.
    Key(Vec<(CompactString, Tree)>),
    /// An item of a set.
    Value(Tree),
    /// An item by its index.
    Index(i64),
}

impl PathElement {
    pub fn field(name: &str) -> Self {
        PathElement::Field(name.into())
    }

    /// The path element as a key of `fieldsV1`.
    pub(super) fn to_text(&self) -> CompactString {
        match self {
            PathElement::Field(name) => field_text(name),
            PathElement::Key(keys) => with_json("k:", |out| write_keys(pairs(keys), out)),
            PathElement::Value(value) => with_json("v:", |out| write_tree(value, out)),
            PathElement::Index(at) => compact_str::format_compact!("i:{at}"),
        }
    }

    /// Parses a key of `fieldsV1`. An unknown type of path element is not an error but `None`, for compatibility with
    /// newer servers.
    pub(super) fn from_text(text: &str) -> Result<Option<Self>, InvalidPathElement> {
        let wrong = || InvalidPathElement(text.to_owned());
        let Some((kind, rest)) = text.split_once(':') else {
            return Err(wrong());
        };
        let json = || serde_json::from_str::<Tree>(rest).map_err(|_| wrong());
        Ok(Some(match kind {
            "f" => PathElement::field(rest),
            "v" => PathElement::Value(json()?),
            "i" => PathElement::Index(rest.parse().map_err(|_| wrong())?),
            "k" => match json()? {
                Tree::Map(map) => PathElement::keys(map.into_iter().collect()),
                _ => return Err(wrong()),
            },
            _ => return Ok(None),
        }))
    }

    /// An item of an associative list by its keys, in any order.
    pub(super) fn keys(mut keys: Vec<(CompactString, Tree)>) -> Self {
        keys.sort_by(|left, right| left.0.cmp(&right.0));
        PathElement::Key(keys)
    }

    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

/// A key of `fieldsV1` that is not a path element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a path element")]
pub struct InvalidPathElement(String);

fn field_text(name: &str) -> CompactString {
    let mut text = CompactString::with_capacity(2 + name.len());
    text.push_str("f:");
    text.push_str(name);
    text
}

fn with_json(prefix: &str, write: impl FnOnce(&mut Vec<u8>)) -> CompactString {
    let mut out = Vec::with_capacity(TEXT_BYTES);
    out.extend_from_slice(prefix.as_bytes());
    write(&mut out);
    CompactString::from_utf8(out).expect("JSON of strings is UTF-8")
}

/// Writes the keys of an item of an associative list and their values.
pub(super) fn write_keys<'a>(keys: impl Iterator<Item = (&'a str, &'a Tree)>, out: &mut Vec<u8>) {
    for (at, (name, value)) in keys.enumerate() {
        out.push(if at == 0 { b'{' } else { b',' });
        write_string(name, out);
        out.push(b':');
        write_tree(value, out);
    }
    out.push(b'}');
}

// === impl order ===

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (PathElement::Field(left), PathElement::Field(right)) => left.cmp(right),
            (PathElement::Key(left), PathElement::Key(right)) => order_pairs(pairs(left), pairs(right)),
            (PathElement::Value(left), PathElement::Value(right)) => order(left, right),
            (PathElement::Index(left), PathElement::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

fn pairs(pairs: &[(CompactString, Tree)]) -> impl Iterator<Item = (&str, &Tree)> {
    pairs.iter().map(|(name, value)| (name.as_str(), value))
}

/// The order of pairs that are sorted by name.
pub(super) fn order_pairs<'a>(
    mut left: impl Iterator<Item = (&'a str, &'a Tree)>,
    mut right: impl Iterator<Item = (&'a str, &'a Tree)>,
) -> Ordering {
    loop {
        let by_pair = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(left), Some(right)) => left.0.cmp(right.0).then_with(|| order(left.1, right.1)),
        };
        if by_pair.is_ne() {
            return by_pair;
        }
    }
}

/// The order of values: numbers, strings, booleans, lists, maps, null. Numbers are compared as numbers.
pub(super) fn order(left: &Tree, right: &Tree) -> Ordering {
    match (left, right) {
        (Tree::Int(left), Tree::Int(right)) => left.cmp(right),
        (Tree::Int(left), Tree::Float(right)) => (*left as f64).total_cmp(right),
        (Tree::Float(left), Tree::Int(right)) => left.total_cmp(&(*right as f64)),
        (Tree::Float(left), Tree::Float(right)) => left.total_cmp(right),
        (Tree::Str(left), Tree::Str(right)) => left.cmp(right),
        (Tree::Bool(left), Tree::Bool(right)) => left.cmp(right),
        (Tree::List(left), Tree::List(right)) => {
            let mut pairs = left.iter().zip(right).map(|(left, right)| order(left, right));
            pairs
                .find(|order| order.is_ne())
                .unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Tree::Map(left), Tree::Map(right)) => order_pairs(pairs(&sorted(left)), pairs(&sorted(right))),
        _ => rank(left).cmp(&rank(right)),
    }
}

fn sorted(map: &crate::tree::Map) -> Vec<(CompactString, Tree)> {
    let pairs = map.iter().map(|(key, value)| (key.into(), value.clone()));
    let mut pairs: Vec<(CompactString, Tree)> = pairs.collect();
    pairs.sort_by(|left, right| left.0.cmp(&right.0));
    pairs
}

fn rank(value: &Tree) -> u8 {
    match value {
        Tree::Int(_) | Tree::Float(_) => 0,
        Tree::Str(_) => 1,
        Tree::Bool(_) => 2,
        Tree::List(_) => 3,
        Tree::Map(_) => 4,
        Tree::Null => 5,
    }
}

// === impl Display for Element ===

impl fmt::Display for PathElement {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(text, ".{name}"),
            PathElement::Key(keys) => {
                for (at, (name, value)) in keys.iter().enumerate() {
                    write!(text, "{}{name}={}", if at == 0 { "[" } else { "," }, json(value))?;
                }
                text.write_str("]")
            }
            PathElement::Value(value) => write!(text, "[={}]", json(value)),
            PathElement::Index(at) => write!(text, "[{at}]"),
        }
    }
}

/// A value in messages: a scalar as JSON with only the necessary escapes, the pairs of a map without separators.
fn json(value: &Tree) -> String {
    match value {
        Tree::Str(text) => return format!("{text:?}"),
        Tree::List(items) => {
            let items: Vec<String> = items.iter().map(json).collect();
            return format!("[{}]", items.join(","));
        }
        Tree::Map(map) => {
            let pairs = map.iter().map(|(key, value)| format!("{key}={}", json(value)));
            return pairs.collect();
        }
        _ => {}
    }
    let mut out = Vec::new();
    write_tree(value, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, shown: &str) {
        let element = PathElement::from_text(text).unwrap().unwrap();
        assert_eq!(element.to_text(), text);
        assert_eq!(element.to_string(), shown);
    }

    #[test]
    fn a_path_element_is_parsed_written_and_displayed() {
        check("f:data", ".data");
        check("f:a.b/c:d", ".a.b/c:d");
        check(
            r#"k:{"containerPort":80,"protocol":"TCP"}"#,
            r#"[containerPort=80,protocol="TCP"]"#,
        );
        check(r#"v:"example.com/a""#, r#"[="example.com/a"]"#);
        check("v:3", "[=3]");
        check("v:true", "[=true]");
        check("i:7", "[7]");
        check(r#"v:"\u003c\"""#, r#"[="<\""]"#);
        check(r#"k:{"port":{}}"#, "[port=]");
        check(r#"k:{"port":[{"a":1,"b":"c"},2]}"#, r#"[port=[a=1b="c",2]]"#);
    }

    #[test]
    fn an_unknown_type_of_path_element_is_skipped_and_an_invalid_one_is_rejected() {
        assert_eq!(PathElement::from_text("z:1"), Ok(None));
        for text in ["", "f", "i:x", "k:[]", "k:{", "v:"] {
            assert!(PathElement::from_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn path_elements_are_ordered_by_type_then_by_value() {
        let texts = [
            "f:a",
            "f:b",
            r#"k:{"n":2}"#,
            r#"k:{"n":10}"#,
            r#"k:{"n":"1"}"#,
            r#"k:{"n":"1","o":1}"#,
            "v:1",
            "v:1.5",
            "v:2",
            "v:10",
            r#"v:"a""#,
            "v:false",
            "v:true",
            "i:0",
            "i:10",
        ];
        let elements: Vec<_> = texts
            .map(|text| PathElement::from_text(text).unwrap().unwrap())
            .into();
        assert!(elements.is_sorted_by(|left, right| left < right), "{elements:?}");
    }
}
