//! Correlation of the items of an associative list with those of the old object, by their map keys.

use std::collections::HashMap;

use compact_str::CompactString;

use super::Schema;
use crate::shape::ListType;
use crate::tree::Tree;

/// The items of an old list by their map keys; none if the list is not associative.
#[derive(Debug)]
pub struct CorrelatedItems<'a> {
    keys: &'a [CompactString],
    items: HashMap<Vec<&'a Tree>, &'a Tree>,
}

impl Schema {
    /// The old items that the items of a list are correlated with. Of several with the same keys it is the first.
    pub fn correlated_items<'a>(&'a self, old: Option<&'a Tree>) -> CorrelatedItems<'a> {
        let is_associative = self.list_type == Some(ListType::Map);
        let old = old.filter(|_| is_associative).and_then(Tree::as_list);
        let keyed = old.unwrap_or_default().iter().rev();
        CorrelatedItems {
            keys: &self.list_keys,
            items: keyed
                .filter_map(|item| Some((values(&self.list_keys, item)?, item)))
                .collect(),
        }
    }
}

impl<'a> CorrelatedItems<'a> {
    /// The old item with the map keys of an item.
    pub fn find(&self, item: &Tree) -> Option<&'a Tree> {
        match self.items.is_empty() {
            true => None,
            false => self.items.get(&values(self.keys, item)?).copied(),
        }
    }
}

/// The map keys of an item; `None` if one is absent or no scalar.
fn values<'a>(keys: &[CompactString], item: &'a Tree) -> Option<Vec<&'a Tree>> {
    let is_scalar = |value: &&Tree| !matches!(value, Tree::Null | Tree::List(_) | Tree::Map(_));
    keys.iter().map(|key| item.get(key).filter(is_scalar)).collect()
}
