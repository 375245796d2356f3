//! Pruning: what a document says beyond its shape is dropped and named, and what has the wrong type is refused.
//!
//! One walk in document order does it all, as the order of the problems is part of the answer a client sees:
//!
//! * an unknown field is removed and named once, its content unseen;
//! * a field given twice is named once, and the later value counts (an object is laid over the earlier one);
//! * null means unset and is removed;
//! * the first value of a wrong type is kept as [`Problems::mismatch`], in the words of the reference server, unless a
//!   type that reads itself (a time, a quantity) refuses its value later on;
//! * times get their canonical form, quantities become strings.
//!
//! Raw JSON is not looked into. Names are case-sensitive.

mod path;
mod scalar;

use std::collections::HashSet;

use compact_str::CompactString;

use crate::shape::{Card, Field, Link, Of, Shape};
use crate::tree::{Map, Tree};
use path::Path;

pub use scalar::check_quantity;

/// At most this many problems are named; the rest are dealt with in silence.
const MOST_PROBLEMS: usize = 100;

/// Maps above this size are checked for duplicates by hashing.
const LARGE_MAP_PAIRS: usize = 16;

/// One thing a strict reader would refuse.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Problem {
    #[error("unknown field \"{0}\"")]
    Unknown(String),
    #[error("duplicate field \"{0}\"")]
    Duplicate(String),
}

/// What was found wrong with a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// In document order, each named once.
    pub list: Vec<Problem>,
    /// The first value of a wrong type. The document cannot be used if there is one.
    pub mismatch: Option<String>,
}

impl Problems {
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.mismatch.is_none()
    }
}

/// Drops from a document what its shape does not know, and says what that was.
pub fn prune(shape: &Shape, tree: &mut Tree) -> Problems {
    let mut walk = Walk {
        problems: Problems::default(),
        quiet: false,
        stopped: false,
    };
    walk.shape(shape, tree, &Path::root(shape));
    walk.problems
}

struct Walk {
    problems: Problems,
    /// Inside types that read themselves, problems are dealt with but not named.
    quiet: bool,
    /// A type that reads itself refused its value: nothing that comes later counts.
    stopped: bool,
}

impl Walk {
    fn shape(&mut self, shape: &Shape, tree: &mut Tree, path: &Path<'_>) {
        match tree {
            Tree::Map(map) => self.object(shape, map, &path.inside(shape)),
            Tree::List(items) if shape.wrap => self.wrapped(shape, items, path),
            other => self.mismatch(other, path, shape.versioned_name()),
        }
    }

    fn wrapped(&mut self, shape: &Shape, items: &mut [Tree], path: &Path<'_>) {
        let element = shape
            .fields
            .first()
            .expect("a wrapper has its list as the only field");
        self.list(element, items, path);
    }

    fn object(&mut self, shape: &Shape, map: &mut Map, path: &Path<'_>) {
        let (mut seen, mut next, mut doubled, mut unset) = (0u128, 0, false, false);
        for (key, value) in map.iter_mut() {
            let Some(at) = shape.position(key, next) else {
                self.report(Problem::Unknown, path, key);
                *value = Tree::Null;
                unset = true;
                continue;
            };
            next = at + 1;
            if seen & (1 << at) != 0 {
                self.report(Problem::Duplicate, path, key);
                doubled = true;
            }
            seen |= 1 << at;
            match value {
                Tree::Null => unset = true,
                value => self.field(&shape.members()[at], value, path),
            }
        }
        if doubled {
            lay_over(map);
        }
        if unset {
            map.retain(|_, value| !value.is_null());
        }
    }

    fn field(&mut self, field: &Field, value: &mut Tree, path: &Path<'_>) {
        let path = path.member(&field.name);
        match (field.card, value) {
            (Card::One, value) => self.value(field, value, &path),
            (Card::List, Tree::List(items)) => self.list(field, items, &path),
            (Card::Map, Tree::Map(map)) => self.map(field, map, &path),
            (_, other) => self.mismatch(other, &path, &scalar::whole_type(field)),
        }
    }

    fn list(&mut self, field: &Field, items: &mut [Tree], path: &Path<'_>) {
        for (at, item) in items.iter_mut().enumerate() {
            self.element(field, item, &path.index(at));
        }
    }

    fn map(&mut self, field: &Field, map: &mut Map, path: &Path<'_>) {
        let doubled = self.duplicates(map, path);
        for (key, value) in map.iter_mut() {
            self.element(field, value, &path.key(key));
        }
        if doubled {
            lay_over(map);
        }
    }

    /// Names each key that comes again, in document order.
    fn duplicates(&mut self, map: &Map, path: &Path<'_>) -> bool {
        let pairs = map.pairs();
        let mut doubled = false;
        let mut seen = HashSet::new();
        for (at, (key, _)) in pairs.iter().enumerate() {
            let again = match pairs.len() {
                0..=LARGE_MAP_PAIRS => pairs[..at].iter().any(|(earlier, _)| earlier == key),
                _ => !seen.insert(key.as_str()),
            };
            if again {
                self.report(Problem::Duplicate, path, key);
                doubled = true;
            }
        }
        doubled
    }

    /// An element is there even if it is null: it then has the zero value of its type.
    fn element(&mut self, field: &Field, value: &mut Tree, path: &Path<'_>) {
        if value.is_null() {
            *value = scalar::zero(&field.of);
            return;
        }
        self.value(field, value, path);
    }

    fn value(&mut self, field: &Field, value: &mut Tree, path: &Path<'_>) {
        match &field.of {
            Of::Shape(link) => self.shape(link.shape(), value, path),
            Of::RawJson => {}
            Of::SchemaOrBool(link) | Of::SchemaOrArray(link) | Of::SchemaOrStrings(link) => {
                self.schema_or(link, value, path);
            }
            _ => {
                if let Err(wrong) = scalar::conform(field, value) {
                    self.wrong(field, wrong.text(value, path));
                }
            }
        }
    }

    fn schema_or(&mut self, link: &Link, value: &mut Tree, path: &Path<'_>) {
        let before = std::mem::replace(&mut self.quiet, true);
        match value {
            Tree::Map(_) => self.shape(link.shape(), value, path),
            Tree::List(items) => {
                let schemas = items.iter_mut().filter(|item| item.as_map().is_some());
                schemas.for_each(|schema| self.shape(link.shape(), schema, path));
            }
            _ => {}
        }
        self.quiet = before;
    }

    /// Types that read themselves stop the reading; other mistakes are remembered, and the first one counts.
    fn wrong(&mut self, field: &Field, text: String) {
        if self.stopped {
            return;
        }
        self.stopped = scalar::reads_itself(&field.of);
        match &mut self.problems.mismatch {
            Some(earlier) if self.stopped => *earlier = text,
            earlier => _ = earlier.get_or_insert(text),
        }
    }

    fn mismatch(&mut self, value: &Tree, path: &Path<'_>, wanted: &str) {
        self.problems
            .mismatch
            .get_or_insert_with(|| path.mismatch(value.type_name(), wanted));
    }

    fn report(&mut self, problem: fn(String) -> Problem, path: &Path<'_>, key: &str) {
        if self.quiet || self.problems.list.len() >= MOST_PROBLEMS {
            return;
        }
        let problem = problem(path.text_of(key));
        if !self.problems.list.contains(&problem) {
            self.problems.list.push(problem);
        }
    }
}

/// Makes every key single: the later value in the earlier place, objects laid over each other.
fn lay_over(map: &mut Map) {
    let mut single: Vec<(CompactString, Tree)> = Vec::with_capacity(map.len());
    let mut places = std::collections::HashMap::new();
    for (key, value) in map.pairs_mut().drain(..) {
        match places.get(&key) {
            None => {
                places.insert(key.clone(), single.len());
                single.push((key, value));
            }
            Some(at) => overlay(&mut single[*at].1, value),
        }
    }
    *map.pairs_mut() = single;
}

fn overlay(earlier: &mut Tree, later: Tree) {
    match (earlier, later) {
        (_, Tree::Null) => {}
        (Tree::Map(earlier), Tree::Map(later)) => {
            for (key, value) in later {
                overlay(earlier.entry(&key), value);
            }
        }
        (earlier, later) => *earlier = later,
    }
}

#[cfg(test)]
mod tests;
