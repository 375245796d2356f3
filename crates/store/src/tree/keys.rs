//! Digest of a node's keys, so that a search rarely has to read the keys themselves.
//!
//! Keys of one node share a long prefix. The node stores it once, and the next eight bytes of each key as a number
//! that orders as the bytes do. Keys that are equal in these as well are compared in full.
//!
//! Example: `/fruit/apple`, `/fruit/apricot` and `/fruit/apricots` share `/fruit/ap`; their heads are `ple`,
//! `ricot` and `ricots`, padded with zeros. A search for `/fruit/apricot` compares the shared prefix, then
//! numbers, and reads one key to check for equality.

use std::cmp::Ordering;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::tree::WIDTH;

/// The keys of one node, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    /// Prefix of all keys; the longest one when the digest was last rebuilt.
    shared: Bytes,
    /// For each key the eight bytes after `shared`.
    heads: SmallVec<[u64; WIDTH]>,
}

const HEAD_BYTES: usize = 8;

impl Keys {
    /// Digest of `len` keys; `full` returns the key at each position.
    pub(super) fn new<'a>(len: usize, full: impl Fn(usize) -> &'a Bytes) -> Keys {
        let Some(last) = len.checked_sub(1) else {
            return Keys::default();
        };
        let (first, last) = (full(0), full(last));
        // In a sorted run, the common prefix of the first and the last key is common to all.
        let shared = first.slice(..common(first, last));
        let heads = (0..len).map(|at| head(full(at), shared.len())).collect();
        Keys { shared, heads }
    }

    /// The position of `key`, or where it would be inserted.
    pub(super) fn search<'a>(&self, key: &[u8], full: impl Fn(usize) -> &'a Bytes) -> Result<usize, usize> {
        let start = &key[..key.len().min(self.shared.len())];
        match start.cmp(&self.shared[..]) {
            Ordering::Less => return Err(0),
            Ordering::Greater => return Err(self.heads.len()),
            Ordering::Equal => {}
        }
        let sought = head(key, self.shared.len());
        let mut at = self.heads.partition_point(|head| *head < sought);
        while self.heads.get(at) == Some(&sought) {
            match full(at)[..].cmp(key) {
                Ordering::Less => at += 1,
                Ordering::Equal => return Ok(at),
                Ordering::Greater => break,
            }
        }
        Err(at)
    }

    /// Adds the key that is now at position `at` of `len`.
    pub(super) fn insert<'a>(&mut self, at: usize, len: usize, full: impl Fn(usize) -> &'a Bytes) {
        let key = full(at);
        // Only a new first or last key changes the common prefix; a single key has no prefix to compare with.
        let at_an_end = at == 0 || at + 1 == len;
        let stale = at_an_end && common(full(0), full(len - 1)) != self.shared.len();
        match len == 1 || stale {
            true => *self = Keys::new(len, full),
            false => self.heads.insert(at, head(key, self.shared.len())),
        }
    }

    /// Removes the key at a position.
    pub(super) fn remove(&mut self, at: usize) {
        self.heads.remove(at);
    }
}

/// Length of the common prefix.
pub(super) fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// The eight bytes from `from` on as a big-endian number; missing bytes count as zero.
fn head(key: &[u8], from: usize) -> u64 {
    let rest = &key[from..];
    match rest.first_chunk::<HEAD_BYTES>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; HEAD_BYTES];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(bytes)
        }
    }
}
