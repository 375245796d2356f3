//! Defaulting.

use super::Schema;
use crate::tree::Tree;

impl Schema {
    /// Sets the defaults of absent fields. A null where the schema is not nullable counts as absent.
    pub fn apply_defaults(&self, value: &mut Tree) {
        match value {
            Tree::Map(map) => {
                for (name, schema) in &self.properties {
                    if let Some(default) = schema.default.as_ref().filter(|_| !map.contains_key(name)) {
                        map.insert(name.clone(), default.clone());
                    }
                }
                for (name, value) in map.iter_mut() {
                    if let Some(schema) = self.child(name) {
                        schema.default_value(value);
                    }
                }
            }
            Tree::List(items) => {
                let Some(schema) = &self.items else { return };
                items.iter_mut().for_each(|item| schema.default_value(item));
            }
            _ => {}
        }
    }

    fn default_value(&self, value: &mut Tree) {
        if let Some(default) = self.default.as_ref().filter(|_| self.is_forbidden_null(value)) {
            *value = default.clone();
        }
        self.apply_defaults(value);
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
