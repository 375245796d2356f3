//! Duplicate items of sets and associative lists.

use std::collections::HashMap;

use super::path::Path;
use super::validate::is_full;
use super::{Schema, SchemaViolation, ViolationKind};
use crate::shape::ListType;
use crate::tree::{Map, Tree};
use crate::write::write_tree;

impl Schema {
    /// Reports each duplicate item, and items of associative lists that are not objects.
    pub fn duplicates(&self, object: &Tree) -> Vec<SchemaViolation> {
        let mut violations = Vec::new();
        self.find_duplicates(object, &Path::root(""), &mut violations);
        violations
    }

    fn find_duplicates(&self, value: &Tree, path: &Path<'_>, violations: &mut Vec<SchemaViolation>) {
        match value {
            Tree::Map(map) => {
                for (key, value) in map.iter() {
                    if let Some(schema) = self.property(key) {
                        schema.find_duplicates(value, &path.field(key), violations);
                    } else if let Some(schema) = &self.additional_properties {
                        schema.find_duplicates(value, &path.key(key), violations);
                    }
                }
            }
            Tree::List(items) => {
                self.check_items(items, path, violations);
                let Some(schema) = &self.items else { return };
                for (at, item) in items.iter().enumerate() {
                    schema.find_duplicates(item, &path.index(at), violations);
                }
            }
            _ => {}
        }
    }

    fn check_items(&self, items: &[Tree], path: &Path<'_>, violations: &mut Vec<SchemaViolation>) {
        let violation = |at: usize, kind: ViolationKind| SchemaViolation {
            path: Some(path.index(at).to_string()),
            kind,
        };
        let keys: Vec<Tree> = match self.list_type {
            Some(ListType::Set) => items.to_vec(),
            Some(ListType::Map) => match items.iter().position(|item| !is_object(item)) {
                Some(at) => {
                    let detail = "must be an object for an array of list-type map".to_owned();
                    let value = items[at].clone();
                    return violations.push(violation(at, ViolationKind::Invalid { value, detail }));
                }
                None => items.iter().map(|item| self.key_of(item)).collect(),
            },
            _ => return,
        };
        for at in second_occurrences(&keys) {
            if is_full(violations) {
                return;
            }
            let value = keys[at].clone();
            violations.push(violation(at, ViolationKind::Duplicate { value }));
        }
    }

    /// The key of an item: those of the list's map keys that it has.
    fn key_of(&self, item: &Tree) -> Tree {
        let keys = self.list_keys.iter();
        let present = keys.filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        let mut present: Vec<_> = present.collect();
        present.sort_by(|left, right| left.0.cmp(&right.0));
        present.into_iter().collect::<Map>().into()
    }
}

fn is_object(item: &Tree) -> bool {
    matches!(item, Tree::Map(_) | Tree::Null)
}

/// The index of each value's second occurrence; further occurrences are not reported.
fn second_occurrences(values: &[Tree]) -> Vec<usize> {
    let mut seen: HashMap<Vec<u8>, usize> = HashMap::with_capacity(values.len());
    let mut second = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let times = seen.entry(text(value)).or_default();
        *times += 1;
        if *times == 2 {
            second.push(at);
        }
    }
    second
}

/// The value's JSON with sorted keys.
fn text(value: &Tree) -> Vec<u8> {
    let mut text = Vec::new();
    write_tree(&value.sorted(), &mut text);
    text
}
