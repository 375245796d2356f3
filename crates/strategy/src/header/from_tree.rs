//! The header of an object that is about to be written, from its tree: equal to the header read from its bytes.

use compact_str::{CompactString, ToCompactString};

use setpoint_api::object::{Header, OwnerReference};
use setpoint_api::{Key, ResourceVersion};
use setpoint_schema::write::canonical_value;
use setpoint_schema::{Cardinality, Map, Shape, Tree, fields};

use super::{FieldValues, HeaderReader, Node};
use crate::kind::SelectableField;
use crate::meta;
use crate::new_members::NewMember;

impl HeaderReader {
    /// The header of an object of this shape, without a resource version.
    pub(crate) fn header_of(&self, key: Key, object: &Tree, shape: &Shape) -> Header {
        let mut found = vec![None; self.fields.len()];
        let body = self
            .paths
            .children
            .iter()
            .filter(|(name, _)| name != fields::METADATA);
        for (name, node) in body {
            search(node, name, object, Some(shape), &mut found);
        }
        let is_set = |field: &str| meta::find(object, field).is_some_and(|value| !is_omitted(value));
        Header {
            key,
            uid: meta::str(object, fields::UID).into(),
            resource_version: ResourceVersion::ZERO,
            generation: meta::int(object, fields::GENERATION),
            labels: labels(meta::find(object, fields::LABELS)),
            fields: self.selectable(found),
            owner_references: owners(meta::find(object, fields::OWNER_REFERENCES)),
            deleting: is_set(fields::DELETION_TIMESTAMP),
            has_finalizers: is_set(fields::FINALIZERS),
        }
    }
}

impl HeaderReader {
    /// The header of an object with new members, without a resource version.
    pub(crate) fn header_with_members(&self, old: &Header, members: &[NewMember]) -> Header {
        let value_of = |label: &str| old.fields.iter().find(|(own, _)| own == label);
        let old_value = |field: &SelectableField| {
            let value = value_of(&field.label)?.1.clone();
            // Any path of a new member is better.
            Some((usize::MAX, value))
        };
        let mut found: FieldValues = self.fields.iter().map(old_value).collect();
        for member in members {
            let field = self.paths.child(member.field.as_bytes());
            if let Some(node) = field.and_then(|field| field.child(member.name.as_bytes())) {
                record(node, &member.value, None, &mut found);
            }
        }
        let is_labels =
            |member: &&NewMember| (member.field, member.name) == (fields::METADATA, fields::LABELS);
        let added = members.iter().find(is_labels).map(|member| &member.value);
        Header {
            resource_version: ResourceVersion::ZERO,
            labels: added.map_or_else(|| old.labels.clone(), |added| with_labels(&old.labels, added)),
            fields: self.selectable(found),
            ..old.clone()
        }
    }
}

/// Searches for selectable fields, skipping those that will not be written.
fn search(node: &Node, name: &str, parent: &Tree, shape: Option<&Shape>, found: &mut FieldValues) {
    let value = parent.get(name);
    let (value, below) = match shape.and_then(|shape| shape.member(name)) {
        Some(field) => (
            canonical_value(field, value),
            field.shape().filter(|_| field.cardinality == Cardinality::One),
        ),
        None => (value, None),
    };
    if let Some(value) = value {
        record(node, value, below, found);
    }
}

/// Records the selectable fields of a value that is written.
fn record(node: &Node, value: &Tree, below: Option<&Shape>, found: &mut FieldValues) {
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

/// The labels and those that were added, of which some may be equal.
fn with_labels(
    old: &[(CompactString, CompactString)],
    added: &Tree,
) -> Box<[(CompactString, CompactString)]> {
    let mut pairs = [old, &labels(Some(added))[..]].concat();
    pairs.sort_unstable();
    pairs.dedup();
    pairs.into_boxed_slice()
}

fn labels(labels: Option<&Tree>) -> Box<[(CompactString, CompactString)]> {
    let pairs = labels.and_then(Tree::as_map).into_iter().flat_map(Map::iter);
    let mut pairs: Vec<(CompactString, CompactString)> = pairs
        .map(|(name, value)| (name.into(), value.as_str().unwrap_or_default().into()))
        .collect();
    pairs.sort_unstable();
    pairs.into_boxed_slice()
}

fn owners(references: Option<&Tree>) -> Box<[OwnerReference]> {
    let references = references.and_then(Tree::as_list).unwrap_or_default();
    let owner = |reference: &Tree| {
        let text = |field: &str| reference.str_at(&[field]).unwrap_or_default().into();
        let bool = |field: &str| reference.get(field).and_then(Tree::as_bool);
        OwnerReference {
            uid: text(fields::UID),
            kind: text(fields::KIND),
            name: text(fields::NAME),
            api_version: text(fields::API_VERSION),
            controller: bool(fields::CONTROLLER).unwrap_or_default(),
            block_owner_deletion: bool(fields::BLOCK_OWNER_DELETION).unwrap_or_default(),
        }
    };
    references.iter().map(owner).collect()
}

/// Whether a string or a list is empty, and so not written.
fn is_omitted(value: &Tree) -> bool {
    match value {
        Tree::Null => true,
        Tree::Str(text) => text.is_empty(),
        Tree::List(items) => items.is_empty(),
        _ => false,
    }
}
