//! Structural schemas: validation that the type of every value is specified, and only once.

mod alternatives;

use std::collections::BTreeSet;

use setpoint_api::field::{ErrorType, Errors, FieldError};
use setpoint_schema::custom::{Pattern, Schema, ViolationKind};
use setpoint_schema::{Map, Tree};

use super::versions;

use crate::field::FieldRef;
use crate::shared::display::RawJson;

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

pub(super) fn validate(crd: &FieldRef<'_>) {
    for schema in versions::schemas(crd) {
        validate_root(&Node::root(&schema));
    }
}

/// Whether all versions have the same schema; Kubernetes then reports errors at the CRD's top-level schema.
pub(super) fn are_equal(versions: &FieldRef<'_>) -> bool {
    let schema = |version: FieldRef<'_>| version.at("schema").value().clone();
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
        let map = self.value.get("properties").and_then(Tree::as_map);
        let mut pairs: Vec<(&str, &Tree)> = map.into_iter().flat_map(Map::iter).collect();
        pairs.sort_by_key(|(name, _)| *name);
        let node = |(name, value): (&'a str, &'a Tree)| {
            let errors = self.errors.at("properties").key(name);
            (name, Node { value, errors })
        };
        pairs.into_iter().map(node).collect()
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

fn validate_root(root: &Node<'_>) {
    if root.value.is_null() {
        root.errors.required("schemas are required");
        return;
    }
    validate_node(root, true);
    match root.str("type") {
        "object" => {}
        "" => root.errors.at("type").required("must not be empty at the root"),
        other => root
            .errors
            .at("type")
            .invalid(other, "must be object at the root"),
    }
    for (name, node) in root.properties() {
        if name == "metadata" && !only_names(node.value) {
            node.errors
                .forbidden("must not specify anything other than name and generateName, but metadata is implicitly specified");
        }
    }
}

/// Whether a schema of metadata restricts only `name` and `generateName`.
fn only_names(metadata: &Tree) -> bool {
    let map = metadata.as_map();
    let allowed = |name: &str| matches!(name, "type" | "properties");
    let properties = metadata.get("properties").and_then(Tree::as_map);
    map.is_none_or(|map| map.keys().all(allowed))
        && properties.is_none_or(|map| map.keys().all(|name| matches!(name, "name" | "generateName")))
}

fn validate_node(node: &Node<'_>, root: bool) {
    validate_unsupported(node);
    validate_type(node, root);
    validate_lists(node);
    validate_values(node);
    validate_extensions(node);
    if let Some(additional) = node.at("additionalProperties") {
        if node
            .value
            .get("properties")
            .is_some_and(|properties| !properties.is_null())
        {
            additional
                .errors
                .forbidden("additionalProperties and properties are mutual exclusive");
        }
        if additional.value.as_map().is_some() {
            validate_node(&additional, false);
        }
    }
    for (name, property) in node.properties() {
        if !(root && name == "metadata") {
            validate_node(&property, false);
        }
    }
    if let Some(items) = node.at("items").filter(|items| items.value.as_map().is_some()) {
        validate_node(&items, false);
    }
    alternatives::validate(node);
}

fn validate_unsupported(node: &Node<'_>) {
    for name in ["definitions", "dependencies", "patternProperties"] {
        if let Some(part) = node
            .at(name)
            .filter(|part| part.value.as_map().is_some_and(|map| !map.is_empty()))
        {
            part.errors.forbidden(&format!("{name} is not supported"));
        }
    }
    if node.flag("uniqueItems") {
        node.errors
            .at("uniqueItems")
            .forbidden("uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
    }
    for name in ["$ref", "id", "$schema"] {
        if node
            .at(name)
            .is_some_and(|part| part.value.as_str().is_some_and(|text| !text.is_empty()))
        {
            let word = name.trim_start_matches('$');
            node.errors
                .at(name)
                .forbidden(&format!("{word} is not supported"));
        }
    }
}

fn validate_type(node: &Node<'_>, root: bool) {
    let at = node.errors.at("type");
    let free = node.flag("x-kubernetes-int-or-string") || node.flag("x-kubernetes-preserve-unknown-fields");
    match node.str("type") {
        "" if root || free => {}
        "" => at.required("must not be empty for specified object fields"),
        "null" => {
            at.not_supported("null", TYPES);
            at.forbidden("type cannot be set to null, use nullable as an alternative");
        }
        known if TYPES.contains(&known) => {}
        other => at.not_supported(other, TYPES),
    }
}

fn validate_lists(node: &Node<'_>) {
    match node.at("items") {
        Some(items) if items.value.as_list().is_some() => {
            items
                .errors
                .forbidden("items must be a schema object and not an array");
        }
        None if node.str("type") == "array" => node.errors.at("items").required("must be specified"),
        _ => {}
    }
}

fn validate_values(node: &Node<'_>) {
    if let Some(pattern) = node.at("pattern").and_then(|pattern| pattern.value.as_str())
        && !pattern.is_empty()
        && Pattern::new(pattern).is_err()
    {
        let why = go_regex_error(pattern);
        let detail = format!("must be a valid regular expression, but isn't: error parsing regexp: {why}");
        node.errors.at("pattern").invalid(pattern, &detail);
    }
    if let Some(default) = node.at("default") {
        validate_default(node, &default);
    }
}

/// The error of Go's regexp parser for a pattern, for its most frequent errors.
fn go_regex_error(pattern: &str) -> String {
    let open = |open: char, close: char| pattern.rfind(open).filter(|at| !pattern[*at..].contains(close));
    if let Some(at) = open('[', ']') {
        return format!("missing closing ]: `{}`", &pattern[at..]);
    }
    if pattern.matches('(').count() > pattern.matches(')').count() {
        return format!("missing closing ): `{pattern}`");
    }
    if pattern.matches(')').count() > pattern.matches('(').count() {
        return format!("unexpected ): `{pattern}`");
    }
    if pattern.ends_with('\\') {
        return "trailing backslash at end of expression: ``".to_owned();
    }
    if pattern.starts_with(['*', '+', '?']) {
        return format!("missing argument to repetition operator: `{}`", &pattern[..1]);
    }
    format!("invalid escape sequence: `{pattern}`")
}

/// A default must be valid by the schema that declares it.
fn validate_default(node: &Node<'_>, default: &Node<'_>) {
    let schema = Schema::compile(node.value);
    if schema.would_prune(default.value) {
        default
            .errors
            .invalid(RawJson::from_tree(default.value), "must not have unknown fields");
        return;
    }
    let mut filled = default.value.clone();
    schema.apply_defaults(&mut filled);
    let path = default.errors.path();
    for report in schema.validate_at(&filled, "") {
        let at = report.path.as_deref().unwrap_or_default();
        let at = match at {
            "" => path.clone(),
            at if at.starts_with('[') => format!("{path}{at}"),
            at => format!("{path}.{at}"),
        };
        default.errors.push(default_error(at, &report.kind));
    }
}

fn default_error(path: String, subject: &ViolationKind) -> FieldError {
    let report = setpoint_schema::custom::SchemaViolation {
        path: Some(path),
        kind: subject.clone(),
    };
    let mut error = crate::custom::field_error(&report);
    if error.error_type == ErrorType::Invalid {
        error.message = error.message.replace(":  in body", ": in body");
    }
    error
}

fn validate_extensions(node: &Node<'_>) {
    if let Some(list) = node.at("x-kubernetes-list-type") {
        validate_list_type(node, &list);
    } else if node.at("x-kubernetes-list-map-keys").is_some() {
        node.errors
            .at("x-kubernetes-list-type")
            .required("must be map if x-kubernetes-list-map-keys is non-empty");
    }
    if let Some(map) = node.at("x-kubernetes-map-type") {
        let kind = map.value.as_str().unwrap_or_default();
        if !matches!(kind, "atomic" | "granular") {
            map.errors.not_supported(kind, &["atomic", "granular"]);
        }
        if node.str("type") != "object" {
            let detail = "must be object if x-kubernetes-map-type is specified";
            node.errors.at("type").invalid(node.str("type"), detail);
        }
    }
    let embeds = node.flag("x-kubernetes-embedded-resource");
    let preserves = node.flag("x-kubernetes-preserve-unknown-fields");
    if embeds && !preserves && node.properties().is_empty() {
        node.errors.at("properties").required(
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        );
    }
}

fn validate_list_type(node: &Node<'_>, list: &Node<'_>) {
    let kind = list.value.as_str().unwrap_or_default();
    if node.str("type") != "array" {
        let detail = "must be array if x-kubernetes-list-type is specified";
        node.errors.at("type").invalid(node.str("type"), detail);
    }
    let keys: Vec<&str> = node
        .value
        .items("x-kubernetes-list-map-keys")
        .iter()
        .filter_map(Tree::as_str)
        .collect();
    let at = node.errors.at("x-kubernetes-list-map-keys");
    match kind {
        "atomic" => {}
        "set" => validate_set(node),
        "map" if keys.is_empty() => at.required("must not be empty if x-kubernetes-list-type is map"),
        "map" => {
            let items = Node {
                value: node.value.get("items").unwrap_or(&Tree::Null),
                errors: node.errors.at("items"),
            };
            let properties: BTreeSet<&str> = items.properties().iter().map(|(name, _)| *name).collect();
            if !keys.iter().all(|key| properties.contains(key)) {
                at.invalid(&keys, "entries must all be names of item properties");
            }
            if keys.iter().collect::<BTreeSet<_>>().len() < keys.len() {
                at.invalid(&keys, "must not contain duplicate entries");
            }
        }
        other => list.errors.not_supported(other, &["atomic", "set", "map"]),
    }
}

/// The items of a set are compared as whole values.
fn validate_set(node: &Node<'_>) {
    let Some(items) = node.at("items") else { return };
    match items.str("type") {
        "object" if items.str("x-kubernetes-map-type") != "atomic" => items
            .errors
            .at("x-kubernetes-map-type")
            .invalid(items.value.str_at(&["x-kubernetes-map-type"]), SET_OF_OBJECTS),
        "array" if !matches!(items.str("x-kubernetes-list-type"), "atomic") => items
            .errors
            .at("x-kubernetes-list-type")
            .invalid(items.value.str_at(&["x-kubernetes-list-type"]), SET_OF_OBJECTS),
        _ => {}
    }
}

const SET_OF_OBJECTS: &str = "must be atomic as item of a list with x-kubernetes-list-type=set";
