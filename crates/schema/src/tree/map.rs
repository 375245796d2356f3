//! The map of a tree: key-value pairs in input order.
//!
//! Lookups scan the hashes of the keys. Objects of this API have a few dozen keys at most where it matters, and a scan over
//! neighbouring pairs beats a table there. A map with many pairs is indexed by key once it is looked up often, so that the time of a
//! request does not grow with the square of a map that the client sent. Parsing may leave the same key twice, so that
//! strict decoding can report it; every lookup here returns the last pair with a key, since that is the one that counts.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use compact_str::CompactString;

use super::{Key, Tree};
use crate::name;

/// A map with more pairs may be indexed.
const INDEXED_PAIRS: usize = 128;

/// Lookups of a map with many pairs that scan it, before it is indexed: building the index costs about as much.
const SCANS_BEFORE_INDEX: u32 = 32;

/// A key and its value.
type Pair = (Key, Tree);

/// Key-value pairs in input order, possibly with duplicate keys.
#[derive(Clone, Default)]
pub struct Map {
    pairs: Pairs,
}

/// The pairs. A map with few pairs takes no more space than their vector.
#[derive(Clone)]
enum Pairs {
    Few(Vec<Pair>),
    Many(Box<IndexedPairs>),
}

/// Many pairs, and the last position of each key once it is known.
#[derive(Default)]
struct IndexedPairs {
    pairs: Vec<Pair>,
    /// Emptied when a pair changes its position.
    positions: OnceLock<HashMap<CompactString, usize>>,
    /// Lookups that scanned the pairs since the last change of positions.
    scans: AtomicU32,
}

impl Map {
    pub fn with_capacity(capacity: usize) -> Self {
        Map {
            pairs: Pairs::from(Vec::with_capacity(capacity)),
        }
    }

    pub fn len(&self) -> usize {
        self.pairs().len()
    }

    pub fn is_empty(&self) -> bool {
        self.pairs().is_empty()
    }

    pub fn get(&self, key: &str) -> Option<&Tree> {
        self.position(key).map(|at| &self.pairs()[at].1)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Tree> {
        let at = self.position(key)?;
        Some(&mut self.slots_mut()[at].1)
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Sets a key, keeping its position if it has one, and returns the old value.
    pub fn insert(&mut self, key: impl Into<CompactString>, value: impl Into<Tree>) -> Option<Tree> {
        let (key, value): (CompactString, Tree) = (key.into(), value.into());
        match self.get_mut(&key) {
            Some(old) => Some(std::mem::replace(old, value)),
            None => {
                self.push(key, value);
                None
            }
        }
    }

    /// Adds a pair at the end without looking up the key: for parsers, which must keep duplicates.
    pub fn push(&mut self, key: impl Into<CompactString>, value: impl Into<Tree>) {
        *self.push_null(key.into()) = value.into();
    }

    /// Adds a null at the end without looking up the key, to be filled in place.
    #[inline]
    pub fn push_null(&mut self, key: CompactString) -> &mut Tree {
        if matches!(&self.pairs, Pairs::Few(pairs) if pairs.len() >= INDEXED_PAIRS) {
            self.become_indexed();
        }
        match &mut self.pairs {
            Pairs::Few(pairs) => &mut pairs.push_mut((key.into(), Tree::Null)).1,
            Pairs::Many(many) => many.push_null(key),
        }
    }

    #[cold]
    fn become_indexed(&mut self) {
        let pairs = std::mem::take(self.pairs_mut());
        self.pairs = Pairs::from(pairs);
    }

    /// Removes every pair with the key and returns the last one's value.
    pub fn remove(&mut self, key: &str) -> Option<Tree> {
        let last = self.position(key)?;
        let pairs = self.pairs_mut();
        let value = pairs.remove(last).1;
        if pairs[..last].iter().any(|(name, _)| *name == *key) {
            pairs.retain(|(name, _)| *name != *key);
        }
        Some(value)
    }

    /// The value of a key; an absent key is added with a null.
    pub fn entry(&mut self, key: &str) -> &mut Tree {
        match self.position(key) {
            Some(at) => &mut self.slots_mut()[at].1,
            None => self.push_null(key.into()),
        }
    }

    /// The pair at an index, in the order of [`Map::iter`].
    pub(super) fn pair(&self, index: usize) -> Option<(&str, &Tree)> {
        self.pairs().get(index).map(|(key, value)| (key.as_str(), value))
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &Tree)> + ExactSizeIterator {
        self.pairs().iter().map(|(key, value)| (key.as_str(), value))
    }

    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&str, &mut Tree)> + ExactSizeIterator {
        self.slots_mut()
            .iter_mut()
            .map(|(key, value)| (key.as_str(), value))
    }

    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        self.pairs().iter().map(|(key, _)| key.as_str())
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Tree> + ExactSizeIterator {
        self.pairs().iter().map(|(_, value)| value)
    }

    /// Keeps the pairs for which the function returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Tree) -> bool) {
        self.pairs_mut().retain_mut(|(key, value)| keep(key, value));
    }

    /// The pairs, in order.
    #[inline]
    pub fn pairs(&self) -> &[Pair] {
        match &self.pairs {
            Pairs::Few(pairs) => pairs,
            Pairs::Many(many) => &many.pairs,
        }
    }

    /// The pairs, to be reordered or changed in place. To replace all of them, make a new map.
    pub fn pairs_mut(&mut self) -> &mut Vec<Pair> {
        match &mut self.pairs {
            Pairs::Few(pairs) => pairs,
            Pairs::Many(many) => {
                many.positions.take();
                many.scans = AtomicU32::new(0);
                &mut many.pairs
            }
        }
    }

    /// The pairs, whose keys and positions the caller keeps.
    #[inline]
    pub(crate) fn slots_mut(&mut self) -> &mut [Pair] {
        match &mut self.pairs {
            Pairs::Few(pairs) => pairs,
            Pairs::Many(many) => &mut many.pairs,
        }
    }

    /// The position of the last pair with a key.
    #[inline]
    fn position(&self, key: &str) -> Option<usize> {
        match &self.pairs {
            Pairs::Few(pairs) => scan(pairs, key),
            Pairs::Many(many) => many.position(key),
        }
    }
}

#[inline]
fn scan(pairs: &[Pair], key: &str) -> Option<usize> {
    let hash = name::hash(key);
    pairs.iter().rposition(|(name, _)| name.is(key, hash))
}

// === impl IndexedPairs ===

impl IndexedPairs {
    #[cold]
    fn push_null(&mut self, key: CompactString) -> &mut Tree {
        if let Some(positions) = self.positions.get_mut() {
            positions.insert(key.clone(), self.pairs.len());
        }
        &mut self.pairs.push_mut((key.into(), Tree::Null)).1
    }

    #[cold]
    fn position(&self, key: &str) -> Option<usize> {
        if let Some(positions) = self.positions.get() {
            return positions.get(key).copied();
        }
        if self.scans.fetch_add(1, Ordering::Relaxed) < SCANS_BEFORE_INDEX {
            return scan(&self.pairs, key);
        }
        let positions = self.positions.get_or_init(|| {
            let pairs = self.pairs.iter().enumerate();
            let indexes = pairs.map(|(at, (key, _))| (CompactString::from(key.as_str()), at));
            indexes.collect()
        });
        positions.get(key).copied()
    }
}

impl Clone for IndexedPairs {
    /// A copy, which is indexed again if it is looked up often.
    fn clone(&self) -> Self {
        IndexedPairs {
            pairs: self.pairs.clone(),
            ..IndexedPairs::default()
        }
    }
}

// === impl conversions ===

impl Default for Pairs {
    fn default() -> Self {
        Pairs::Few(Vec::new())
    }
}

impl From<Vec<Pair>> for Pairs {
    fn from(pairs: Vec<Pair>) -> Self {
        match pairs.len() {
            0..INDEXED_PAIRS => Pairs::Few(pairs),
            _ => Pairs::Many(Box::new(IndexedPairs {
                pairs,
                ..IndexedPairs::default()
            })),
        }
    }
}

impl From<Vec<(CompactString, Tree)>> for Map {
    fn from(pairs: Vec<(CompactString, Tree)>) -> Self {
        pairs.into_iter().collect()
    }
}

impl<K: Into<CompactString>, V: Into<Tree>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter();
        let pairs = pairs.map(|(key, value)| (Key::from(key.into()), value.into()));
        Map {
            pairs: Pairs::from(pairs.collect::<Vec<Pair>>()),
        }
    }
}

impl IntoIterator for Map {
    type Item = (CompactString, Tree);
    type IntoIter = std::iter::Map<std::vec::IntoIter<Pair>, fn(Pair) -> (CompactString, Tree)>;

    fn into_iter(self) -> Self::IntoIter {
        let pairs = match self.pairs {
            Pairs::Few(pairs) => pairs,
            Pairs::Many(many) => many.pairs,
        };
        pairs.into_iter().map(|(key, value)| (key.into(), value))
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.pairs() == other.pairs()
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("pairs", &self.pairs()).finish()
    }
}
