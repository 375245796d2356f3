//! FlowSchema: assigns requests to a priority level and to flows.

use serde_json::json;

use setpoint_api::ApiVerb;
use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy, Subresource, name};

use super::{GROUP, validate_conditions};
use crate::bootstrap;

const DEFAULT_PRECEDENCE: i64 = 1000;
const MAX_PRECEDENCE: i64 = 10_000;
const METHODS: &[&str] = &["ByNamespace", "ByUser"];
const SUBJECT_KINDS: &[&str] = &["Group", "ServiceAccount", "User"];
/// The verbs that a rule may name besides `*`.
const VERBS: &[&str] = &[
    ApiVerb::Create.as_str(),
    ApiVerb::Delete.as_str(),
    ApiVerb::DeleteCollection.as_str(),
    ApiVerb::Get.as_str(),
    ApiVerb::List.as_str(),
    ApiVerb::Patch.as_str(),
    "proxy",
    ApiVerb::Update.as_str(),
    ApiVerb::Watch.as_str(),
];
/// Mandatory flow schemas, whose specs are fixed.
const MANDATORY: &[&str] = &["exempt", "catch-all"];

#[derive(Debug)]
pub struct FlowSchema;

impl Strategy for FlowSchema {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "FlowSchema");
    const NAMES: Names = Names::new("flowschemas", "flowschema");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("PriorityLevel", |schema, _| {
            columns::or_empty(
                &schema
                    .at(fields::SPEC)
                    .at(fields::PRIORITY_LEVEL_CONFIGURATION)
                    .at(fields::NAME),
            )
        })
        .description("The priority level."),
        Column::text("MatchingPrecedence", |schema, _| {
            Cell::from(schema.at(fields::SPEC).at(fields::MATCHING_PRECEDENCE).int())
        })
        .description("The matching precedence; the lowest matches first."),
        Column::text("DistinguisherMethod", |schema, _| {
            columns::or_none(
                &schema
                    .at(fields::SPEC)
                    .at(fields::DISTINGUISHER_METHOD)
                    .at(fields::TYPE),
            )
        })
        .description("The flow distinguisher."),
        columns::AGE,
        Column::text("MissingPL", |schema, _| dangling(schema))
            .description("Whether the priority level does not exist."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT.tracks_generation();

    fn default_fields(schema: &mut Tree) {
        schema
            .child(fields::SPEC)
            .set_default(fields::MATCHING_PRECEDENCE, DEFAULT_PRECEDENCE);
    }

    fn validate(schema: &FieldRef<'_>, _facts: &RequestFacts) {
        let (spec, name) = (
            schema.at(fields::SPEC),
            schema.at(fields::METADATA).at(fields::NAME).str(),
        );
        validate_precedence(&spec.at(fields::MATCHING_PRECEDENCE), name);
        let method = spec.at(fields::DISTINGUISHER_METHOD);
        if method.is_set() && !METHODS.contains(&method.at(fields::TYPE).str()) {
            let shown = json!({"Type": method.at(fields::TYPE).str()});
            method.at(fields::TYPE).errors().not_supported(shown, METHODS);
        }
        let level = spec.at(fields::PRIORITY_LEVEL_CONFIGURATION).at(fields::NAME);
        if level.is_empty() {
            level.required("must reference a priority level");
        } else {
            name::check(&level, name::check_dns1123_subdomain);
        }
        for rule in spec.at(fields::RULES).items() {
            validate_rule(&rule);
        }
        if MANDATORY.contains(&name) && bootstrap::spec_differs("FlowSchema", name, spec.value()) {
            spec.invalid(&format!("spec of '{name}' must equal the fixed value"));
        }
        validate_conditions(&schema.at(fields::STATUS).at(fields::CONDITIONS));
    }

    fn validate_status(schema: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_conditions(&schema.at(fields::STATUS).at(fields::CONDITIONS));
    }
}

fn dangling(schema: &FieldRef<'_>) -> Cell {
    let conditions = schema.at(fields::STATUS).at(fields::CONDITIONS);
    let found = conditions
        .items()
        .find(|condition| condition.at(fields::TYPE).str() == "Dangling");
    Cell::from(found.map_or("?", |condition| condition.at(fields::STATUS).str()))
}

fn validate_precedence(precedence: &FieldRef<'_>, name: &str) {
    if precedence.int() <= 0 {
        precedence.invalid("must be a positive value");
    }
    if precedence.int() > MAX_PRECEDENCE {
        precedence.invalid(&format!("must not be greater than {MAX_PRECEDENCE}"));
    }
    if precedence.int() == 1 && name != "exempt" {
        precedence.invalid("only the schema named 'exempt' may have matchingPrecedence 1");
    }
}

fn validate_rule(rule: &FieldRef<'_>) {
    if rule.at(fields::SUBJECTS).is_empty() {
        rule.at(fields::SUBJECTS)
            .required("subjects must contain at least one value");
    }
    for subject in rule.at(fields::SUBJECTS).items() {
        validate_subject(&subject);
    }
    let (resources, others) = (
        rule.at(fields::RESOURCE_RULES),
        rule.at(fields::NON_RESOURCE_RULES),
    );
    if resources.is_empty() && others.is_empty() {
        rule.required("at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for resource in resources.items() {
        validate_resources(&resource);
    }
    for other in others.items() {
        validate_others(&other);
    }
}

/// A subject has exactly the field of its kind.
fn validate_subject(subject: &FieldRef<'_>) {
    let kind = subject.at(fields::KIND).str();
    if !SUBJECT_KINDS.contains(&kind) {
        subject.at(fields::KIND).not_supported(SUBJECT_KINDS);
        return;
    }
    for (owner, field) in [
        ("ServiceAccount", fields::SERVICE_ACCOUNT),
        ("User", fields::USER),
        ("Group", fields::GROUP),
    ] {
        let value = subject.at(field);
        match (owner == kind, value.is_set()) {
            (true, false) => value.required(&format!("{field} is required when subject kind is '{owner}'")),
            (true, true) => validate_name(&value, owner),
            (false, _) => {}
        }
    }
    for (owner, field) in [
        ("ServiceAccount", fields::SERVICE_ACCOUNT),
        ("User", fields::USER),
        ("Group", fields::GROUP),
    ] {
        if owner != kind && subject.at(field).is_set() {
            let why = format!("{field} is forbidden when subject kind is not '{owner}'");
            subject.at(field).forbidden(&why);
        }
    }
}

fn validate_name(subject: &FieldRef<'_>, kind: &str) {
    let name = subject.at(fields::NAME);
    name.require();
    if kind != "ServiceAccount" {
        return;
    }
    if !name.is_empty() && name.str() != "*" {
        name::check(&name, name::check_dns1123_subdomain);
    }
    let namespace = subject.at(fields::NAMESPACE);
    if namespace.is_empty() {
        namespace.required("must specify namespace for service account");
    } else {
        name::check(&namespace, name::check_dns1123_label);
    }
}

fn validate_verbs(verbs: &FieldRef<'_>) {
    if validate_set(verbs, "verbs must contain at least one value", "verbs")
        && verbs.strs().any(|verb| !VERBS.contains(&verb))
    {
        verbs.not_supported(VERBS);
    }
}

/// Reports an empty set, and a wildcard beside other items. Returns whether single items remain to be validated.
fn validate_set(set: &FieldRef<'_>, missing: &str, what: &str) -> bool {
    let all = set.strs().any(|member| member == "*");
    if set.is_empty() {
        set.required(missing);
    } else if all && set.len() > 1 {
        set.invalid(&format!("if '*' is present, must not specify other {what}"));
    }
    !set.is_empty() && !all
}

fn validate_resources(rule: &FieldRef<'_>) {
    validate_verbs(&rule.at(fields::VERBS));
    let missing = |what: &str| format!("resource rules must supply at least one {what}");
    validate_set(&rule.at(fields::API_GROUPS), &missing("api group"), "api groups");
    validate_set(&rule.at(fields::RESOURCES), &missing("resource"), "resources");
    let namespaces = rule.at(fields::NAMESPACES);
    if namespaces.is_empty() && rule.at(fields::CLUSTER_SCOPE).bool() {
        return;
    }
    let missing = "resource rules that are not cluster scoped must supply at least one namespace";
    if validate_set(&namespaces, missing, "namespaces") {
        for namespace in namespaces.items() {
            for why in name::check_dns1123_label(namespace.str()) {
                namespace.invalid(&format!(
                    "each member of this list must be '*' or a DNS-1123 label; {why}"
                ));
            }
        }
    }
}

fn validate_others(rule: &FieldRef<'_>) {
    validate_verbs(&rule.at(fields::VERBS));
    let urls = rule.at(fields::NON_RESOURCE_URLS);
    let missing = "nonResourceURLs must contain at least one value";
    if validate_set(&urls, missing, "non-resource URLs") {
        for url in urls.items() {
            if let Some(why) = check_path(url.str()) {
                url.invalid(why);
            }
        }
    }
}

/// Why a text is not a non-resource path, which may end in a wildcard.
fn check_path(path: &str) -> Option<&'static str> {
    let stars = path.matches('*').count();
    match path {
        "" => Some("must not be empty"),
        "/" => None,
        path if !path.starts_with('/') => Some("must start with slash"),
        path if path.contains(' ') => Some("must not contain white-space"),
        path if path.contains("//") => Some("must not contain double slash"),
        path if stars > 1 || (stars == 1 && !path.ends_with("/*")) => {
            Some("wildcard can only do suffix matching")
        }
        _ => None,
    }
}
