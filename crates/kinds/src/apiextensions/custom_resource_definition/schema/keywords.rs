//! Keywords of schemas: which are supported, and what their values may be.
//!
//! The rules are upstream's `ValidateCustomResourceDefinitionOpenAPISchema`, in apiextensions-apiserver
//! `pkg/apis/apiextensions/validation/validation.go`.

use setpoint_schema::custom::Schema;
use setpoint_schema::{Tree, fields};

use super::rules::{self, RuleChecks, RuleNode};
use super::{Node, list_type};

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// The properties of every object.
const META_FIELDS: [&str; 3] = [fields::METADATA, fields::KIND, fields::API_VERSION];

/// Where a node is in the schema, as far as rules depend on it.
#[derive(Debug, Clone, Default)]
pub(super) struct Context<'a> {
    is_root: bool,
    /// Why defaults are forbidden.
    forbidden_defaults: Option<String>,
    /// Whether the node is in the type or metadata of an object.
    is_inside_meta: bool,
    /// The path of the outermost list above whose items have no counterparts in an old object.
    pub(super) uncorrelatable: Option<String>,
    /// The node for validation rules; `None` if they are not checked here.
    pub(super) rules: Option<RuleNode<'a>>,
}

/// Whether the schema can be read as a structural one: it uses no unsupported keyword anywhere.
pub(super) fn are_supported(node: &Node<'_>) -> bool {
    const UNSUPPORTED: [&str; 6] = [
        fields::ID,
        fields::DOLLAR_SCHEMA,
        fields::DOLLAR_REF,
        fields::PATTERN_PROPERTIES,
        fields::DEPENDENCIES,
        fields::DEFINITIONS,
    ];
    let preserve = node.value.get(fields::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS);
    let inner = inner_schemas(node);
    !UNSUPPORTED.iter().any(|name| has_content(node, name))
        && node.at(fields::ADDITIONAL_ITEMS).is_none()
        && node.value.items(fields::ITEMS).is_empty()
        && preserve != Some(&Tree::Bool(false))
        && inner.iter().all(are_supported)
}

/// Validates the keywords of the schema of a version. `structural` is the compiled schema if it is structural: then
/// validation rules are checked, too.
pub(super) fn validate_root(root: &Node<'_>, structural: Option<&Schema>, checks: &mut RuleChecks) {
    let context = Context {
        is_root: true,
        rules: structural.map(RuleNode::root),
        ..Context::default()
    };
    validate(root, &context, checks);
}

fn validate(node: &Node<'_>, context: &Context<'_>, checks: &mut RuleChecks) {
    let reported = node.errors.len();
    validate_supported(node, context);
    if node.flag(fields::UNIQUE_ITEMS) {
        node.errors
            .at(fields::UNIQUE_ITEMS)
            .forbidden("uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
    }
    validate_additional_properties(node, context, checks);
    for (name, property) in node.properties() {
        let context = context.property(name, node);
        validate(&property, &context, checks);
    }
    let unchecked = context.without_rules();
    let junctors = [fields::ALL_OF, fields::ONE_OF, fields::ANY_OF];
    let inner = node.at(fields::NOT).into_iter();
    let inner = inner.chain(junctors.iter().flat_map(|name| node.children(name)));
    inner.for_each(|inner| validate(&inner, &unchecked, checks));
    for (_, inner) in node.schemas_by_name(fields::DEFINITIONS) {
        validate(&inner, &unchecked, checks);
    }
    if let Some(items) = node.schema(fields::ITEMS) {
        validate(&items, &context.items(node), checks);
    }
    for item in node.children(fields::ITEMS) {
        validate(&item, &context.items(node).without_rules(), checks);
    }
    for (_, inner) in node.schemas_by_name(fields::DEPENDENCIES) {
        if inner.value.as_map().is_some() {
            validate(&inner, &unchecked, checks);
        }
    }
    validate_extensions(node);
    list_type::validate(node);
    rules::validate(node, context, reported, checks);
}

fn validate_additional_properties(node: &Node<'_>, context: &Context<'_>, checks: &mut RuleChecks) {
    let Some(additional) = node.at(fields::ADDITIONAL_PROPERTIES) else {
        return;
    };
    // `true` is allowed: it changes nothing, since unknown fields are pruned.
    if additional.value != &Tree::Bool(true) && !node.properties().is_empty() {
        let message = "additionalProperties and properties are mutual exclusive";
        additional.errors.forbidden(message);
    }
    if additional.value.as_map().is_some() {
        validate(&additional, &context.additional_properties(), checks);
    }
}

impl<'a> Context<'a> {
    fn child(&self, rules: Option<RuleNode<'a>>) -> Self {
        Self {
            is_root: false,
            rules,
            ..self.clone()
        }
    }

    fn without_rules(&self) -> Self {
        self.child(None)
    }

    fn property(&self, name: &str, node: &Node<'_>) -> Self {
        let mut child = self.child(self.rules.and_then(|rules| rules.property(name)));
        let is_object = self.is_root || node.flag(fields::X_KUBERNETES_EMBEDDED_RESOURCE);
        if is_object && META_FIELDS.contains(&name) {
            child.is_inside_meta = true;
            if self.is_root {
                child.forbidden_defaults = Some(format!("in top-level {name}"));
            }
        }
        child
    }

    fn additional_properties(&self) -> Self {
        let mut child = self.child(self.rules.and_then(RuleNode::additional_properties));
        if self.is_inside_meta {
            let reason = "inside additionalProperties applying to object metadata";
            child.forbidden_defaults = Some(reason.to_owned());
        }
        child
    }

    fn items(&self, node: &Node<'_>) -> Self {
        let mut child = self.child(self.rules.and_then(RuleNode::items));
        let is_correlatable = node.str(fields::X_KUBERNETES_LIST_TYPE) == "map";
        if !is_correlatable && child.uncorrelatable.is_none() {
            child.uncorrelatable = Some(node.errors.path());
        }
        child
    }
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

fn validate_supported(node: &Node<'_>, context: &Context<'_>) {
    let at = node.errors.at(fields::TYPE);
    match node.str(fields::TYPE) {
        "" => {}
        known if TYPES.contains(&known) => {}
        other => at.not_supported(other, TYPES),
    }
    let default = node.at(fields::DEFAULT);
    if let (Some(default), Some(reason)) = (default, &context.forbidden_defaults) {
        default.errors.forbidden(&format!("must not be set {reason}"));
    }
    for (name, is_used) in [
        (fields::ID, has_content(node, fields::ID)),
        (
            fields::ADDITIONAL_ITEMS,
            node.at(fields::ADDITIONAL_ITEMS).is_some(),
        ),
        (
            fields::PATTERN_PROPERTIES,
            has_content(node, fields::PATTERN_PROPERTIES),
        ),
        (fields::DEFINITIONS, has_content(node, fields::DEFINITIONS)),
        (fields::DEPENDENCIES, node.at(fields::DEPENDENCIES).is_some()),
        (fields::DOLLAR_REF, node.at(fields::DOLLAR_REF).is_some()),
    ] {
        if is_used {
            let at = node.errors.at(name);
            at.forbidden(&format!("{name} is not supported"));
        }
    }
    if node.str(fields::TYPE) == "null" {
        at.forbidden("type cannot be set to null, use nullable as an alternative");
    }
    if !node.value.items(fields::ITEMS).is_empty() {
        node.errors
            .at(fields::ITEMS)
            .forbidden("items must be a schema object and not an array");
    }
    if context.is_inside_meta && node.flag(fields::X_KUBERNETES_EMBEDDED_RESOURCE) {
        node.errors
            .at(fields::X_KUBERNETES_EMBEDDED_RESOURCE)
            .forbidden("must not be used inside of resource meta");
    }
}

/// Whether the node has a keyword, and not with an empty value.
fn has_content(node: &Node<'_>, name: &str) -> bool {
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
