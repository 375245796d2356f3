//! Structural schemas: the type of every value is specified, and only once.
//!
//! The rules are upstream's `ValidateStructural`, in apiextensions-apiserver `pkg/apiserver/schema/validation.go` and
//! `complete.go`.

use setpoint_api::field::Errors;
use setpoint_schema::{Tree, fields};

use super::{Node, junctors};

/// Where a node is in the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Reports why a schema is not structural, sorted by text. Returns whether it is structural.
pub(super) fn validate(root: &Node<'_>) -> bool {
    let errors = Errors::default();
    let sorted = Node {
        value: root.value,
        errors: errors.at(&root.errors.path()),
    };
    validate_invariants(&sorted, Level::Root);
    validate_junctors_complete(&sorted, &sorted, &sorted.errors);
    let mut found = errors.into_vec();
    found.sort_by_cached_key(ToString::to_string);
    let is_structural = found.is_empty();
    found.into_iter().for_each(|error| root.errors.push(error));
    is_structural
}

fn validate_invariants(node: &Node<'_>, level: Level) {
    if node.str(fields::TYPE) == "array" && node.at(fields::ITEMS).is_none() {
        node.errors.at(fields::ITEMS).required("must be specified");
    }
    if let Some(items) = node.schema(fields::ITEMS) {
        validate_invariants(&items, Level::Item);
    }
    for (_, property) in node.properties() {
        validate_invariants(&property, Level::Field);
    }
    if let Some(additional) = node.at(fields::ADDITIONAL_PROPERTIES) {
        if level == Level::Root {
            additional.errors.forbidden("must not be used at the root");
        }
        if additional.value.as_map().is_some() {
            validate_invariants(&additional, Level::Field);
        }
    }
    validate_extensions(node);
    junctors::validate(node);
    validate_type(node, level);
    validate_object_fields(node, level);
}

fn validate_extensions(node: &Node<'_>) {
    if !node.flag(fields::X_KUBERNETES_INT_OR_STRING) {
        return;
    }
    for name in [
        fields::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS,
        fields::X_KUBERNETES_EMBEDDED_RESOURCE,
    ] {
        if node.flag(name) {
            let at = node.errors.at(name);
            at.invalid(true, "must be false if x-kubernetes-int-or-string is true");
        }
    }
}

fn validate_type(node: &Node<'_>, level: Level) {
    const EMBEDDED: &str = "must be object if x-kubernetes-embedded-resource is true";
    let at = node.errors.at(fields::TYPE);
    let is_free = node.flag(fields::X_KUBERNETES_INT_OR_STRING)
        || node.flag(fields::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS);
    let is_embedded = node.flag(fields::X_KUBERNETES_EMBEDDED_RESOURCE);
    match node.str(fields::TYPE) {
        "object" => {}
        "" if is_embedded => at.required(EMBEDDED),
        other if is_embedded => at.invalid(other, EMBEDDED),
        "" if is_free => {}
        "" => at.required(match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        }),
        _ => {}
    }
    if is_embedded && node.at(fields::ADDITIONAL_PROPERTIES).is_some() {
        let additional = node.errors.at(fields::ADDITIONAL_PROPERTIES);
        additional.forbidden("must not be used if x-kubernetes-embedded-resource is set");
    }
    match node.str(fields::TYPE) {
        "" | "object" => {}
        other if level == Level::Root => at.invalid(other, "must be object at the root"),
        _ => {}
    }
}

/// Validates `apiVersion`, `kind` and metadata of the root and of embedded objects.
fn validate_object_fields(node: &Node<'_>, level: Level) {
    let is_embedded = node.flag(fields::X_KUBERNETES_EMBEDDED_RESOURCE);
    let is_object = level == Level::Root || is_embedded;
    let properties = node.properties();
    for (name, property) in &properties {
        let expected = match *name {
            fields::KIND | fields::API_VERSION => "string",
            fields::METADATA => "object",
            _ => continue,
        };
        let found = property.str(fields::TYPE);
        if is_object && found != expected {
            let at = property.errors.at(fields::TYPE);
            at.invalid(found, &format!("must be {expected}"));
        }
        if level == Level::Root && *name == fields::METADATA && !restricts_only_names(property.value) {
            property.errors.forbidden(
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            );
        }
    }
    if is_embedded && !node.flag(fields::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS) && properties.is_empty() {
        node.errors.at(fields::PROPERTIES).required(
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        );
    }
}

/// Whether a schema of metadata restricts only `name` and `generateName`.
fn restricts_only_names(metadata: &Tree) -> bool {
    let is_unset = |value: &Tree| match value {
        Tree::Null | Tree::Bool(false) => true,
        Tree::Str(text) => text.is_empty(),
        value => value.as_map().is_some_and(|map| map.is_empty()),
    };
    let mut members = metadata.as_map().into_iter().flat_map(|map| map.iter());
    members.all(|(name, value)| match name {
        fields::TYPE | fields::DEFAULT => true,
        fields::PROPERTIES => {
            let mut names = value.as_map().into_iter().flat_map(|map| map.keys());
            names.all(|name| matches!(name, fields::NAME | fields::GENERATE_NAME))
        }
        _ => is_unset(value),
    })
}

/// Validates that every value which the root's junctors restrict is specified outside of them.
fn validate_junctors_complete(restriction: &Node<'_>, specified: &Node<'_>, at: &Errors) {
    let junctors = [fields::ALL_OF, fields::ANY_OF, fields::ONE_OF];
    let inner = junctors.iter().flat_map(|name| restriction.children(name));
    for inner in restriction.at(fields::NOT).into_iter().chain(inner) {
        validate_complete(&inner, Some(specified), at);
    }
}

fn validate_complete(restriction: &Node<'_>, specified: Option<&Node<'_>>, at: &Errors) {
    let Some(specified) = specified else {
        let path = restriction.errors.path();
        return at.required(&format!("because it is defined in {path}"));
    };
    validate_junctors_complete(restriction, specified, at);
    if let Some(items) = restriction.schema(fields::ITEMS) {
        let at = at.at(fields::ITEMS);
        validate_complete(&items, specified.schema(fields::ITEMS).as_ref(), &at);
    }
    let properties = specified.properties();
    for (name, property) in restriction.properties() {
        let found = properties.iter().find(|(own, _)| *own == name);
        let at = at.at(fields::PROPERTIES).key(name);
        validate_complete(&property, found.map(|(_, node)| node), &at);
    }
}
