//! What may stand inside `allOf`, `anyOf`, `oneOf` and `not`: values are told there, not structure.

use setpoint_schema::Tree;

use super::Node;

/// What may not stand there.
const TELLS_STRUCTURE: &[&str] = &[
    "type",
    "description",
    "title",
    "default",
    "nullable",
    "additionalProperties",
];

/// Holds the logical words of a node to their rules. That it is an integer or a string may be said in `anyOf`, or in
/// that of the first part of `allOf`.
pub(super) fn validate(node: &Node<'_>) {
    if !tells_int_or_string(node) {
        node.several("anyOf").iter().for_each(validate_inner);
    }
    for (index, part) in node.several("allOf").iter().enumerate() {
        if !(index == 0 && tells_int_or_string(part)) {
            part.several("anyOf").iter().for_each(validate_inner);
        }
        part.several("allOf").iter().for_each(validate_inner);
        validate_others(part);
        validate_told(part);
    }
    validate_others(node);
}

/// Whether a node says in `anyOf` that it is an integer or a string, the one thing about types that may be said there.
fn tells_int_or_string(node: &Node<'_>) -> bool {
    let only = |alternative: &Tree, kind: &str| {
        alternative.as_map().is_some_and(|map| map.len() == 1) && alternative.str_at(&["type"]) == Some(kind)
    };
    matches!(node.value.items("anyOf"), [first, second] if only(first, "integer") && only(second, "string"))
}

/// Inside a logical word only values are told, not structure.
fn validate_inner(node: &Node<'_>) {
    for word in ["anyOf", "allOf"] {
        node.several(word).iter().for_each(validate_inner);
    }
    validate_others(node);
    validate_told(node);
}

fn validate_others(node: &Node<'_>) {
    node.several("oneOf").iter().for_each(validate_inner);
    if let Some(not) = node.at("not") {
        validate_inner(&not);
    }
}

/// What a node inside a logical word tells, its own logical words aside.
fn validate_told(node: &Node<'_>) {
    for name in TELLS_STRUCTURE {
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
            "type" | "description" | "title" => part.errors.forbidden("must be empty to be structural"),
            "nullable" => part.errors.forbidden("must be false to be structural"),
            _ => part.errors.forbidden("must be undefined to be structural"),
        }
    }
    for (_, property) in node.properties() {
        validate_inner(&property);
    }
    if let Some(items) = node.at("items").filter(|items| items.value.as_map().is_some()) {
        validate_inner(&items);
    }
}
