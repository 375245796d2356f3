//! The key of a pair of a map: a name, and its hash, by which lookups distinguish keys without reading them.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use compact_str::CompactString;

use crate::name;

/// A key of a [`super::Map`].
#[derive(Clone)]
pub struct Key {
    text: CompactString,
    hash: u32,
}

impl Key {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether this is the key with a name, whose hash is given.
    #[inline]
    pub(crate) fn is(&self, name: &str, hash: u32) -> bool {
        self.hash == hash && name::is_same(&self.text, name)
    }

    pub(crate) fn hash(&self) -> u32 {
        self.hash
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl From<CompactString> for Key {
    fn from(text: CompactString) -> Self {
        Self {
            hash: name::hash(&text),
            text,
        }
    }
}

impl From<Key> for CompactString {
    fn from(key: Key) -> Self {
        key.text
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.text, other.hash)
    }
}

impl Eq for Key {}

impl PartialEq<str> for Key {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl PartialEq<&str> for Key {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

impl PartialEq<CompactString> for Key {
    fn eq(&self, other: &CompactString) -> bool {
        self.text == *other
    }
}

/// Keys are ordered by their names.
impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// As the hash of its name: a key is borrowed as a `str`.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}
