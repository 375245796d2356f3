//! Logical junctors (`allOf`, `anyOf`, `oneOf`, `not`): inside them a schema restricts values and must not specify
//! structure.

use setpoint_schema::{Tree, fields};

use super::Node;

/// The fields that are forbidden inside a junctor.
const STRUCTURAL_FIELDS: &[&str] = &[
    fields::TYPE,
    fields::DESCRIPTION,
    fields::TITLE,
    fields::DEFAULT,
    fields::NULLABLE,
    fields::ADDITIONAL_PROPERTIES,
];

/// Validates the junctors of a node. `x-kubernetes-int-or-string` may be expressed by `anyOf`, or by the `anyOf` in
/// the first item of `allOf`.
pub(super) fn validate(node: &Node<'_>) {
    if !declares_int_or_string(node) {
        node.children(fields::ANY_OF).iter().for_each(validate_inner);
    }
    for (index, part) in node.children(fields::ALL_OF).iter().enumerate() {
        if !(index == 0 && declares_int_or_string(part)) {
            part.children(fields::ANY_OF).iter().for_each(validate_inner);
        }
        part.children(fields::ALL_OF).iter().for_each(validate_inner);
        validate_others(part);
        validate_value_only(part);
    }
    validate_others(node);
}

/// Whether the node's `anyOf` lists exactly integer and string, the one case in which a junctor may specify types.
fn declares_int_or_string(node: &Node<'_>) -> bool {
    let only = |alternative: &Tree, kind: &str| {
        alternative.as_map().is_some_and(|map| map.len() == 1)
            && alternative.str_at(&[fields::TYPE]) == Some(kind)
    };
    matches!(node.value.items(fields::ANY_OF), [first, second] if only(first, "integer") && only(second, "string"))
}

/// Validates a node inside a junctor: it restricts values and specifies no structure.
fn validate_inner(node: &Node<'_>) {
    for word in [fields::ANY_OF, fields::ALL_OF] {
        node.children(word).iter().for_each(validate_inner);
    }
    validate_others(node);
    validate_value_only(node);
}

fn validate_others(node: &Node<'_>) {
    node.children(fields::ONE_OF).iter().for_each(validate_inner);
    if let Some(not) = node.at(fields::NOT) {
        validate_inner(&not);
    }
}

/// Validates a node inside a junctor, except for its own junctors.
fn validate_value_only(node: &Node<'_>) {
    for name in STRUCTURAL_FIELDS {
        let Some(part) = node.at(name) else { continue };
        let set = match part.value {
            Tree::Bool(value) => *value,
            Tree::Str(text) => !text.is_empty(),
            _ => true,
        };
        if !set {
            continue;
        }
        match *name {
            fields::TYPE | fields::DESCRIPTION | fields::TITLE => {
                part.errors.forbidden("must be empty to be structural")
            }
            fields::NULLABLE => part.errors.forbidden("must be false to be structural"),
            _ => part.errors.forbidden("must be undefined to be structural"),
        }
    }
    for (_, property) in node.properties() {
        validate_inner(&property);
    }
    if let Some(items) = node
        .at(fields::ITEMS)
        .filter(|items| items.value.as_map().is_some())
    {
        validate_inner(&items);
    }
}
