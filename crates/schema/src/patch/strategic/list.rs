//! Merging of lists in a strategic merge patch.
//!
//! Elements are matched by hashing their keys: a list may be as long as the request body allows.

use std::collections::{HashMap, HashSet};

use super::super::copy::{copy, copy_map};
use super::super::error::Error;
use super::super::go_text::go_list;
use super::directive::{self, DELETE, MERGE, PATCH, REPLACE};
use super::order::{self, arrange};
use super::patch_meta::{PatchMeta, PatchStrategy};
use super::{merge_map, no_merge_key, wrong_type};
use crate::tree::{Map, Tree};

/// The kind of a list's elements. Elements of different kinds cannot be merged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementKind {
    Maps,
    Scalars,
}

/// Merges a list of the patch into the list of the object.
pub(super) fn merge(original: &mut Vec<Tree>, patch: &[Tree], meta: &PatchMeta<'_>) -> Result<(), Error> {
    if meta.strategy != PatchStrategy::Merge {
        *original = patch.iter().map(copy).collect();
        return Ok(());
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(());
    }
    match elements(original, patch)? {
        ElementKind::Maps => merge_maps(original, patch, meta),
        ElementKind::Scalars => merge_scalars(original, patch, meta),
    }
}

/// Deletes the given values from a list of scalars (`$deleteFromPrimitiveList`).
pub(super) fn delete(original: &mut Vec<Tree>, values: &[Tree], meta: &PatchMeta<'_>) -> Result<(), Error> {
    if original.is_empty() && values.is_empty() {
        return Ok(());
    }
    match elements(original, values)? {
        ElementKind::Maps => merge_maps(original, values, meta),
        ElementKind::Scalars => {
            let deleted: HashSet<&Tree> = values.iter().collect();
            original.retain(|value| !deleted.contains(value));
            Ok(())
        }
    }
}

/// The common kind of the elements of two lists.
pub(super) fn elements(original: &[Tree], patch: &[Tree]) -> Result<ElementKind, Error> {
    let mut all = original.iter().chain(patch);
    let first = all
        .next()
        .ok_or_else(|| Error::unmergeable("no elements in any of the given slices"))?;
    if let Tree::List(_) = first {
        return Err(Error::inapplicable("lists of lists are not supported"));
    }
    let kind = std::mem::discriminant(first);
    if all.any(|item| std::mem::discriminant(item) != kind) {
        let lists = format!("[{} {}]", go_list(original), go_list(patch));
        return Err(Error::unmergeable(format!(
            "list element types are not identical: {lists}"
        )));
    }
    Ok(if let Tree::Map(_) = first {
        ElementKind::Maps
    } else {
        ElementKind::Scalars
    })
}

fn merge_scalars(original: &mut Vec<Tree>, patch: &[Tree], meta: &PatchMeta<'_>) -> Result<(), Error> {
    let server_order = std::mem::take(original);
    let mut seen = HashSet::with_capacity(server_order.len() + patch.len());
    let all = server_order.iter().chain(patch);
    let merged: Vec<Tree> = all.filter(|item| seen.insert(*item)).cloned().collect();
    let patch_order = order::keys(patch, meta.merge_key)?;
    *original = arrange(merged, &patch_order, &server_order, meta.merge_key)?;
    Ok(())
}

fn merge_maps(original: &mut Vec<Tree>, patch: &[Tree], meta: &PatchMeta<'_>) -> Result<(), Error> {
    let Some(key) = meta.merge_key else {
        return Err(Error::unmergeable(
            "cannot merge lists without merge key for struct",
        ));
    };
    let patch = apply_directives(original, patch, key)?;
    let server_order = original
        .iter()
        .filter_map(|element| element.get(key).cloned())
        .collect::<Vec<_>>();
    let mut positions = first_positions(original, &server_order, key);
    let mut patch_keys = Vec::with_capacity(patch.len());
    for element in patch {
        let value = element.get(key).ok_or_else(|| no_merge_key(element, key))?;
        patch_keys.push(value);
        let at = *positions.entry(value).or_insert(original.len());
        match original.get_mut(at).and_then(Tree::as_map_mut) {
            Some(other) => merge_map(other, element, meta.kind)?,
            None => original.push(copy_map(element).into()),
        }
    }
    *original = arrange(std::mem::take(original), &patch_keys, &server_order, Some(key))?;
    Ok(())
}

/// The position of the first element with each key. `keys` are those of the elements that have one.
fn first_positions<'k>(elements: &[Tree], keys: &'k [Tree], key: &str) -> HashMap<&'k Tree, usize> {
    let keyed = elements.iter().enumerate();
    let keyed = keyed.filter(|(_, element)| element.get(key).is_some());
    let mut positions = HashMap::with_capacity(keys.len());
    for ((at, _), value) in keyed.zip(keys) {
        positions.entry(value).or_insert(at);
    }
    positions
}

/// Applies the elements with directives, and returns the elements still to be merged.
fn apply_directives<'p>(
    original: &mut Vec<Tree>,
    patch: &'p [Tree],
    key: &str,
) -> Result<Vec<&'p Map>, Error> {
    let mut rest = Vec::with_capacity(patch.len());
    let (mut deleted, mut replace) = (HashSet::new(), false);
    for element in patch {
        let element = element
            .as_map()
            .ok_or_else(|| wrong_type("map[string]interface {}", element))?;
        match element
            .get(PATCH)
            .map(|directive| (directive, directive.as_str()))
        {
            None => rest.push(element),
            Some((_, Some(REPLACE))) => replace = true,
            Some((_, Some(DELETE))) => {
                deleted.insert(element.get(key).ok_or_else(|| no_merge_key(element, key))?);
            }
            Some((_, Some(MERGE))) => {
                return Err(Error::unmergeable(
                    "merging lists cannot yet be specified in the patch",
                ));
            }
            Some((directive, _)) => return Err(directive::unknown(directive, element)),
        }
    }
    if !deleted.is_empty() {
        original.retain(|other| !other.get(key).is_some_and(|value| deleted.contains(value)));
    }
    if replace {
        *original = rest.drain(..).map(|element| copy_map(element).into()).collect();
    }
    Ok(rest)
}
