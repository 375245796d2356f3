//! The header of a document that is about to be written, from the document itself: what reading its bytes would give.

use compact_str::{CompactString, ToCompactString};

use setpoint_api::object::{Header, Owner};
use setpoint_api::{Key, ResourceVersion};
use setpoint_schema::write::shown;
use setpoint_schema::{Card, Map, Shape, Tree};

use super::{Found, Node, Reader};
use crate::meta;

impl Reader {
    /// The header of a document of this shape, without a version.
    pub(crate) fn header_of(&self, key: Key, object: &Tree, shape: &Shape) -> Header {
        let mut found = vec![None; self.fields.len()];
        let body = self.places.children.iter().filter(|(name, _)| name != "metadata");
        for (name, node) in body {
            search(node, name, object, Some(shape), &mut found);
        }
        let is_set = |field: &str| meta::find(object, field).is_some_and(|value| !is_void(value));
        Header {
            key,
            uid: meta::str(object, "uid").into(),
            resource_version: ResourceVersion::ZERO,
            generation: meta::int(object, "generation"),
            labels: labels(meta::find(object, "labels")),
            fields: self.selectable(found),
            owners: owners(meta::find(object, "ownerReferences")),
            deleting: is_set("deletionTimestamp"),
            has_finalizers: is_set("finalizers"),
        }
    }
}

/// Looks for selectable fields under a name, as far as they will be written.
fn search(node: &Node, name: &str, parent: &Tree, shape: Option<&Shape>, found: &mut Found) {
    let value = parent.get(name);
    let (value, below) = match shape.and_then(|shape| shape.member(name)) {
        Some(field) => (
            shown(field, value),
            field.shape().filter(|_| field.card == Card::One),
        ),
        None => (value, None),
    };
    let Some(value) = value else { return };
    match value {
        Tree::Map(_) => {
            for (name, node) in &node.children {
                search(node, name, value, below, found);
            }
        }
        Tree::Str(text) => node.record(found, text),
        Tree::Bool(value) => node.record(found, if *value { "true" } else { "false" }),
        Tree::Int(number) => node.record(found, &number.to_compact_string()),
        Tree::Float(number) => node.record(found, &number.to_compact_string()),
        Tree::Null | Tree::List(_) => {}
    }
}

fn labels(labels: Option<&Tree>) -> Box<[(CompactString, CompactString)]> {
    let pairs = labels.and_then(Tree::as_map).into_iter().flat_map(Map::iter);
    let mut pairs: Vec<(CompactString, CompactString)> = pairs
        .map(|(name, value)| (name.into(), value.as_str().unwrap_or_default().into()))
        .collect();
    pairs.sort_unstable();
    pairs.into_boxed_slice()
}

fn owners(references: Option<&Tree>) -> Box<[Owner]> {
    let references = references.and_then(Tree::as_list).unwrap_or_default();
    let owner = |reference: &Tree| {
        let text = |field: &str| reference.str_at(&[field]).unwrap_or_default().into();
        let says = |field: &str| reference.get(field).and_then(Tree::as_bool);
        Owner {
            uid: text("uid"),
            kind: text("kind"),
            name: text("name"),
            api_version: text("apiVersion"),
            controller: says("controller").unwrap_or_default(),
            blocks_deletion: says("blockOwnerDeletion").unwrap_or_default(),
        }
    };
    references.iter().map(owner).collect()
}

/// Whether a text or a list is empty, and so not written.
fn is_void(value: &Tree) -> bool {
    match value {
        Tree::Null => true,
        Tree::Str(text) => text.is_empty(),
        Tree::List(items) => items.is_empty(),
        _ => false,
    }
}
