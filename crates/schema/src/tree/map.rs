//! The map of a tree: key-value pairs in input order.
//!
//! Lookups scan. Objects of this API have a few dozen keys at most where it matters, and a scan over neighbouring
//! pairs beats hashing there. Parsing may leave the same key twice, so that strict decoding can report it; every
//! lookup here returns the last pair with a key, since that is the one that counts.

use compact_str::CompactString;

use super::Tree;

/// Key-value pairs in input order, possibly with duplicate keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map {
    pairs: Vec<(CompactString, Tree)>,
}

impl Map {
    pub fn with_capacity(capacity: usize) -> Self {
        Map {
            pairs: Vec::with_capacity(capacity),
        }
    }

    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    pub fn get(&self, key: &str) -> Option<&Tree> {
        self.pairs
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Tree> {
        self.pairs
            .iter_mut()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets a key, keeping its position if it has one, and returns the old value.
    pub fn insert(&mut self, key: impl Into<CompactString>, value: impl Into<Tree>) -> Option<Tree> {
        let (key, value) = (key.into(), value.into());
        match self.get_mut(&key) {
            Some(old) => Some(std::mem::replace(old, value)),
            None => {
                self.pairs.push((key, value));
                None
            }
        }
    }

    /// Adds a pair at the end without looking up the key: for parsers, which must keep duplicates.
    pub fn push(&mut self, key: impl Into<CompactString>, value: impl Into<Tree>) {
        self.pairs.push((key.into(), value.into()));
    }

    /// Adds a null at the end without looking up the key, to be filled in place.
    pub fn push_null(&mut self, key: CompactString) -> &mut Tree {
        &mut self.pairs.push_mut((key, Tree::Null)).1
    }

    /// Removes every pair with the key and returns the last one's value.
    pub fn remove(&mut self, key: &str) -> Option<Tree> {
        let mut removed = None;
        while let Some(at) = self.pairs.iter().position(|(name, _)| name == key) {
            removed = Some(self.pairs.remove(at).1);
        }
        removed
    }

    /// The value of a key; an absent key is added with a null.
    pub fn entry(&mut self, key: &str) -> &mut Tree {
        let at = self
            .pairs
            .iter()
            .rposition(|(name, _)| name == key)
            .unwrap_or_else(|| {
                self.pairs.push((key.into(), Tree::Null));
                self.pairs.len() - 1
            });
        &mut self.pairs[at].1
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &Tree)> + ExactSizeIterator {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value))
    }

    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&str, &mut Tree)> + ExactSizeIterator {
        self.pairs.iter_mut().map(|(key, value)| (key.as_str(), value))
    }

    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        self.pairs.iter().map(|(key, _)| key.as_str())
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Tree> + ExactSizeIterator {
        self.pairs.iter().map(|(_, value)| value)
    }

    /// Keeps the pairs for which the function returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Tree) -> bool) {
        self.pairs.retain_mut(|(key, value)| keep(key, value));
    }

    /// The pairs, in order.
    pub fn pairs(&self) -> &[(CompactString, Tree)] {
        &self.pairs
    }

    /// The pairs, to be reordered or changed in place.
    pub fn pairs_mut(&mut self) -> &mut Vec<(CompactString, Tree)> {
        &mut self.pairs
    }
}

// === impl conversions ===

impl<K: Into<CompactString>, V: Into<Tree>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Map {
            pairs: pairs
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        }
    }
}

impl IntoIterator for Map {
    type Item = (CompactString, Tree);
    type IntoIter = std::vec::IntoIter<(CompactString, Tree)>;

    fn into_iter(self) -> Self::IntoIter {
        self.pairs.into_iter()
    }
}
