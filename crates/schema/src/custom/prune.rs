//! Pruning of unknown fields.

use compact_str::{CompactString, format_compact};

use super::Schema;
use crate::tree::Tree;

/// The fields of every object that its schema need not declare.
const TYPE_AND_OBJECT_META: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// Drops the unknown fields of an object and returns their paths, such as `spec.a[0].b`, sorted.
    pub fn prune(&self, object: &mut Tree) -> Vec<CompactString> {
        let mut dropped = Vec::new();
        self.prune_object(object, "", true, &mut dropped);
        dropped.sort();
        dropped
    }

    /// Whether a value has fields that would be dropped.
    pub fn would_prune(&self, value: &Tree) -> bool {
        let mut dropped = Vec::new();
        self.prune_at(&mut value.clone(), "", &mut dropped);
        !dropped.is_empty()
    }

    fn prune_at(&self, value: &mut Tree, path: &str, dropped: &mut Vec<CompactString>) {
        match value {
            Tree::Map(_) => self.prune_object(value, path, self.embedded_resource, dropped),
            Tree::List(items) => {
                let Some(schema) = &self.items else { return };
                for (at, item) in items.iter_mut().enumerate() {
                    schema.prune_at(item, &format!("{path}[{at}]"), dropped);
                }
            }
            _ => {}
        }
    }

    fn prune_object(&self, value: &mut Tree, path: &str, is_object: bool, dropped: &mut Vec<CompactString>) {
        let Tree::Map(map) = value else { return };
        map.retain(|name, value| {
            if is_object && TYPE_AND_OBJECT_META.contains(&name) {
                return true;
            }
            let path = match path {
                "" => CompactString::from(name),
                path => format_compact!("{path}.{name}"),
            };
            match self.child(name) {
                Some(schema) => schema.prune_at(value, &path, dropped),
                None if self.preserve_unknown_fields => {}
                None => {
                    dropped.push(path);
                    return false;
                }
            }
            true
        });
    }
}
