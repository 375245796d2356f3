//! Pruning: unknown fields are dropped and reported, and values of a wrong type are rejected.
//!
//! One traversal in input order does it all, as the order of the errors is visible to clients:
//!
//! * an unknown field is removed and reported once, its content is not inspected;
//! * a duplicate field is reported once, and the later value counts (an object is merged into the earlier one);
//! * null means unset and is removed;
//! * the first value of a wrong type is kept as [`PruneErrors::type_error`], in the text of the reference server, unless
//!   a type with its own `UnmarshalJSON` (a time, a quantity, `items` of a schema) rejects its value later on;
//! * times get their canonical form, quantities become strings.
//!
//! Raw JSON is not inspected. Names are case-sensitive.

mod path;
mod scalar;

use std::collections::HashSet;

use compact_str::CompactString;

use crate::shape::{Cardinality, Field, FieldType, Shape, ShapeRef};
use crate::tree::{Map, Tree};
use path::Path;

pub use scalar::check_quantity;
pub(crate) use scalar::{check_base64, go_type as scalar_type};

/// At most this many errors are reported; the rest are pruned silently.
const MAX_ERRORS: usize = 100;

/// Maps above this size are checked for duplicates by hashing.
const LARGE_MAP_PAIRS: usize = 16;

/// A strict decoding error.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum StrictError {
    #[error("unknown field \"{0}\"")]
    Unknown(String),
    #[error("duplicate field \"{0}\"")]
    Duplicate(String),
}

/// The errors found while pruning an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneErrors {
    /// In input order, each reported once.
    pub strict: Vec<StrictError>,
    /// The first value of a wrong type. The object cannot be used if there is one.
    pub type_error: Option<String>,
}

impl PruneErrors {
    pub fn is_empty(&self) -> bool {
        self.strict.is_empty() && self.type_error.is_none()
    }
}

/// Drops the fields of an object that its shape does not declare, and reports them.
pub fn prune(shape: &Shape, tree: &mut Tree) -> PruneErrors {
    let mut walk = Walk {
        errors: PruneErrors::default(),
        quiet: false,
        stopped: false,
    };
    walk.shape(shape, tree, &Path::root(shape));
    walk.errors
}

struct Walk {
    errors: PruneErrors,
    /// Inside types with their own `UnmarshalJSON`, fields are pruned but not reported.
    quiet: bool,
    /// A type with its own `UnmarshalJSON` rejected its value: decoding stops, later errors do not count.
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
        let (mut seen, mut next, mut has_duplicates, mut unset) = (0u128, 0, false, false);
        for (key, value) in map.slots_mut() {
            let Some(at) = shape.position_of(key, next) else {
                self.report(StrictError::Unknown, path, key);
                *value = Tree::Null;
                unset = true;
                continue;
            };
            next = at + 1;
            if seen & (1 << at) != 0 {
                self.report(StrictError::Duplicate, path, key);
                has_duplicates = true;
            }
            seen |= 1 << at;
            match value {
                Tree::Null => unset = true,
                value => {
                    self.field(&shape.members()[at], value, path);
                    unset |= value.is_null();
                }
            }
        }
        if has_duplicates {
            merge_duplicates(map);
        }
        if unset {
            map.retain(|_, value| !value.is_null());
        }
    }

    fn field(&mut self, field: &Field, value: &mut Tree, path: &Path<'_>) {
        let path = path.member(&field.name);
        match (field.cardinality, value) {
            (Cardinality::One, value) => self.value(field, value, &path),
            (Cardinality::List, Tree::List(items)) => self.list(field, items, &path),
            (Cardinality::Map, Tree::Map(map)) => self.map(field, map, &path),
            (_, other) => self.mismatch(other, &path, &scalar::whole_type(field)),
        }
    }

    fn list(&mut self, field: &Field, items: &mut [Tree], path: &Path<'_>) {
        for (at, item) in items.iter_mut().enumerate() {
            self.element(field, item, &path.index(at));
        }
    }

    fn map(&mut self, field: &Field, map: &mut Map, path: &Path<'_>) {
        let has_duplicates = self.duplicates(map, path);
        for (key, value) in map.iter_mut() {
            self.element(field, value, &path.key(key));
        }
        if has_duplicates {
            merge_duplicates(map);
        }
    }

    /// Reports each duplicate key, in input order.
    fn duplicates(&mut self, map: &Map, path: &Path<'_>) -> bool {
        let pairs = map.pairs();
        let mut has_duplicates = false;
        let mut seen = HashSet::new();
        for (at, (key, _)) in pairs.iter().enumerate() {
            let again = match pairs.len() {
                0..=LARGE_MAP_PAIRS => pairs[..at].iter().any(|(earlier, _)| earlier == key),
                _ => !seen.insert(key.as_str()),
            };
            if again {
                self.report(StrictError::Duplicate, path, key);
                has_duplicates = true;
            }
        }
        has_duplicates
    }

    /// A null element counts as present, with the zero value of its type.
    fn element(&mut self, field: &Field, value: &mut Tree, path: &Path<'_>) {
        if value.is_null() {
            *value = scalar::zero(&field.value_type);
            return;
        }
        self.value(field, value, path);
    }

    fn value(&mut self, field: &Field, value: &mut Tree, path: &Path<'_>) {
        match &field.value_type {
            FieldType::Shape(schema) => self.shape(schema.shape(), value, path),
            FieldType::RawJson => {}
            FieldType::SchemaOrBool(schema)
            | FieldType::SchemaOrArray(schema)
            | FieldType::SchemaOrStrings(schema) => {
                self.schema_or(field, schema, value, path);
            }
            _ => {
                if let Err(error) = scalar::normalize(field, value) {
                    self.scalar_error(field, error.text(value, path));
                }
            }
        }
    }

    /// A schema or another value. Its type has its own `UnmarshalJSON`, so an error inside stops decoding.
    fn schema_or(&mut self, field: &Field, schema: &ShapeRef, value: &mut Tree, path: &Path<'_>) {
        if self.stopped {
            return;
        }
        let quiet = std::mem::replace(&mut self.quiet, true);
        let earlier = self.errors.type_error.take();
        match (&field.value_type, &mut *value) {
            (_, Tree::Map(_)) => self.shape(schema.shape(), value, path),
            (FieldType::SchemaOrBool(_), Tree::Bool(_)) => {}
            (FieldType::SchemaOrBool(_), _) => {
                self.errors.type_error = Some("boolean or JSON schema expected".to_owned());
            }
            (FieldType::SchemaOrArray(_), Tree::List(items)) if !items.is_empty() => {
                for item in items {
                    self.shape(schema.shape(), item, path);
                }
            }
            // Neither a schema nor schemas: as if it were absent.
            (FieldType::SchemaOrArray(_), value) => *value = Tree::Null,
            _ => {}
        }
        self.quiet = quiet;
        match self.errors.type_error {
            Some(_) => self.stopped = true,
            None => self.errors.type_error = earlier,
        }
    }

    /// An error of a type with its own `UnmarshalJSON` stops decoding; of the others the first one counts.
    fn scalar_error(&mut self, field: &Field, text: String) {
        if self.stopped {
            return;
        }
        self.stopped = scalar::unmarshals_itself(&field.value_type);
        match &mut self.errors.type_error {
            Some(earlier) if self.stopped => *earlier = text,
            earlier => _ = earlier.get_or_insert(text),
        }
    }

    fn mismatch(&mut self, value: &Tree, path: &Path<'_>, expected: &str) {
        self.errors
            .type_error
            .get_or_insert_with(|| path.mismatch(value.type_name(), expected));
    }

    fn report(&mut self, error: fn(String) -> StrictError, path: &Path<'_>, key: &str) {
        if self.quiet || self.errors.strict.len() >= MAX_ERRORS {
            return;
        }
        let error = error(path.text_of(key));
        if !self.errors.strict.contains(&error) {
            self.errors.strict.push(error);
        }
    }
}

/// Makes every key unique: the later value at the earlier position, objects merged.
fn merge_duplicates(map: &mut Map) {
    let mut single: Vec<(CompactString, Tree)> = Vec::with_capacity(map.len());
    let mut indexes = std::collections::HashMap::new();
    for (key, value) in std::mem::take(map) {
        match indexes.get(&key) {
            None => {
                indexes.insert(key.clone(), single.len());
                single.push((key, value));
            }
            Some(at) => overlay(&mut single[*at].1, value),
        }
    }
    *map = Map::from(single);
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
