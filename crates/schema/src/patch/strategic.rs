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
    for (key, value) in last_pairs(patch) {
        if key == RETAIN_KEYS || key.starts_with(SET_ORDER) || ordered.contains(&key) {
            continue;
        }
        match key.starts_with(DELETE_FROM_LIST) {
            true => delete_from_list(original, directive::list_name(key)?, value, kind)?,
            false => merge_key(original, key, value, kind)?,
        }
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

fn merge_key(original: &mut Map, key: &str, value: &Tree, kind: Kind<'_>) -> Result<(), Error> {
    match (original.get_mut(key), value) {
        (_, Tree::Null) => drop(original.remove(key)),
        (Some(Tree::Map(old)), Tree::Map(patch)) => {
            let rule = kind.map_rule(key)?;
            match rule.strategy {
                Strategy::Replace => *old = copy_map(patch),
                Strategy::Merge | Strategy::Unsaid => merge_map(old, patch, rule.kind)?,
            }
        }
        (Some(Tree::List(old)), Tree::List(patch)) => list::merge(old, patch, &kind.list_rule(key)?)?,
        _ => match without_directives(value) {
            Some(value) => drop(original.insert(key, value)),
            None => drop(original.remove(key)),
        },
    }
    Ok(())
}

/// Values go from a list whatever its strategy. From an absent list nothing goes.
fn delete_from_list(original: &mut Map, key: &str, value: &Tree, kind: Kind<'_>) -> Result<(), Error> {
    match (original.get_mut(key), value) {
        (_, Tree::Null) => drop(original.remove(key)),
        (Some(Tree::List(old)), Tree::List(values)) => list::delete(old, values, &kind.list_rule(key)?)?,
        _ => {}
    }
    Ok(())
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
