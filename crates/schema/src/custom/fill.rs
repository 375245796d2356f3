//! Fills in the defaults of a schema.

use super::Schema;
use crate::tree::Tree;

impl Schema {
    /// Fills in what a document leaves out. A null that is not allowed counts as left out.
    pub fn fill(&self, value: &mut Tree) {
        match value {
            Tree::Map(map) => {
                for (name, schema) in &self.properties {
                    let absent = match map.get(name) {
                        None => true,
                        Some(Tree::Null) => !schema.nullable,
                        Some(_) => false,
                    };
                    if let Some(default) = schema.default.as_ref().filter(|_| absent) {
                        map.insert(name.clone(), default.clone());
                    }
                }
                for (name, value) in map.iter_mut() {
                    if let Some(schema) = self.under(name) {
                        schema.fill(value);
                    }
                }
            }
            Tree::List(items) => {
                let Some(schema) = &self.items else { return };
                items.iter_mut().for_each(|item| schema.fill(item));
            }
            _ => {}
        }
    }

    /// Drops nulls of fields that may not be null and have no default: they count as left out.
    pub fn drop_nulls(&self, value: &mut Tree) {
        match value {
            Tree::Map(map) => {
                map.retain(|name, value| {
                    let Some(schema) = self.property(name) else {
                        return true;
                    };
                    !value.is_null() || schema.nullable || schema.preserves
                });
                for (name, value) in map.iter_mut() {
                    if let Some(schema) = self.under(name) {
                        schema.drop_nulls(value);
                    }
                }
            }
            Tree::List(items) => {
                let Some(schema) = &self.items else { return };
                items.iter_mut().for_each(|item| schema.drop_nulls(item));
            }
            _ => {}
        }
    }
}
