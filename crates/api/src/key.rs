//! [`Key`]: namespace and name of an object within its resource.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// `namespace/name`, or just `name` for cluster-scoped objects.
///
/// Keys are ordered as their text, byte by byte, which is the order of lists and of the store: `a-b/x` comes before
/// `a/x`, since `-` is less than `/`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    text: Arc<str>,
    /// Offset of the name in `text`.
    name_offset: u32,
}

/// A text that is not a key: it has more than one slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseKeyError(pub String);

impl Key {
    /// The empty namespace means a cluster-scoped object.
    pub fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            return Self {
                text: name.into(),
                name_offset: 0,
            };
        }
        let mut text = String::with_capacity(namespace.len() + 1 + name.len());
        text.push_str(namespace);
        text.push('/');
        let name_at = u32::try_from(text.len()).expect("a namespace is far shorter than 4 GiB");
        text.push_str(name);
        Self {
            text: text.into(),
            name_offset: name_at,
        }
    }

    /// The namespace; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        &self.text[..(self.name_offset as usize).saturating_sub(1)]
    }

    pub fn name(&self) -> &str {
        &self.text[self.name_offset as usize..]
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        match text.split_once('/') {
            None => Ok(Self::new("", text)),
            Some((namespace, name)) if !name.contains('/') => Ok(Self::new(namespace, name)),
            Some(_) => Err(ParseKeyError(text.to_owned())),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl fmt::Display for ParseKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unexpected key format: {:?}", self.0)
    }
}

impl std::error::Error for ParseKeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, namespace: &str, name: &str) {
        let key: Key = text.parse().unwrap();
        assert_eq!(
            (key.namespace(), key.name(), key.as_str()),
            (namespace, name, text)
        );
        assert_eq!(key, Key::new(namespace, name));
    }

    #[test]
    fn a_key_is_namespace_and_name() {
        check("default/web", "default", "web");
        check("node-1", "", "node-1");
    }

    #[test]
    fn more_than_one_slash_is_no_key() {
        assert!("a/b/c".parse::<Key>().is_err());
    }

    #[test]
    fn keys_order_as_their_text() {
        assert!(Key::new("a-b", "x") < Key::new("a", "x"));
    }
}
