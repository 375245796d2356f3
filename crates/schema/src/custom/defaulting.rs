//! Defaulting.

use super::Schema;
use crate::tree::{Map, Tree};

/// Bytes of JSON that defaults may add to one object: as many as a request body may have. A default inside a list is
/// added once per item, so that a small object and a small schema could become a large object.
const MAX_DEFAULT_BYTES: usize = 3 * 1024 * 1024;

/// The error of an object that its defaults make too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the defaults of the schema add more than {MAX_DEFAULT_BYTES} bytes to the object")]
pub struct DefaultsTooLarge;

/// Copies defaults, until they add too much to the object.
#[derive(Debug)]
struct Defaulter {
    bytes_left: usize,
}

impl Schema {
    /// Sets the defaults of absent fields. A null where the schema is not nullable counts as absent.
    pub fn apply_defaults(&self, value: &mut Tree) -> Result<(), DefaultsTooLarge> {
        let mut defaulter = Defaulter {
            bytes_left: MAX_DEFAULT_BYTES,
        };
        defaulter.fill(self, value)
    }

    /// Drops nulls of keys that are not nullable and have no default: they count as absent.
    pub fn prune_non_nullable_nulls(&self, value: &mut Tree) {
        match value {
            Tree::Map(map) => {
                map.retain(|name, value| {
                    let Some(schema) = self.child(name) else {
                        return true;
                    };
                    schema.prune_non_nullable_nulls(value);
                    !schema.is_forbidden_null(value) || schema.default.is_some()
                });
            }
            Tree::List(items) => {
                let Some(schema) = &self.items else { return };
                items
                    .iter_mut()
                    .for_each(|item| schema.prune_non_nullable_nulls(item));
            }
            _ => {}
        }
    }

    /// Whether the value is a null and the schema is not nullable.
    fn is_forbidden_null(&self, value: &Tree) -> bool {
        value.is_null() && !self.nullable
    }
}

impl Defaulter {
    fn fill(&mut self, schema: &Schema, value: &mut Tree) -> Result<(), DefaultsTooLarge> {
        match value {
            Tree::Map(map) => self.fill_map(schema, map),
            Tree::List(items) => {
                let Some(schema) = &schema.items else {
                    return Ok(());
                };
                items
                    .iter_mut()
                    .try_for_each(|item| self.fill_value(schema, item))
            }
            _ => Ok(()),
        }
    }

    fn fill_map(&mut self, schema: &Schema, map: &mut Map) -> Result<(), DefaultsTooLarge> {
        for (name, schema) in &schema.properties {
            if let Some(default) = schema.default.as_ref().filter(|_| !map.contains_key(name)) {
                map.push(name.clone(), self.copy(default, name.len())?);
            }
        }
        for (name, value) in map.iter_mut() {
            if let Some(schema) = schema.child(name) {
                self.fill_value(schema, value)?;
            }
        }
        Ok(())
    }

    fn fill_value(&mut self, schema: &Schema, value: &mut Tree) -> Result<(), DefaultsTooLarge> {
        if let Some(default) = schema
            .default
            .as_ref()
            .filter(|_| schema.is_forbidden_null(value))
        {
            *value = self.copy(default, 0)?;
        }
        self.fill(schema, value)
    }

    /// A copy of a default under a key of so many bytes.
    fn copy(&mut self, default: &Tree, key_bytes: usize) -> Result<Tree, DefaultsTooLarge> {
        let bytes = json_bytes(default) + key_bytes;
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(DefaultsTooLarge)?;
        Ok(default.clone())
    }
}

/// The least number of bytes that a value takes in JSON.
fn json_bytes(value: &Tree) -> usize {
    match value {
        Tree::Null | Tree::Bool(_) => 4,
        Tree::Int(_) | Tree::Float(_) => 1,
        Tree::Str(text) => text.len() + 2,
        Tree::List(items) => 2 + items.iter().map(|item| json_bytes(item) + 1).sum::<usize>(),
        Tree::Map(map) => {
            2 + map
                .iter()
                .map(|(key, value)| key.len() + json_bytes(value) + 4)
                .sum::<usize>()
        }
    }
}
