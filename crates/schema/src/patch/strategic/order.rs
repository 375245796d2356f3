//! The order of merged lists.
//!
//! The elements of the patch are in the patch's order, or in that of `$setElementOrder/x` beside it. Server-only elements
//! keep their own order, and each is before the first of the patch's elements that it preceded in the object. For example,
//! with `s1 a s2 b` in the object and the order `b a`, the list becomes `s1 s2 b a`.

use std::collections::{HashMap, HashSet};

use super::super::copy::last_pairs;
use super::super::error::Error;
use super::super::go_text::go_list;
use super::directive::{PATCH, SET_ORDER, list_name, without_directives};
use super::list::{self, ElementKind, elements};
use super::patch_meta::ValueKind;
use super::{no_merge_key, wrong_type};
use crate::tree::{Map, Tree};

/// Merges the lists with a `$setElementOrder` directive, and returns their names.
pub(super) fn merge_ordered_lists<'p>(
    original: &mut Map,
    patch: &'p Map,
    kind: ValueKind<'_>,
) -> Result<HashSet<&'p str>, Error> {
    let mut merged = HashSet::new();
    for (key, order) in last_pairs(patch) {
        if !key.starts_with(SET_ORDER) {
            continue;
        }
        let order = order
            .as_list()
            .ok_or_else(|| wrong_type("[]interface {}", order))?;
        let name = list_name(key)?;
        merge_ordered(original, patch, (name, order), kind)?;
        merged.insert(name);
    }
    Ok(merged)
}

fn merge_ordered(
    original: &mut Map,
    patch: &Map,
    (name, order): (&str, &[Tree]),
    kind: ValueKind<'_>,
) -> Result<(), Error> {
    let live = list_at(original, name)?;
    let named = list_at(patch, name)?;
    let meta = kind.list_patch_meta(name)?;
    check(named.unwrap_or_default(), order, meta.merge_key)?;
    let mut merged = match (live, named) {
        (None, None) => return Ok(()),
        (Some(live), _) => live.to_vec(),
        (None, Some(named)) => added(named),
    };
    let server_order = match live {
        Some(live) => owned_keys(live, meta.merge_key)?,
        None => Vec::new(),
    };
    let element_kind = elements(live.unwrap_or_default(), named.unwrap_or_default())?;
    if element_kind == ElementKind::Maps && meta.merge_key.is_none() {
        return Err(Error::unmergeable(
            "cannot merge lists without merge key for struct",
        ));
    }
    if let (Some(_), Some(named)) = (live, named) {
        list::merge(&mut merged, named, &meta)?;
    }
    let arranged = arrange(
        merged,
        &keys(order, meta.merge_key)?,
        &server_order,
        meta.merge_key,
    )?;
    original.insert(name, arranged);
    Ok(())
}

fn list_at<'a>(map: &'a Map, name: &str) -> Result<Option<&'a [Tree]>, Error> {
    match map.get(name) {
        None => Ok(None),
        Some(Tree::List(items)) => Ok(Some(items)),
        Some(other) => Err(wrong_type("[]interface {}", other)),
    }
}

fn added(named: &[Tree]) -> Vec<Tree> {
    named.iter().filter_map(without_directives).collect()
}

/// Checks that the elements the patch sets are in `$setElementOrder`, and in that order.
fn check(named: &[Tree], order: &[Tree], merge_key: Option<&str>) -> Result<(), Error> {
    if named.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for element in named {
        if merge_key.is_some() && element.as_map().is_none() {
            return Err(wrong_type("map[string]interface {}", element));
        }
        // Elements with a directive are not in the merged list, so they need not be in the order.
        if element.get(PATCH).is_some() {
            continue;
        }
        if !advance_to(&mut rest, element, merge_key)? {
            return Err(out_of_order(named, order));
        }
    }
    Ok(())
}

/// Advances the iterator past an element; false if it is not there.
fn advance_to<'t>(
    order: &mut impl Iterator<Item = &'t Tree>,
    element: &Tree,
    merge_key: Option<&str>,
) -> Result<bool, Error> {
    for other in order {
        if key_of(element, merge_key)? == key_of(other, merge_key)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn out_of_order(named: &[Tree], order: &[Tree]) -> Error {
    let (named, order) = (go_list(named), go_list(order));
    Error::unmergeable(format!(
        "The order in patch list:\n{named}\n doesn't match {SET_ORDER} list:\n{order}\n"
    ))
}

/// Sorts the merged elements: `patch` and `server` are the keys in the order of the patch and of the object.
pub(super) fn arrange(
    merged: Vec<Tree>,
    patch: &[&Tree],
    server: &[Tree],
    merge_key: Option<&str>,
) -> Result<Vec<Tree>, Error> {
    let (mut named, mut server_only) = (Vec::new(), Vec::new());
    let in_patch = first_positions(patch.iter().copied());
    let in_object = first_positions(server.iter());
    for element in merged {
        let key = key_of(&element, merge_key)?;
        let in_server = in_object.get(key).copied();
        match in_patch.get(key).copied() {
            Some(at) => named.push((at, in_server, element)),
            None => server_only.push((in_server, element)),
        }
    }
    named.sort_by_key(|(at, _, _)| *at);
    server_only.sort_by_key(|(in_server, _)| *in_server);
    Ok(interleave(server_only, named))
}

/// The first position of each key.
fn first_positions<'t>(
    keys: impl DoubleEndedIterator<Item = &'t Tree> + ExactSizeIterator,
) -> HashMap<&'t Tree, usize> {
    // Of several entries with one key the last inserted stays.
    keys.enumerate().rev().map(|(at, key)| (key, at)).collect()
}

fn interleave(
    server_only: Vec<(Option<usize>, Tree)>,
    named: Vec<(usize, Option<usize>, Tree)>,
) -> Vec<Tree> {
    let mut all = Vec::with_capacity(server_only.len() + named.len());
    let mut server_only = server_only.into_iter().peekable();
    for (_, in_server, element) in named {
        let precedes =
            |other: &(Option<usize>, Tree)| matches!((other.0, in_server), (Some(a), Some(b)) if a < b);
        while let Some((_, other)) = server_only.next_if(precedes) {
            all.push(other);
        }
        all.push(element);
    }
    all.extend(server_only.map(|(_, element)| element));
    all
}

/// The keys that elements are matched by: their merge key, or the elements themselves.
pub(super) fn keys<'t>(elements: &'t [Tree], merge_key: Option<&str>) -> Result<Vec<&'t Tree>, Error> {
    elements
        .iter()
        .map(|element| key_of(element, merge_key))
        .collect()
}

fn owned_keys(elements: &[Tree], merge_key: Option<&str>) -> Result<Vec<Tree>, Error> {
    Ok(keys(elements, merge_key)?.into_iter().cloned().collect())
}

fn key_of<'t>(element: &'t Tree, merge_key: Option<&str>) -> Result<&'t Tree, Error> {
    let Some(key) = merge_key else { return Ok(element) };
    let map = element
        .as_map()
        .ok_or_else(|| wrong_type("map[string]interface {}", element))?;
    map.get(key).ok_or_else(|| no_merge_key(map, key))
}
