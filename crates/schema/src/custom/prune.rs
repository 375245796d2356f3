//! Pruning of unknown fields.

use compact_str::{CompactString, ToCompactString};

use super::Schema;
use super::path::Path;
use crate::tree::Tree;

/// The fields of every object that its schema need not declare.
const TYPE_AND_OBJECT_META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Bytes of paths after which dropped fields are not reported.
const MAX_PATH_BYTES: usize = 1024 * 1024;

/// The paths of the dropped fields, as far as they are reported.
#[derive(Debug, Default)]
struct DroppedFields {
    paths: Vec<CompactString>,
    bytes: usize,
}

impl DroppedFields {
    fn push(&mut self, path: &Path<'_>) {
        if self.bytes < MAX_PATH_BYTES {
            let path = path.to_compact_string();
            self.bytes += path.len();
            self.paths.push(path);
        }
    }
}

impl Schema {
    /// Drops the unknown fields of an object and returns their paths, such as `spec.a[0].b`, sorted.
    pub fn prune(&self, object: &mut Tree) -> Vec<CompactString> {
        let mut dropped = DroppedFields::default();
        self.prune_object(object, &Path::root(""), true, &mut dropped);
        dropped.paths.sort();
        dropped.paths
    }

    /// Whether a value has fields that would be dropped.
    pub fn would_prune(&self, value: &Tree) -> bool {
        let mut dropped = DroppedFields::default();
        self.prune_at(&mut value.clone(), &Path::root(""), &mut dropped);
        !dropped.paths.is_empty()
    }

    fn prune_at(&self, value: &mut Tree, path: &Path<'_>, dropped: &mut DroppedFields) {
        match value {
            Tree::Map(_) => self.prune_object(value, path, self.embedded_resource, dropped),
            Tree::List(items) => {
                // Without a schema of the items all of their fields are unknown.
                let unknown = Schema::default();
                let schema = match &self.items {
                    Some(schema) => schema,
                    None if self.preserve_unknown_fields => return,
                    None => &unknown,
                };
                for (at, item) in items.iter_mut().enumerate() {
                    schema.prune_at(item, &path.index(at), dropped);
                }
            }
            _ => {}
        }
    }

    fn prune_object(&self, value: &mut Tree, path: &Path<'_>, is_object: bool, dropped: &mut DroppedFields) {
        let Tree::Map(map) = value else { return };
        map.retain(|name, value| {
            if is_object && TYPE_AND_OBJECT_META.contains(&name) {
                return true;
            }
            let path = path.field(name);
            match self.child(name) {
                Some(schema) => schema.prune_at(value, &path, dropped),
                None if self.preserve_unknown_fields => {}
                None => {
                    dropped.push(&path);
                    return false;
                }
            }
            true
        });
    }
}
