//! Merge of an applied configuration into the live object.
//!
//! Structs, maps, sets and associative lists are merged; everything else is replaced. Nothing is removed here.

use std::collections::BTreeMap;

use super::path_element::PathElement;
use super::schema_node::{NodeKind, SchemaNode, path_element};
use crate::shape::{Field, Shape};
use crate::tree::{Map, Tree};

/// Merges the applied configuration into the live object. Both are read literally.
pub(super) fn merge(shape: &Shape, live: &Tree, applied: &Tree) -> Tree {
    value(SchemaNode::of_shape(shape), live, applied)
}

fn value(node: SchemaNode<'_>, live: &Tree, applied: &Tree) -> Tree {
    match (live, applied) {
        _ if node.atomic => applied.clone(),
        (Tree::Map(live), Tree::Map(applied)) if !live.is_empty() => maps(node, live, applied),
        (Tree::List(live), Tree::List(applied)) if !live.is_empty() => match node.kind {
            NodeKind::List(field) => lists(field, live, applied),
            _ => Tree::List(applied.clone()),
        },
        // A null owns the struct, map or list itself, but leaves its content as it is.
        (Tree::Map(map), Tree::Null) if !map.is_empty() => live.clone(),
        (Tree::List(items), Tree::Null) if !items.is_empty() && matches!(node.kind, NodeKind::List(_)) => {
            live.clone()
        }
        _ => applied.clone(),
    }
}

fn maps(node: SchemaNode<'_>, live: &Map, applied: &Map) -> Tree {
    let mut rest: BTreeMap<&str, &Tree> = applied.iter().collect();
    let mut merged = Map::with_capacity(live.len().max(applied.len()));
    for (key, old) in live.iter() {
        let new = match (rest.remove(key), node.child(key)) {
            (Some(applied), Some(node)) => value(node, old, applied),
            (Some(applied), None) => applied.clone(),
            (None, _) => old.clone(),
        };
        merged.push(key, new);
    }
    for (key, _) in applied.iter() {
        if let Some(new) = rest.remove(key) {
            merged.push(key, new.clone());
        }
    }
    merged.into()
}

/// Merges the items with the same path element. Applied items keep their order; live items that are not applied stay
/// before the applied item they preceded.
fn lists(list: &Field, live: &[Tree], applied: &[Tree]) -> Tree {
    let elements = |items: &[Tree]| -> Vec<Option<PathElement>> {
        items.iter().map(|item| path_element(list, item).ok()).collect()
    };
    let (live_elements, applied_elements) = (elements(live), elements(applied));
    let applied_matches = applied_matches(&live_elements, &applied_elements);
    let live_matches = live_matches(&applied_matches, applied.len());
    let merge = |at: usize| match live_matches[at] {
        LiveMatch::One(old) => value(SchemaNode::of_element(list), &live[old], &applied[at]),
        LiveMatch::None | LiveMatch::Many => applied[at].clone(),
    };
    let merged = order(&applied_matches, &live_matches).into_iter();
    let items = merged.map(|item| match item {
        MergedItem::Live(at) => live[at].clone(),
        MergedItem::Applied(at) => merge(at),
    });
    Tree::List(items.collect())
}

/// The live items with the path element of an applied one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LiveMatch {
    None,
    One(usize),
    /// The live list has duplicates, so that it is ambiguous what to merge with.
    Many,
}

/// For each applied item the live one with the same path element.
fn live_matches(applied_matches: &[Option<usize>], applied: usize) -> Vec<LiveMatch> {
    let mut matches = vec![LiveMatch::None; applied];
    for (old, at) in applied_matches
        .iter()
        .enumerate()
        .filter_map(|(old, at)| Some((old, (*at)?)))
    {
        matches[at] = match matches[at] {
            LiveMatch::None => LiveMatch::One(old),
            LiveMatch::One(_) | LiveMatch::Many => LiveMatch::Many,
        };
    }
    matches
}

/// For each live item the index of the applied one with the same path element.
fn applied_matches(live: &[Option<PathElement>], applied: &[Option<PathElement>]) -> Vec<Option<usize>> {
    let indexes: BTreeMap<&PathElement, usize> = applied
        .iter()
        .enumerate()
        .filter_map(|(at, element)| Some((element.as_ref()?, at)))
        .collect();
    let index = |element: &Option<PathElement>| indexes.get(element.as_ref()?).copied();
    live.iter().map(index).collect()
}

/// One item of a merged list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MergedItem {
    Live(usize),
    /// An applied item, merged with the live one of the same path element.
    Applied(usize),
}

/// The order of a merged list, given for each live item the index of its applied match and vice versa.
fn order(applied_matches: &[Option<usize>], matches: &[LiveMatch]) -> Vec<MergedItem> {
    let next_shared = next_shared(matches);
    let (mut merged, mut live, mut next) = (Vec::new(), 0, 0);
    while live < applied_matches.len() || next < matches.len() {
        match applied_matches.get(live) {
            Some(None) => {
                merged.push(MergedItem::Live(live));
                live += 1;
                continue;
            }
            // Its applied match comes later, or has come already.
            Some(Some(at)) if next_shared[next].is_some_and(|shared| shared != *at) => {
                live += 1;
                continue;
            }
            Some(Some(at)) if *at <= next => live += 1,
            Some(Some(_)) | None => {}
        }
        if next < matches.len() {
            merged.push(MergedItem::Applied(next));
            next += 1;
        }
    }
    merged
}

/// From each index on, and from the end, the next applied item that has a live match.
fn next_shared(matches: &[LiveMatch]) -> Vec<Option<usize>> {
    let mut next = vec![None; matches.len() + 1];
    for at in (0..matches.len()).rev() {
        next[at] = if matches[at] == LiveMatch::None {
            next[at + 1]
        } else {
            Some(at)
        };
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Cardinality, FieldType, ListType};

    /// Items are letters.
    #[track_caller]
    fn check(live: &str, applied: &str, expected: &str) {
        let items =
            |text: &str| -> Vec<Tree> { text.chars().map(|item| Tree::from(item.to_string())).collect() };
        let mut list = Field::new("l", FieldType::String);
        (list.cardinality, list.list_type) = (Cardinality::List, Some(ListType::Set));
        assert_eq!(
            lists(&list, &items(live), &items(applied)),
            Tree::List(items(expected))
        );
    }

    #[test]
    fn applied_items_keep_their_order_and_live_ones_their_neighbours() {
        check("abc", "cad", "bcad");
        check("ab", "ba", "ba");
        check("a", "b", "ab");
        check("abc", "x", "abcx");
        check("abc", "b", "abc");
        check("abcd", "db", "acdb");
        check("abc", "xb", "axbc");
        check("abc", "abc", "abc");
    }

    #[test]
    fn of_duplicate_live_items_one_is_left_if_it_is_applied() {
        check("aba", "a", "ab");
        check("aab", "b", "aab");
    }
}
