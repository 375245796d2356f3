//! Strategic merge patches: a merge patch that knows which lists are merged and by which key.
//!
//! The format is described in the community's `strategic-merge-patch.md`. In short: maps are merged, null deletes, lists
//! are replaced unless the shape says that they are merged; then the elements with the same merge key are merged, new
//! ones added, and nothing is deleted unless the patch says so. What the patch says beyond values are directives:
//!
//! | directive | where | what |
//! | --- | --- | --- |
//! | `$patch: replace` | in a map | the map is replaced by the rest of the patch |
//! | `$patch: delete` | in a map | the map becomes empty |
//! | `$patch: delete` | in a list element | the elements with that merge key go |
//! | `$patch: replace` | in a list element | the list is replaced by the elements without directives |
//! | `$retainKeys: [..]` | in a map | of the map's keys, only these stay |
//! | `$deleteFromPrimitiveList/x: [..]` | beside `x` | these values go from the list |
//! | `$setElementOrder/x: [..]` | beside `x` | the order the list shall have, see [`order`] |
//!
//! For example, over a list merged by `name` that holds `a`, `b` and `c`, the patch `[{name: d}, {name: b, image: x},
//! {name: a, $patch: delete}]` makes `d`, `b` with the new image, and `c`: what the patch names stands in the patch's
//! order, and what only the server knows stays before whatever it preceded.

mod directive;
mod list;
mod lookup;
mod order;

use super::copy::{copy_map, last_pairs};
use super::error::Error;
use super::go_text::go_text;
use super::merge;
use crate::shape::Shape;
use crate::tree::{Map, Tree};
use directive::{DELETE, DELETE_FROM_LIST, PATCH, REPLACE, RETAIN_KEYS, SET_ORDER, without_directives};
use lookup::{Kind, Strategy};

pub(super) fn apply(tree: &mut Tree, patch: &Tree, shape: &Shape) -> Result<(), Error> {
    match patch {
        Tree::Map(patch) => merge_map(tree.map_or_default(), patch, Kind::Struct(shape)),
        Tree::Null => Ok(()),
        other => Err(Error::not_an_object("", other.type_name())),
    }
}

/// Merges a patch into a map of a known kind.
fn merge_map(original: &mut Map, patch: &Map, kind: Kind<'_>) -> Result<(), Error> {
    if let Some(directive) = patch.get(PATCH) {
        *original = whole_map(directive, patch)?;
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

/// What a map becomes whose patch says what shall happen to it as a whole.
fn whole_map(directive: &Tree, patch: &Map) -> Result<Map, Error> {
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

/// What becomes of a key that the patch names.
fn merge_key(key: &str, old: Option<Tree>, value: &Tree, kind: Kind<'_>) -> Result<Option<Tree>, Error> {
    match (old, value) {
        (_, Tree::Null) => Ok(None),
        (Some(Tree::Map(mut old)), Tree::Map(patch)) => {
            let rule = kind.map_rule(key)?;
            match rule.strategy {
                Strategy::Replace => old = copy_map(patch),
                Strategy::Merge | Strategy::Unsaid => merge_map(&mut old, patch, rule.kind)?,
            }
            Ok(Some(old.into()))
        }
        (Some(Tree::List(mut old)), Tree::List(patch)) => {
            list::merge(&mut old, patch, &kind.list_rule(key)?)?;
            Ok(Some(old.into()))
        }
        _ => Ok(without_directives(value)),
    }
}

/// What becomes of a list from which values go, whatever its strategy. From anything else nothing goes.
fn delete_from_list(
    key: &str,
    old: Option<Tree>,
    values: &Tree,
    kind: Kind<'_>,
) -> Result<Option<Tree>, Error> {
    match (old, values) {
        (_, Tree::Null) => Ok(None),
        (Some(Tree::List(mut old)), Tree::List(values)) => {
            list::delete(&mut old, values, &kind.list_rule(key)?)?;
            Ok(Some(old.into()))
        }
        (old, _) => Ok(old),
    }
}

/// The text for a list element without the key that elements are matched by.
fn no_merge_key(element: &Map, key: &str) -> Error {
    let element = go_text(&Tree::Map(element.clone()));
    Error::unmergeable(format!(
        "map: {element} does not contain declared merge key: {key}"
    ))
}

/// The text for a value of the wrong type at a place where a directive or a list allows only one type.
fn wrong_type(wanted: &str, given: &Tree) -> Error {
    Error::unmergeable(format!(
        "expected a {wanted}, but received a {}",
        super::go_text::go_type(given)
    ))
}

#[cfg(test)]
mod tests;
