//! Which items of sets and associative lists come more than once.

use std::collections::HashMap;

use super::{Report, Schema, Subject};
use crate::shape::ListType;
use crate::tree::{Map, Tree};
use crate::write::write_tree;

impl Schema {
    /// Reports each item that stands in its list a second time, and items of associative lists that are no objects.
    pub fn duplicates(&self, document: &Tree) -> Vec<Report> {
        let mut reports = Vec::new();
        self.find_duplicates(document, "", &mut reports);
        reports
    }

    fn find_duplicates(&self, value: &Tree, path: &str, reports: &mut Vec<Report>) {
        match value {
            Tree::Map(map) => {
                for (key, value) in map.iter() {
                    if let Some(schema) = self.property(key) {
                        schema.find_duplicates(value, &super::validate::join(path, key), reports);
                    } else if let Some(schema) = &self.additional {
                        schema.find_duplicates(value, &format!("{path}[{key}]"), reports);
                    }
                }
            }
            Tree::List(items) => {
                self.check_items(items, path, reports);
                let Some(schema) = &self.items else { return };
                for (at, item) in items.iter().enumerate() {
                    schema.find_duplicates(item, &format!("{path}[{at}]"), reports);
                }
            }
            _ => {}
        }
    }

    fn check_items(&self, items: &[Tree], path: &str, reports: &mut Vec<Report>) {
        let report = |at: usize, subject: Subject| Report {
            path: Some(format!("{path}[{at}]")),
            subject,
        };
        let keys: Vec<Tree> = match self.list_type {
            Some(ListType::Set) => items.to_vec(),
            Some(ListType::Map) => match items.iter().position(|item| !is_object(item)) {
                Some(at) => {
                    let detail = "must be an object for an array of list-type map".to_owned();
                    let shown = items[at].clone();
                    return reports.push(report(at, Subject::Invalid { shown, detail }));
                }
                None => items.iter().map(|item| self.key_of(item)).collect(),
            },
            _ => return,
        };
        for at in repeated(&keys) {
            let value = keys[at].clone();
            reports.push(report(at, Subject::Duplicate { value }));
        }
    }

    /// By what an item is known: those of its keys that it has.
    fn key_of(&self, item: &Tree) -> Tree {
        let keys = self.list_keys.iter();
        let given = keys.filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        let mut given: Vec<_> = given.collect();
        given.sort_by(|left, right| left.0.cmp(&right.0));
        given.into_iter().collect::<Map>().into()
    }
}

fn is_object(item: &Tree) -> bool {
    matches!(item, Tree::Map(_) | Tree::Null)
}

/// Where a value comes for the second time; its third time is not told.
fn repeated(values: &[Tree]) -> Vec<usize> {
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
