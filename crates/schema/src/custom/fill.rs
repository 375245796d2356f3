//! Fills in the defaults of a schema.

use super::Schema;
use crate::tree::Tree;

impl Schema {
    /// Fills in what a document leaves out. A null that is not allowed counts as left out.
    pub fn fill(&self, value: &mut Tree) {
        match value {
            Tree::Map(map) => {
                for (name, schema) in &self.properties {
                    if let Some(default) = schema.default.as_ref().filter(|_| !map.contains_key(name)) {
                        map.insert(name.clone(), default.clone());
                    }
                }
                for (name, value) in map.iter_mut() {
                    if let Some(schema) = self.under(name) {
                        schema.fill_here(value);
                    }
                }
            }
            Tree::List(items) => {
                let Some(schema) = &self.items else { return };
                items.iter_mut().for_each(|item| schema.fill_here(item));
            }
            _ => {}
        }
    }

    fn fill_here(&self, value: &mut Tree) {
        if let Some(default) = self.default.as_ref().filter(|_| self.forbids(value)) {
            *value = default.clone();
        }
        self.fill(value);
    }

    /// Drops nulls of keys that may not be null and have no default: they count as left out.
    pub fn drop_nulls(&self, value: &mut Tree) {
        match value {
            Tree::Map(map) => {
                map.retain(|name, value| {
                    let Some(schema) = self.under(name) else {
                        return true;
                    };
                    schema.drop_nulls(value);
                    !schema.forbids(value) || schema.default.is_some()
                });
            }
            Tree::List(items) => {
                let Some(schema) = &self.items else { return };
                items.iter_mut().for_each(|item| schema.drop_nulls(item));
            }
            _ => {}
        }
    }

    /// Whether the value is a null that may not be.
    fn forbids(&self, value: &Tree) -> bool {
        value.is_null() && !self.nullable
    }
}
