//! Structural schemas: validation that the type of every value is specified, and only once.

mod alternatives;

use std::collections::BTreeSet;

use setpoint_api::field::{ErrorType, Errors, FieldError};
use setpoint_schema::custom::{Pattern, Schema, ViolationKind};
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::FieldRef;
use setpoint_strategy::display::RawJson;

use super::versions;

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

pub(super) fn validate(crd: &FieldRef<'_>) {
    for schema in versions::schemas(crd) {
        validate_root(&Node::root(&schema));
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
    match root.str(fields::TYPE) {
        "object" => {}
        "" => root
            .errors
            .at(fields::TYPE)
            .required("must not be empty at the root"),
        other => root
            .errors
            .at(fields::TYPE)
            .invalid(other, "must be object at the root"),
    }
    for (name, node) in root.properties() {
        if name == fields::METADATA && !only_names(node.value) {
            node.errors
                .forbidden("must not specify anything other than name and generateName, but metadata is implicitly specified");
        }
    }
}

/// Whether a schema of metadata restricts only `name` and `generateName`.
fn only_names(metadata: &Tree) -> bool {
    let map = metadata.as_map();
    let allowed = |name: &str| matches!(name, fields::TYPE | fields::PROPERTIES);
    let properties = metadata.get(fields::PROPERTIES).and_then(Tree::as_map);
    map.is_none_or(|map| map.keys().all(allowed))
        && properties.is_none_or(|map| {
            map.keys()
                .all(|name| matches!(name, fields::NAME | fields::GENERATE_NAME))
        })
}

fn validate_node(node: &Node<'_>, root: bool) {
    validate_unsupported(node);
    validate_type(node, root);
    validate_lists(node);
    validate_values(node);
    validate_extensions(node);
    if let Some(additional) = node.at(fields::ADDITIONAL_PROPERTIES) {
        if node
            .value
            .get(fields::PROPERTIES)
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
        if !(root && name == fields::METADATA) {
            validate_node(&property, false);
        }
    }
    if let Some(items) = node
        .at(fields::ITEMS)
        .filter(|items| items.value.as_map().is_some())
    {
        validate_node(&items, false);
    }
    alternatives::validate(node);
}

fn validate_unsupported(node: &Node<'_>) {
    for name in [
        fields::DEFINITIONS,
        fields::DEPENDENCIES,
        fields::PATTERN_PROPERTIES,
    ] {
        if let Some(part) = node
            .at(name)
            .filter(|part| part.value.as_map().is_some_and(|map| !map.is_empty()))
        {
            part.errors.forbidden(&format!("{name} is not supported"));
        }
    }
    if node.flag(fields::UNIQUE_ITEMS) {
        node.errors
            .at(fields::UNIQUE_ITEMS)
            .forbidden("uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
    }
    for name in [fields::DOLLAR_REF, fields::ID, fields::DOLLAR_SCHEMA] {
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
    let at = node.errors.at(fields::TYPE);
    let free = node.flag(fields::X_KUBERNETES_INT_OR_STRING)
        || node.flag(fields::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS);
    match node.str(fields::TYPE) {
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
    match node.at(fields::ITEMS) {
        Some(items) if items.value.as_list().is_some() => {
            items
                .errors
                .forbidden("items must be a schema object and not an array");
        }
        None if node.str(fields::TYPE) == "array" => {
            node.errors.at(fields::ITEMS).required("must be specified")
        }
        _ => {}
    }
}

fn validate_values(node: &Node<'_>) {
    if let Some(pattern) = node
        .at(fields::PATTERN)
        .and_then(|pattern| pattern.value.as_str())
        && !pattern.is_empty()
        && Pattern::new(pattern).is_err()
    {
        let why = go_regex_error(pattern);
        let detail = format!("must be a valid regular expression, but isn't: error parsing regexp: {why}");
        node.errors.at(fields::PATTERN).invalid(pattern, &detail);
    }
    if let Some(default) = node.at(fields::DEFAULT) {
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
    let mut error = setpoint_strategy::custom::field_error(&report);
    if error.error_type == ErrorType::Invalid {
        error.message = error.message.replace(":  in body", ": in body");
    }
    error
}

fn validate_extensions(node: &Node<'_>) {
    if let Some(list) = node.at(fields::X_KUBERNETES_LIST_TYPE) {
        validate_list_type(node, &list);
    } else if node.at(fields::X_KUBERNETES_LIST_MAP_KEYS).is_some() {
        node.errors
            .at(fields::X_KUBERNETES_LIST_TYPE)
            .required("must be map if x-kubernetes-list-map-keys is non-empty");
    }
    if let Some(map) = node.at(fields::X_KUBERNETES_MAP_TYPE) {
        let kind = map.value.as_str().unwrap_or_default();
        if !matches!(kind, "atomic" | "granular") {
            map.errors.not_supported(kind, &["atomic", "granular"]);
        }
        if node.str(fields::TYPE) != "object" {
            let detail = "must be object if x-kubernetes-map-type is specified";
            node.errors
                .at(fields::TYPE)
                .invalid(node.str(fields::TYPE), detail);
        }
    }
    let embeds = node.flag(fields::X_KUBERNETES_EMBEDDED_RESOURCE);
    let preserves = node.flag(fields::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS);
    if embeds && !preserves && node.properties().is_empty() {
        node.errors.at(fields::PROPERTIES).required(
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        );
    }
}

fn validate_list_type(node: &Node<'_>, list: &Node<'_>) {
    let kind = list.value.as_str().unwrap_or_default();
    if node.str(fields::TYPE) != "array" {
        let detail = "must be array if x-kubernetes-list-type is specified";
        node.errors
            .at(fields::TYPE)
            .invalid(node.str(fields::TYPE), detail);
    }
    let keys: Vec<&str> = node
        .value
        .items(fields::X_KUBERNETES_LIST_MAP_KEYS)
        .iter()
        .filter_map(Tree::as_str)
        .collect();
    let at = node.errors.at(fields::X_KUBERNETES_LIST_MAP_KEYS);
    match kind {
        "atomic" => {}
        "set" => validate_set(node),
        "map" if keys.is_empty() => at.required("must not be empty if x-kubernetes-list-type is map"),
        "map" => {
            let items = Node {
                value: node.value.get(fields::ITEMS).unwrap_or(&Tree::Null),
                errors: node.errors.at(fields::ITEMS),
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
    let Some(items) = node.at(fields::ITEMS) else {
        return;
    };
    match items.str(fields::TYPE) {
        "object" if items.str(fields::X_KUBERNETES_MAP_TYPE) != "atomic" => {
            items.errors.at(fields::X_KUBERNETES_MAP_TYPE).invalid(
                items.value.str_at(&[fields::X_KUBERNETES_MAP_TYPE]),
                SET_OF_OBJECTS,
            )
        }
        "array" if !matches!(items.str(fields::X_KUBERNETES_LIST_TYPE), "atomic") => {
            items.errors.at(fields::X_KUBERNETES_LIST_TYPE).invalid(
                items.value.str_at(&[fields::X_KUBERNETES_LIST_TYPE]),
                SET_OF_OBJECTS,
            )
        }
        _ => {}
    }
}

const SET_OF_OBJECTS: &str = "must be atomic as item of a list with x-kubernetes-list-type=set";
