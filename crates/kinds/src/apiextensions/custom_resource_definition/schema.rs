//! Schemas of a CRD's versions.
//!
//! As in Kubernetes there are three passes: a schema must be structural (the type of every value is specified, and only
//! once), its default values must be valid, and it must use only the supported keywords. The last one also checks the
//! validation rules, if the first two have no errors.

mod default_values;
mod go_regex;
mod junctors;
mod keywords;
mod list_type;
mod rules;
mod structural;

use setpoint_api::field::Errors;
use setpoint_schema::custom::Schema;
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::FieldRef;

use super::internal;
use rules::RuleChecks;

/// The fields of the internal type that the root of a schema may have if there is a status subresource: those that remain
/// valid if the status is validated alone.
const ALLOWED_WITH_STATUS: &[&str] = &[
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// Validates the schema of a version. `is_unchanged`: an update leaves it as it is, so that the cost of each expression is
/// not limited.
pub(super) fn validate(validation: &FieldRef<'_>, has_status: bool, is_unchanged: bool) {
    let schema = validation.at(fields::OPEN_APIV3_SCHEMA);
    if !schema.is_set() {
        return;
    }
    let root = Node {
        value: schema.value(),
        errors: schema.errors().clone(),
    };
    let reported = root.errors.len();
    if has_status {
        validate_root_fields(&root);
    }
    if root.flag(fields::NULLABLE) {
        let nullable = root.errors.at(fields::NULLABLE);
        nullable.forbidden("nullable cannot be true at the root");
    }
    let is_supported = keywords::are_supported(&root);
    let compiled = Schema::compile(root.value);
    let is_structural =
        is_supported && structural::validate(&root) && default_values::validate(&root, &compiled);
    let mut checks = RuleChecks::new(is_unchanged);
    keywords::validate_root(&root, is_structural.then_some(&compiled), &mut checks);
    checks.report(&root.errors);
    // The only unsupported keyword that has no rule of its own.
    if !is_supported && root.errors.len() == reported {
        root.errors
            .invalid("", "OpenAPIV3Schema 'schema' is not supported");
    }
}

/// Validates the root of a schema with a status subresource. Only the first error is reported.
fn validate_root_fields(root: &Node<'_>) {
    for name in internal::set_fields(root.value) {
        if name == "Type" {
            let found = root.str(fields::TYPE);
            if found != "object" {
                let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
                return root.errors.at(fields::TYPE).invalid(found, detail);
            }
        } else if !ALLOWED_WITH_STATUS.contains(&name) {
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                ALLOWED_WITH_STATUS.join(" ")
            );
            return root.errors.invalid(internal::schema(root.value), &detail);
        }
    }
}

/// Whether a schema or any below it has a default.
pub(super) fn has_defaults(schema: &Tree) -> bool {
    any_node(schema, &mut |node| {
        node.get(fields::DEFAULT).is_some_and(|value| !value.is_null())
    })
}

/// Whether a schema or any inside it fits a condition (upstream: `SchemaHas`).
pub(super) fn any_node(schema: &Tree, fits: &mut dyn FnMut(&Tree) -> bool) -> bool {
    if schema.as_map().is_none() {
        return false;
    }
    if fits(schema) {
        return true;
    }
    let mut any_in = |value: Option<&Tree>| match value {
        Some(Tree::List(items)) => items.iter().any(|item| any_node(item, fits)),
        Some(value) => any_node(value, fits),
        None => false,
    };
    any_inner(schema, &mut any_in)
}

/// Whether the value of a field that has schemas fits.
fn any_inner(schema: &Tree, any_in: &mut dyn FnMut(Option<&Tree>) -> bool) -> bool {
    let single = [
        fields::ITEMS,
        fields::ALL_OF,
        fields::ANY_OF,
        fields::ONE_OF,
        fields::NOT,
        fields::ADDITIONAL_PROPERTIES,
        fields::ADDITIONAL_ITEMS,
    ];
    let named = [
        fields::PROPERTIES,
        fields::PATTERN_PROPERTIES,
        fields::DEFINITIONS,
        fields::DEPENDENCIES,
    ];
    single.iter().any(|name| any_in(schema.get(name)))
        || named.iter().any(|name| {
            let map = schema.get(name).and_then(Tree::as_map);
            map.into_iter()
                .flat_map(Map::iter)
                .any(|(_, value)| any_in(Some(value)))
        })
}

/// A node of a schema, and the field path at which its errors are reported.
#[derive(Debug)]
struct Node<'a> {
    value: &'a Tree,
    errors: Errors,
}

impl<'a> Node<'a> {
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
        self.schemas_by_name(fields::PROPERTIES)
    }

    /// The schemas of a field by name, sorted.
    fn schemas_by_name(&self, field: &str) -> Vec<(&'a str, Node<'a>)> {
        let map = self.value.get(field).and_then(Tree::as_map);
        let mut pairs: Vec<(&str, &Tree)> = map.into_iter().flat_map(Map::iter).collect();
        pairs.sort_by_key(|(name, _)| *name);
        let node = |(name, value): (&'a str, &'a Tree)| {
            let errors = self.errors.at(field).key(name);
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
