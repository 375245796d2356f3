//! Whether an update leaves a value as it was, as far as its schema tells.

use super::Schema;
use crate::shape::ListType;
use crate::tree::{Map, Tree};

impl Schema {
    /// Whether the value is what it was. What no schema describes counts as changed; the order of an associative list
    /// says nothing.
    pub(super) fn is_unchanged(&self, value: &Tree, old: &Tree) -> bool {
        match (value, old) {
            (Tree::Map(map), Tree::Map(old)) => {
                map.len() == old.len()
                    && map
                        .iter()
                        .all(|(key, value)| self.is_key_unchanged(key, value, old))
            }
            (Tree::List(items), Tree::List(old_items)) if self.list_type == Some(ListType::Map) => {
                let is_unchanged = |item| {
                    let schema = self.items.as_deref()?;
                    Some(schema.is_unchanged(item, self.counterpart(item, Some(old))?))
                };
                items.len() == old_items.len() && items.iter().all(|item| is_unchanged(item) == Some(true))
            }
            _ => value.means_same(old),
        }
    }

    fn is_key_unchanged(&self, key: &str, value: &Tree, old: &Map) -> bool {
        let schema = self.under(key).filter(|schema| !schema.is_anything());
        let both = schema.zip(old.get(key));
        both.is_some_and(|(schema, old)| schema.is_unchanged(value, old))
    }
}
