//! Merge patch (RFC 7386): the patch is merged into the object, and null deletes.
//!
//! Both sides are sorted by key and joined, so that a large map costs no more than sorting it.

use std::cmp::Ordering;
use std::convert::Infallible;

use compact_str::CompactString;

use super::copy::{copy, last_pairs};
use super::error::Error;
use crate::tree::{Map, Tree};

type Pair = (CompactString, Tree);

pub(super) fn apply(tree: &mut Tree, patch: &Tree) -> Result<(), Error> {
    match patch {
        Tree::Map(patch) => {
            merge_map(tree.map_or_default(), patch);
            Ok(())
        }
        Tree::Null => Err(Error::Malformed("Invalid JSON Patch".to_owned())),
        other => Err(Error::not_an_object("error decoding patch: ", other.type_name())),
    }
}

fn merge_map(original: &mut Map, patch: &Map) {
    let Ok(()) = join(original, last_pairs(patch), |_, old, value| {
        Ok::<_, Infallible>(merge_value(old, value))
    });
}

/// The new value of a key in the patch; `None` deletes.
fn merge_value(old: Option<Tree>, value: &Tree) -> Option<Tree> {
    match (old, value) {
        (_, Tree::Null) => None,
        (Some(Tree::Map(mut old)), Tree::Map(value)) => {
            merge_map(&mut old, value);
            Some(Tree::Map(old))
        }
        // Neither decoded nor searched for nulls by the reference server.
        (Some(Tree::Map(_)), value) => Some(copy(value)),
        (_, value) => Some(copy_sorted_without_nulls(value)),
    }
}

/// Joins a map and the pairs of a patch by key. For each pair, `merge` computes the new value from the old one, if any,
/// and the patch's; `None` deletes. The map ends sorted.
pub(super) fn join<E>(
    original: &mut Map,
    mut patch: Vec<(&str, &Tree)>,
    mut merge: impl FnMut(&str, Option<Tree>, &Tree) -> Result<Option<Tree>, E>,
) -> Result<(), E> {
    patch.sort_unstable_by_key(|(key, _)| *key);
    sort(original);
    let mut rest = std::mem::take(original).into_iter().peekable();
    let mut joined: Vec<Pair> = Vec::with_capacity(rest.len() + patch.len());
    for (key, value) in patch {
        while let Some(pair) = rest.next_if(|(other, _)| other.as_str() < key) {
            joined.push(pair);
        }
        let old = rest.next_if(|(other, _)| other == key).map(|(_, old)| old);
        if let Some(value) = merge(key, old, value)? {
            joined.push((key.into(), value));
        }
    }
    joined.extend(rest);
    *original = Map::from(joined);
    Ok(())
}

/// A value of the patch under an absent key: its nulls delete nothing and are not copied.
fn copy_sorted_without_nulls(value: &Tree) -> Tree {
    match value {
        Tree::Map(map) => {
            let present = sorted_pairs(map)
                .into_iter()
                .filter(|(_, value)| !value.is_null());
            present
                .map(|(key, value)| (key, copy_sorted_without_nulls(value)))
                .collect::<Map>()
                .into()
        }
        Tree::List(items) => Tree::List(items.iter().map(copy_sorted_without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

/// The last pair of each key, sorted by key.
pub(super) fn sorted_pairs(map: &Map) -> Vec<(&str, &Tree)> {
    let mut pairs = last_pairs(map);
    pairs.sort_unstable_by_key(|(key, _)| *key);
    pairs
}

/// Sorts a map by key and keeps the last pair of each key.
pub(super) fn sort(map: &mut Map) {
    let pairs = map.pairs_mut();
    if pairs
        .windows(2)
        .all(|two| two[0].0.cmp(&two[1].0) == Ordering::Less)
    {
        return;
    }
    pairs.sort_by(|left, right| left.0.cmp(&right.0));
    pairs.reverse();
    pairs.dedup_by(|earlier, later| earlier.0 == later.0);
    pairs.reverse();
}

#[cfg(test)]
mod tests;
