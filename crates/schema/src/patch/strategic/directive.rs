//! The directives of a strategic merge patch: their names, and values without them.

use std::collections::HashSet;

use super::super::copy::{copy_without_nulls, last_pairs};
use super::super::error::Error;
use super::super::go_text::go_text;
use crate::tree::{Map, Tree};

pub(super) const PATCH: &str = "$patch";
pub(super) const REPLACE: &str = "replace";
pub(super) const DELETE: &str = "delete";
pub(super) const MERGE: &str = "merge";
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
pub(super) const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
pub(super) const SET_ORDER: &str = "$setElementOrder";

/// Applies `$retainKeys`: drops all other keys of the map. The patch may set only keys that it retains.
pub(super) fn retain_keys(original: &mut Map, patch: &Map) -> Result<(), Error> {
    let Some(retained) = patch.get(RETAIN_KEYS) else {
        return Ok(());
    };
    let invalid = || Error::Malformed("invalid patch format of retainKeys".to_owned());
    let retained: HashSet<&str> = retained
        .as_list()
        .ok_or_else(invalid)?
        .iter()
        .filter_map(Tree::as_str)
        .collect();
    let sets =
        |key: &str| key != RETAIN_KEYS && !key.starts_with(DELETE_FROM_LIST) && !key.starts_with(SET_ORDER);
    for (key, value) in last_pairs(patch) {
        if sets(key) && !value.is_null() && !retained.contains(key) {
            return Err(invalid());
        }
    }
    original.retain(|key, _| retained.contains(key));
    Ok(())
}

/// The name of the list in a directive's key, after the slash.
pub(super) fn list_name(key: &str) -> Result<&str, Error> {
    match key.split_once('/') {
        Some((DELETE_FROM_LIST | SET_ORDER, name)) => Ok(name),
        _ if key.starts_with(SET_ORDER) => Err(Error::Malformed(
            "invalid patch format of setElementOrder list".to_owned(),
        )),
        _ => Err(Error::Malformed(
            "invalid patch format of primitive list".to_owned(),
        )),
    }
}

/// A value of the patch under an absent key, without nulls and without maps that have a `$patch` directive.
pub(super) fn without_directives(value: &Tree) -> Option<Tree> {
    let mut value = copy_without_nulls(value);
    remove_directives(&mut value).then_some(value)
}

/// Removes the maps with a `$patch` directive. Returns whether the value itself is none.
pub(super) fn remove_directives(value: &mut Tree) -> bool {
    match value {
        Tree::Map(map) if map.contains_key(PATCH) => return false,
        Tree::Map(map) => map.retain(|_, value| remove_directives(value)),
        Tree::List(items) => items.retain_mut(remove_directives),
        _ => {}
    }
    true
}

pub(super) fn unknown(directive: &Tree, patch: &Map) -> Error {
    let map = go_text(&Tree::Map(patch.clone()));
    Error::unmergeable(format!(
        "unknown patch type: {} in map: {map}",
        go_text(directive)
    ))
}
