//! Schemas of a CRD's versions.
//!
//! As in Kubernetes there are three passes: a schema must be structural (the type of every value is specified, and only
//! once), its default values must be valid, and it must use only the supported keywords.

mod default_values;
mod junctors;
mod keywords;
mod list_type;
mod rules;
mod structural;

use setpoint_api::field::Errors;
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::FieldRef;

use super::versions;

pub(super) fn validate(crd: &FieldRef<'_>) {
    for schema in versions::schemas(crd) {
        validate_root(&Node::root(&schema));
    }
}

fn validate_root(root: &Node<'_>) {
    if root.value.is_null() {
        root.errors.required("schemas are required");
        return;
    }
    if root.flag(fields::NULLABLE) {
        let nullable = root.errors.at(fields::NULLABLE);
        nullable.forbidden("nullable cannot be true at the root");
    }
    let is_supported = keywords::are_supported(root);
    if is_supported && structural::validate(root) {
        default_values::validate(root);
    }
    let reported = root.errors.len();
    keywords::validate_root(root);
    // The only unsupported keyword that has no rule of its own.
    if !is_supported && root.errors.len() == reported {
        root.errors
            .invalid("", "OpenAPIV3Schema 'schema' is not supported");
    }
}

/// Whether all versions have the same schema; Kubernetes then reports errors at the CRD's top-level schema.
pub(super) fn are_equal(versions: &FieldRef<'_>) -> bool {
    let schema = |version: FieldRef<'_>| version.at(fields::SCHEMA).value().clone();
    let schemas: Vec<Tree> = versions.items().map(schema).collect();
    schemas.windows(2).all(|pair| pair[0].semantic_eq(&pair[1]))
}

/// A node of a schema, and the field path at which its errors are reported.
#[derive(Debug)]
struct Node<'a> {
    value: &'a Tree,
    errors: Errors,
}

impl<'a> Node<'a> {
    fn root(schema: &FieldRef<'a>) -> Self {
        Self {
            value: schema.value(),
            errors: schema.errors().clone(),
        }
    }

    fn at(&self, name: &str) -> Option<Node<'a>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        let errors = self.errors.at(name);
        Some(Node { value, errors })
    }

    fn str(&self, name: &str) -> &'a str {
        self.value.str_at(&[name]).unwrap_or_default()
    }

    fn flag(&self, name: &str) -> bool {
        self.value.get(name).and_then(Tree::as_bool) == Some(true)
    }

    fn properties(&self) -> Vec<(&'a str, Node<'a>)> {
        let map = self.value.get(fields::PROPERTIES).and_then(Tree::as_map);
        let mut pairs: Vec<(&str, &Tree)> = map.into_iter().flat_map(Map::iter).collect();
        pairs.sort_by_key(|(name, _)| *name);
        let node = |(name, value): (&'a str, &'a Tree)| {
            let errors = self.errors.at(fields::PROPERTIES).key(name);
            (name, Node { value, errors })
        };
        pairs.into_iter().map(node).collect()
    }

    /// The schema at a field that may also have another type: `items`, `additionalProperties`.
    fn schema(&self, name: &str) -> Option<Node<'a>> {
        self.at(name).filter(|node| node.value.as_map().is_some())
    }

    fn children(&self, name: &str) -> Vec<Node<'a>> {
        let items = self.value.items(name).iter().enumerate();
        let node = |(index, value)| Node {
            value,
            errors: self.errors.at(name).index(index),
        };
        items.map(node).collect()
    }
}
