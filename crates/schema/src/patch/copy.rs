//! Copies of values from a patch. A patch may have duplicate keys; the last one counts and the others are not copied.

use std::collections::HashSet;

use crate::tree::{Key, Map, Tree};

/// Maps above this size are checked for repeated keys by hashing.
const LARGE_MAP_PAIRS: usize = 16;

/// The last pair of each key, in input order.
pub(super) fn last_pairs(map: &Map) -> Vec<(&str, &Tree)> {
    let pairs = map.pairs();
    let mut last: Vec<(&str, &Tree)> = match pairs.len() {
        0..=LARGE_MAP_PAIRS => {
            let is_last = |at: usize| !pairs[at + 1..].iter().any(|(later, _)| *later == pairs[at].0);
            (0..pairs.len())
                .rev()
                .filter(|at| is_last(*at))
                .map(|at| pair(&pairs[at]))
                .collect()
        }
        _ => {
            let mut seen = HashSet::with_capacity(pairs.len());
            pairs
                .iter()
                .rev()
                .filter(|(key, _)| seen.insert(key.as_str()))
                .map(pair)
                .collect()
        }
    };
    last.reverse();
    last
}

/// A copy of a value without duplicate keys.
pub(super) fn copy(value: &Tree) -> Tree {
    match value {
        Tree::Map(map) => copy_map(map).into(),
        Tree::List(items) => Tree::List(items.iter().map(copy).collect()),
        scalar => scalar.clone(),
    }
}

/// A copy of a map without duplicate keys.
pub(super) fn copy_map(map: &Map) -> Map {
    last_pairs(map)
        .into_iter()
        .map(|(key, value)| (key, copy(value)))
        .collect()
}

/// A copy of a value without the nulls in its maps. Nulls in lists stay.
pub(super) fn copy_without_nulls(value: &Tree) -> Tree {
    match value {
        Tree::Map(map) => {
            let present = last_pairs(map).into_iter().filter(|(_, value)| !value.is_null());
            present
                .map(|(key, value)| (key, copy_without_nulls(value)))
                .collect::<Map>()
                .into()
        }
        Tree::List(items) => Tree::List(items.iter().map(copy_without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

fn pair(pair: &(Key, Tree)) -> (&str, &Tree) {
    (&pair.0, &pair.1)
}
