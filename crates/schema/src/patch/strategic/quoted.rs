//! The patch as the reference server quotes it in an error: it merges destructively, so that a patch is printed without the
//! directives that were executed, and without the nulls of values that were added.

use super::super::copy::{copy, copy_without_nulls};
use super::super::go_text::go_type;
use super::directive::{
    DELETE, DELETE_FROM_LIST, PATCH, REPLACE, RETAIN_KEYS, SET_ORDER, list_name, remove_directives,
};
use super::patch_meta::{PatchMeta, PatchStrategy, ValueKind};
use crate::tree::{Map, Tree};

/// What is left of the patch of a map after it was merged into `original`.
pub(super) fn rest_of_map(original: &Map, patch: &Map, kind: ValueKind<'_>) -> Map {
    let Tree::Map(mut rest) = copy(&Tree::Map(patch.clone())) else {
        return Map::default();
    };
    if let Some(directive) = patch.get(PATCH) {
        if directive.as_str() == Some(REPLACE) {
            rest.remove(PATCH);
        }
        return rest;
    }
    let retained = rest.remove(RETAIN_KEYS);
    let is_retained = |key: &str| {
        let retained = retained.as_ref().and_then(Tree::as_list);
        retained.is_none_or(|keys| keys.iter().any(|retained| retained.as_str() == Some(key)))
    };
    let old_value = |key: &str| original.get(key).filter(|_| is_retained(key));
    remove_ordered(&mut rest, &old_value);
    for (key, value) in rest.iter_mut() {
        let name = match key.starts_with(DELETE_FROM_LIST) {
            true => list_name(key).unwrap_or(key),
            false => key,
        };
        if let Some(changed) = rest_of_value(old_value(name), value, (name, name != key), kind) {
            *value = changed;
        }
    }
    rest
}

/// Removes the lists whose order was set, with the directives that did it.
fn remove_ordered<'t>(rest: &mut Map, old_value: &impl Fn(&str) -> Option<&'t Tree>) {
    let orders: Vec<String> = rest
        .keys()
        .filter(|key| key.starts_with(SET_ORDER))
        .map(str::to_owned)
        .collect();
    for key in orders {
        rest.remove(&key);
        if let Ok(name) = list_name(&key)
            && (old_value(name).is_some() || rest.contains_key(name))
        {
            rest.remove(name);
        }
    }
}

/// What is left of a value, if that differs. `name` is the field, and whether the value deletes from that list.
fn rest_of_value(
    old: Option<&Tree>,
    value: &Tree,
    (name, deletes): (&str, bool),
    kind: ValueKind<'_>,
) -> Option<Tree> {
    match (old, value) {
        (_, Tree::Null) => None,
        (Some(Tree::Map(old)), Tree::Map(patch)) => match kind.map_patch_meta(name).ok()? {
            meta if meta.strategy == PatchStrategy::Replace => None,
            meta => Some(rest_of_map(old, patch, meta.kind).into()),
        },
        (Some(Tree::List(old)), Tree::List(patch)) => match kind.list_patch_meta(name).ok()? {
            meta if meta.strategy == PatchStrategy::Merge || deletes => {
                Some(rest_of_list(old, patch, &meta).into())
            }
            _ => None,
        },
        (Some(old), value) if go_type(old) == go_type(value) => None,
        _ if deletes => None,
        (_, value) => Some(rest_of_added(value)),
    }
}

/// What is left of an added value: a list itself keeps its elements with directives.
fn rest_of_added(value: &Tree) -> Tree {
    let mut rest = copy_without_nulls(value);
    let parts = match &mut rest {
        Tree::List(items) => items.as_mut_slice(),
        other => std::slice::from_mut(other),
    };
    for part in parts {
        remove_directives(part);
    }
    rest
}

fn rest_of_list(original: &[Tree], patch: &[Tree], meta: &PatchMeta<'_>) -> Vec<Tree> {
    let has_directive =
        |element: &Tree, directive: &str| element.get(PATCH).and_then(Tree::as_str) == Some(directive);
    let Some(key) = meta.merge_key else {
        return patch.iter().map(copy).collect();
    };
    let replaces = patch.iter().any(|element| has_directive(element, REPLACE));
    let is_deleted = |value: &Tree| {
        let mut deletes = patch.iter().filter(|element| has_directive(element, DELETE));
        deletes.any(|element| element.get(key) == Some(value))
    };
    let rest_of_element = |element: &Tree| {
        let (Tree::Map(map), Some(value)) = (element, element.get(key)) else {
            return copy(element);
        };
        let mut same = original.iter().filter(|old| old.get(key) == Some(value));
        match same.next().and_then(Tree::as_map) {
            Some(old) if !replaces && !map.contains_key(PATCH) && !is_deleted(value) => {
                rest_of_map(old, map, meta.kind).into()
            }
            _ => copy(element),
        }
    };
    patch.iter().map(rest_of_element).collect()
}
