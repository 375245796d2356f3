//! Strategic merge patch: a merge patch with rules for which lists are merged and by which key.
//!
//! The format is described in the community's `strategic-merge-patch.md`. In short: maps are merged, null deletes, lists
//! are replaced unless their patch strategy is `merge`; then the elements with the same merge key are merged, new ones
//! added, and nothing is deleted without a directive. The directives of a patch:
//!
//! | directive | where | effect |
//! | --- | --- | --- |
//! | `$patch: replace` | in a map | the map is replaced by the rest of the patch |
//! | `$patch: delete` | in a map | the map becomes empty |
//! | `$patch: delete` | in a list element | the elements with that merge key are deleted |
//! | `$patch: replace` | in a list element | the list is replaced by the elements without directives |
//! | `$retainKeys: [..]` | in a map | all other keys of the map are deleted |
//! | `$deleteFromPrimitiveList/x: [..]` | beside `x` | these values are deleted from the list |
//! | `$setElementOrder/x: [..]` | beside `x` | the order of the merged list, see [`order`] |
//!
//! For example, over a list merged by `name` that holds `a`, `b` and `c`, the patch `[{name: d}, {name: b, image: x},
//! {name: a, $patch: delete}]` makes `d`, `b` with the new image, and `c`: the elements of the patch are in the patch's
//! order, and the elements that only the server has stay before the ones they preceded.

mod directive;
mod list;
mod order;
mod patch_meta;
mod quoted;

use super::copy::{copy_map, last_pairs};
use super::error::Error;
use super::go_text::go_text;
use super::merge;
use crate::shape::Shape;
use crate::tree::{Map, Tree};
use directive::{DELETE, DELETE_FROM_LIST, PATCH, REPLACE, RETAIN_KEYS, SET_ORDER, without_directives};
use patch_meta::{PatchStrategy, ValueKind};

pub(super) fn apply(tree: &mut Tree, patch: &Tree, shape: &Shape) -> Result<(), Error> {
    match patch {
        Tree::Map(patch) => merge_map(tree.map_or_default(), patch, ValueKind::Struct(shape)),
        Tree::Null => Ok(()),
        other => Err(Error::not_an_object("", other.type_name())),
    }
}

/// The patch as it is quoted in an error after it was merged into this object.
pub(super) fn quoted(original: &Tree, patch: &Tree, shape: &Shape) -> Tree {
    match (original, patch) {
        (Tree::Map(original), Tree::Map(patch)) => {
            quoted::rest_of_map(original, patch, ValueKind::Struct(shape)).into()
        }
        _ => patch.clone(),
    }
}

/// Merges a patch into a map.
fn merge_map(original: &mut Map, patch: &Map, kind: ValueKind<'_>) -> Result<(), Error> {
    if let Some(directive) = patch.get(PATCH) {
        *original = apply_map_directive(directive, patch)?;
        return Ok(());
    }
    directive::retain_keys(original, patch)?;
    let ordered = order::merge_ordered_lists(original, patch, kind)?;
    let (mut sets, mut deletes) = (Vec::new(), Vec::new());
    for (key, value) in last_pairs(patch) {
        if key.starts_with(DELETE_FROM_LIST) {
            deletes.push((directive::list_name(key)?, value));
        } else if key != RETAIN_KEYS && !key.starts_with(SET_ORDER) && !ordered.contains(&key) {
            sets.push((key, value));
        }
    }
    merge::join(original, sets, |key, old, value| merge_key(key, old, value, kind))?;
    if !deletes.is_empty() {
        merge::join(original, deletes, |key, old, value| {
            delete_from_list(key, old, value, kind)
        })?;
    }
    Ok(())
}

/// The map after a `$patch` directive, which replaces or empties it.
fn apply_map_directive(directive: &Tree, patch: &Map) -> Result<Map, Error> {
    match directive.as_str() {
        Some(REPLACE) => {
            let mut rest = copy_map(patch);
            rest.remove(PATCH);
            Ok(rest)
        }
        Some(DELETE) => Ok(Map::default()),
        _ => Err(directive::unknown(directive, patch)),
    }
}

/// The new value of a key in the patch; `None` deletes.
fn merge_key(key: &str, old: Option<Tree>, value: &Tree, kind: ValueKind<'_>) -> Result<Option<Tree>, Error> {
    match (old, value) {
        (_, Tree::Null) => Ok(None),
        (Some(Tree::Map(mut old)), Tree::Map(patch)) => {
            let meta = kind.map_patch_meta(key)?;
            match meta.strategy {
                PatchStrategy::Replace => old = copy_map(patch),
                PatchStrategy::Merge | PatchStrategy::Unspecified => merge_map(&mut old, patch, meta.kind)?,
            }
            Ok(Some(old.into()))
        }
        (Some(Tree::List(mut old)), Tree::List(patch)) => {
            list::merge(&mut old, patch, &kind.list_patch_meta(key)?)?;
            Ok(Some(old.into()))
        }
        _ => Ok(without_directives(value)),
    }
}

/// The list without the deleted values, whatever its patch strategy. Anything that is not a list stays unchanged.
fn delete_from_list(
    key: &str,
    old: Option<Tree>,
    values: &Tree,
    kind: ValueKind<'_>,
) -> Result<Option<Tree>, Error> {
    match (old, values) {
        (_, Tree::Null) => Ok(None),
        (Some(Tree::List(mut old)), Tree::List(values)) => {
            list::delete(&mut old, values, &kind.list_patch_meta(key)?)?;
            Ok(Some(old.into()))
        }
        (old, _) => Ok(old),
    }
}

/// The error for a list element without its merge key.
fn no_merge_key(element: &Map, key: &str) -> Error {
    let element = go_text(&Tree::Map(element.clone()));
    Error::unmergeable(format!(
        "map: {element} does not contain declared merge key: {key}"
    ))
}

/// The error for a value whose type the directive or list does not allow.
fn wrong_type(expected: &str, actual: &Tree) -> Error {
    Error::unmergeable(format!(
        "expected a {expected}, but received a {}",
        super::go_text::go_type(actual)
    ))
}

#[cfg(test)]
mod tests;
