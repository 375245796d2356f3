//! Logical junctors (`allOf`, `anyOf`, `oneOf`, `not`): inside them a schema restricts values and must not specify
//! structure.

use setpoint_schema::{Tree, fields};

use super::{Node, go_regex};

const EMPTY: &str = "must be empty to be structural";
const FALSE: &str = "must be false to be structural";
const UNDEFINED: &str = "must be undefined to be structural";

/// The fields that are forbidden inside a junctor.
const STRUCTURAL_FIELDS: &[(&str, &str)] = &[
    (fields::TYPE, EMPTY),
    (fields::ADDITIONAL_PROPERTIES, UNDEFINED),
    (fields::DEFAULT, UNDEFINED),
    (fields::TITLE, EMPTY),
    (fields::DESCRIPTION, EMPTY),
    (fields::NULLABLE, FALSE),
    (fields::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS, FALSE),
    (fields::X_KUBERNETES_EMBEDDED_RESOURCE, FALSE),
    (fields::X_KUBERNETES_INT_OR_STRING, FALSE),
    (fields::X_KUBERNETES_LIST_MAP_KEYS, EMPTY),
    (fields::X_KUBERNETES_LIST_TYPE, UNDEFINED),
    (fields::X_KUBERNETES_MAP_TYPE, UNDEFINED),
    (fields::X_KUBERNETES_VALIDATIONS, EMPTY),
];

/// Validates the value restrictions of a structural node. `x-kubernetes-int-or-string` may be expressed by `anyOf`, or
/// by the `anyOf` in the first item of `allOf`.
pub(super) fn validate(node: &Node<'_>) {
    let all_of = node.children(fields::ALL_OF);
    let in_first = all_of.first().is_some_and(declares_int_or_string);
    validate_values(node, declares_int_or_string(node), in_first);
}

/// Whether the node's `anyOf` lists exactly integer and string, the one case in which a junctor may specify types.
pub(super) fn declares_int_or_string(node: &Node<'_>) -> bool {
    let only = |alternative: &Tree, kind: &str| {
        alternative.as_map().is_some_and(|map| map.len() == 1)
            && alternative.str_at(&[fields::TYPE]) == Some(kind)
    };
    matches!(node.value.items(fields::ANY_OF), [first, second] if only(first, "integer") && only(second, "string"))
}

/// Validates junctors and pattern. `anyOf`, or the `anyOf` of the first item of `allOf`, is skipped if it declares the
/// types of an int-or-string.
fn validate_values(node: &Node<'_>, skips_any_of: bool, skips_first: bool) {
    if !skips_any_of {
        for inner in node.children(fields::ANY_OF) {
            validate_inner(&inner, false);
        }
    }
    for (index, inner) in node.children(fields::ALL_OF).iter().enumerate() {
        validate_inner(inner, skips_first && index == 0);
    }
    for inner in node.children(fields::ONE_OF) {
        validate_inner(&inner, false);
    }
    if let Some(not) = node.at(fields::NOT) {
        validate_inner(&not, false);
    }
    validate_pattern(node);
}

/// Validates a node inside a junctor: it restricts values and specifies no structure.
fn validate_inner(node: &Node<'_>, skips_any_of: bool) {
    validate_values(node, skips_any_of, false);
    if let Some(items) = node.schema(fields::ITEMS) {
        validate_inner(&items, false);
    }
    for (name, property) in node.properties() {
        validate_inner(&property, false);
        if name == fields::METADATA {
            property
                .errors
                .forbidden("must not be specified in a nested context");
        }
    }
    for (name, message) in STRUCTURAL_FIELDS {
        if let Some(field) = node.at(name).filter(|field| is_set(field.value)) {
            field.errors.forbidden(message);
        }
    }
}

fn is_set(value: &Tree) -> bool {
    match value {
        Tree::Bool(value) => *value,
        Tree::Str(text) => !text.is_empty(),
        value => value.as_list().is_none_or(|list| !list.is_empty()),
    }
}

fn validate_pattern(node: &Node<'_>) {
    let pattern = node.str(fields::PATTERN);
    if let Some(error) = go_regex::parse_error(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: error parsing regexp: {error}");
        node.errors.at(fields::PATTERN).invalid(pattern, &detail);
    }
}
