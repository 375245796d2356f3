//! Keywords of schemas: which are supported, and what their values may be.
//!
//! The rules are upstream's `ValidateCustomResourceDefinitionOpenAPISchema`, in apiextensions-apiserver
//! `pkg/apis/apiextensions/validation/validation.go`.

use setpoint_schema::{Tree, fields};

use super::{Node, list_type, rules};

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// Keywords that no schema may use.
const UNSUPPORTED: &[&str] = &[
    fields::ID,
    fields::ADDITIONAL_ITEMS,
    fields::PATTERN_PROPERTIES,
    fields::DEFINITIONS,
    fields::DEPENDENCIES,
    fields::DOLLAR_REF,
];

/// Whether the schema can be read as a structural one: it uses no unsupported keyword anywhere.
pub(super) fn are_supported(node: &Node<'_>) -> bool {
    let items = node.value.get(fields::ITEMS);
    let preserve = node.value.get(fields::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS);
    let mut unsupported = UNSUPPORTED.iter().chain([&fields::DOLLAR_SCHEMA]);
    !unsupported.any(|name| uses(node, name))
        && items.is_none_or(|items| items.as_list().is_none())
        && preserve != Some(&Tree::Bool(false))
        && inner_schemas(node).iter().all(are_supported)
}

/// Validates the keywords of the schema of a version.
pub(super) fn validate_root(root: &Node<'_>) {
    for (name, property) in root.properties() {
        let is_implicit = matches!(name, fields::METADATA | fields::API_VERSION | fields::KIND);
        if is_implicit && property.at(fields::DEFAULT).is_some() {
            let default = property.errors.at(fields::DEFAULT);
            default.forbidden(&format!("must not be set in top-level {name}"));
        }
    }
    validate(root);
}

fn validate(node: &Node<'_>) {
    validate_supported(node);
    if node.flag(fields::UNIQUE_ITEMS) {
        node.errors
            .at(fields::UNIQUE_ITEMS)
            .forbidden("uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
    }
    let additional = node.at(fields::ADDITIONAL_PROPERTIES);
    // `true` is allowed: it changes nothing, since unknown fields are pruned.
    let is_exclusive = |additional: &&Node<'_>| additional.value != &Tree::Bool(true);
    if let Some(additional) = additional.as_ref().filter(is_exclusive)
        && !node.properties().is_empty()
    {
        let message = "additionalProperties and properties are mutual exclusive";
        additional.errors.forbidden(message);
    }
    inner_schemas(node).iter().for_each(validate);
    validate_extensions(node);
    list_type::validate(node);
    rules::validate(node);
}

/// The schemas directly inside a schema.
fn inner_schemas<'a>(node: &Node<'a>) -> Vec<Node<'a>> {
    let mut inner: Vec<Node<'a>> = node.schema(fields::ADDITIONAL_PROPERTIES).into_iter().collect();
    inner.extend(node.properties().into_iter().map(|(_, property)| property));
    inner.extend(node.at(fields::NOT));
    for junctor in [fields::ALL_OF, fields::ONE_OF, fields::ANY_OF] {
        inner.extend(node.children(junctor));
    }
    inner.extend(node.schema(fields::ITEMS));
    inner
}

fn validate_supported(node: &Node<'_>) {
    let at = node.errors.at(fields::TYPE);
    match node.str(fields::TYPE) {
        "" => {}
        known if TYPES.contains(&known) => {}
        other => at.not_supported(other, TYPES),
    }
    for name in UNSUPPORTED.iter().filter(|name| uses(node, name)) {
        let at = node.errors.at(name);
        at.forbidden(&format!("{name} is not supported"));
    }
    if node.str(fields::TYPE) == "null" {
        at.forbidden("type cannot be set to null, use nullable as an alternative");
    }
    let items = node.at(fields::ITEMS);
    if let Some(items) = items.filter(|items| items.value.as_list().is_some()) {
        items
            .errors
            .forbidden("items must be a schema object and not an array");
    }
}

/// Whether the node has a keyword, and not with an empty value.
fn uses(node: &Node<'_>, name: &str) -> bool {
    node.at(name).is_some_and(|keyword| match keyword.value {
        Tree::Str(text) => !text.is_empty(),
        value => value.as_map().is_none_or(|map| !map.is_empty()),
    })
}

fn validate_extensions(node: &Node<'_>) {
    let preserve = fields::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS;
    if node.value.get(preserve) == Some(&Tree::Bool(false)) {
        node.errors
            .at(preserve)
            .invalid(false, "must be true or undefined");
    }
    if let Some(map) = node.at(fields::X_KUBERNETES_MAP_TYPE) {
        require_type(
            node,
            "object",
            "must be object if x-kubernetes-map-type is specified",
        );
        let kind = map.value.as_str().unwrap_or_default();
        if !matches!(kind, "atomic" | "granular") {
            map.errors.not_supported(kind, &["atomic", "granular"]);
        }
    }
}

/// Reports a node whose type is not the one that an extension needs. Returns whether it has that type.
pub(super) fn require_type(node: &Node<'_>, expected: &str, message: &str) -> bool {
    let at = node.errors.at(fields::TYPE);
    match node.str(fields::TYPE) {
        found if found == expected => return true,
        "" => at.required(message),
        found => at.invalid(found, message),
    }
    false
}
