//! Ratcheting: whether an update leaves a value unchanged, so that its violations are tolerated.

use super::Schema;
use crate::shape::ListType;
use crate::tree::{Map, Tree};

impl Schema {
    /// Whether the value equals the old one. A value without a schema counts as changed; the order of an associative list
    /// does not matter.
    pub fn is_unchanged(&self, value: &Tree, old: &Tree) -> bool {
        match (value, old) {
            (Tree::Map(map), Tree::Map(old)) => {
                map.len() == old.len()
                    && map
                        .iter()
                        .all(|(key, value)| self.is_key_unchanged(key, value, old))
            }
            (Tree::List(items), Tree::List(old_items)) if self.list_type == Some(ListType::Map) => {
                let before = self.correlated_items(Some(old));
                let is_unchanged = |item| {
                    let schema = self.items.as_deref()?;
                    Some(schema.is_unchanged(item, before.find(item)?))
                };
                items.len() == old_items.len() && items.iter().all(|item| is_unchanged(item) == Some(true))
            }
            _ => value.semantic_eq(old),
        }
    }

    fn is_key_unchanged(&self, key: &str, value: &Tree, old: &Map) -> bool {
        let schema = self.child(key).filter(|schema| !schema.is_anything());
        let both = schema.zip(old.get(key));
        both.is_some_and(|(schema, old)| schema.is_unchanged(value, old))
    }
}
