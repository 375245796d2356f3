//! Laying what a client applies over the live document.
//!
//! Structs, maps, sets and associative lists are merged; everything else is replaced. Nothing is removed here.

use std::collections::BTreeMap;

use super::element::Element;
use super::place::{Kind, Place, step};
use crate::shape::{Field, Shape};
use crate::tree::{Map, Tree};

/// The live document with the applied one laid over it. Both are read literally.
pub(super) fn merge(shape: &Shape, live: &Tree, applied: &Tree) -> Tree {
    value(Place::of_shape(shape), live, applied)
}

fn value(place: Place<'_>, live: &Tree, applied: &Tree) -> Tree {
    match (live, applied) {
        _ if place.atomic => applied.clone(),
        (Tree::Map(live), Tree::Map(applied)) if !live.is_empty() => maps(place, live, applied),
        (Tree::List(live), Tree::List(applied)) if !live.is_empty() => match place.kind {
            Kind::List(field) => lists(field, live, applied),
            _ => Tree::List(applied.clone()),
        },
        // A null names the struct, map or list, but says nothing about its content.
        (Tree::Map(map), Tree::Null) if !map.is_empty() => live.clone(),
        (Tree::List(items), Tree::Null) if !items.is_empty() && matches!(place.kind, Kind::List(_)) => {
            live.clone()
        }
        _ => applied.clone(),
    }
}

fn maps(place: Place<'_>, live: &Map, applied: &Map) -> Tree {
    let mut given: BTreeMap<&str, &Tree> = applied.iter().collect();
    let mut merged = Map::with_capacity(live.len().max(applied.len()));
    for (key, old) in live.iter() {
        let new = match (given.remove(key), place.under(key)) {
            (Some(applied), Some(place)) => value(place, old, applied),
            (Some(applied), None) => applied.clone(),
            (None, _) => old.clone(),
        };
        merged.push(key, new);
    }
    for (key, _) in applied.iter() {
        if let Some(new) = given.remove(key) {
            merged.push(key, new.clone());
        }
    }
    merged.into()
}

/// Merges the items with the same step. Applied items keep their order among each other; live items that are not
/// applied stay before whatever applied item they preceded.
fn lists(list: &Field, live: &[Tree], applied: &[Tree]) -> Tree {
    let steps =
        |items: &[Tree]| -> Vec<Option<Element>> { items.iter().map(|item| step(list, item).ok()).collect() };
    let (live_steps, applied_steps) = (steps(live), steps(applied));
    let partners = partners(&live_steps, &applied_steps);
    let olds = single_partners(&partners, applied.len());
    let merge = |at: usize| match olds[at] {
        Partner::One(old) => value(Place::of_element(list), &live[old], &applied[at]),
        Partner::None | Partner::Many => applied[at].clone(),
    };
    let picks = order(&partners, &olds).into_iter();
    let items = picks.map(|pick| match pick {
        Pick::Live(at) => live[at].clone(),
        Pick::Applied(at) => merge(at),
    });
    Tree::List(items.collect())
}

/// Which live items have the step of an applied one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Partner {
    None,
    One(usize),
    /// The live list has the step twice, so that it is not clear what to merge with.
    Many,
}

/// For each applied item the live one with the same step.
fn single_partners(partners: &[Option<usize>], applied: usize) -> Vec<Partner> {
    let mut olds = vec![Partner::None; applied];
    for (old, at) in partners
        .iter()
        .enumerate()
        .filter_map(|(old, at)| Some((old, (*at)?)))
    {
        olds[at] = match olds[at] {
            Partner::None => Partner::One(old),
            Partner::One(_) | Partner::Many => Partner::Many,
        };
    }
    olds
}

/// For each live item the place of the applied one with the same step.
fn partners(live: &[Option<Element>], applied: &[Option<Element>]) -> Vec<Option<usize>> {
    let places: BTreeMap<&Element, usize> = applied
        .iter()
        .enumerate()
        .filter_map(|(at, element)| Some((element.as_ref()?, at)))
        .collect();
    let place = |element: &Option<Element>| places.get(element.as_ref()?).copied();
    live.iter().map(place).collect()
}

/// Which item comes next in a merged list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pick {
    Live(usize),
    /// An applied item, merged with the live one of the same step.
    Applied(usize),
}

/// The order of a merged list, given for each live item the place of its applied partner and the other way round.
fn order(partners: &[Option<usize>], olds: &[Partner]) -> Vec<Pick> {
    let next_shared = next_shared(olds);
    let (mut picks, mut live, mut next) = (Vec::new(), 0, 0);
    while live < partners.len() || next < olds.len() {
        match partners.get(live) {
            Some(None) => {
                picks.push(Pick::Live(live));
                live += 1;
                continue;
            }
            // Its applied partner has its turn later, or had it.
            Some(Some(at)) if next_shared[next].is_some_and(|shared| shared != *at) => {
                live += 1;
                continue;
            }
            Some(Some(at)) if *at <= next => live += 1,
            Some(Some(_)) | None => {}
        }
        if next < olds.len() {
            picks.push(Pick::Applied(next));
            next += 1;
        }
    }
    picks
}

/// From each place on, and from the end, the next applied item that has a live partner.
fn next_shared(olds: &[Partner]) -> Vec<Option<usize>> {
    let mut next = vec![None; olds.len() + 1];
    for at in (0..olds.len()).rev() {
        next[at] = if olds[at] == Partner::None {
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
    use crate::shape::{Card, ListType, Of};

    /// Items are letters.
    #[track_caller]
    fn check(live: &str, applied: &str, expected: &str) {
        let items =
            |text: &str| -> Vec<Tree> { text.chars().map(|item| Tree::from(item.to_string())).collect() };
        let mut list = Field::new("l", Of::String);
        (list.card, list.list_type) = (Card::List, Some(ListType::Set));
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
    fn of_a_live_item_that_comes_twice_one_is_left_if_it_is_applied() {
        check("aba", "a", "ab");
        check("aab", "b", "aab");
    }
}
