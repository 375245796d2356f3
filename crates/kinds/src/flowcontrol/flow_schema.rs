//! FlowSchema: which requests belong together, and at which priority level they are served.

use serde_json::json;

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::{GROUP, validate_conditions};
use crate::at::At;
use crate::bootstrap;
use crate::columns::{self, Column};
use crate::shared::name;
use crate::strategy::{Names, Rules, Scope, Strategy, Subresource};

const DEFAULT_PRECEDENCE: i64 = 1000;
const MOST_PRECEDENCE: i64 = 10_000;
const METHODS: &[&str] = &["ByNamespace", "ByUser"];
const SUBJECT_KINDS: &[&str] = &["Group", "ServiceAccount", "User"];
const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];
/// Schemas that every server has, and that nobody may change.
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
            columns::or_empty(&schema.at("spec").at("priorityLevelConfiguration").at("name"))
        })
        .about("Where its requests are served."),
        Column::text("MatchingPrecedence", |schema, _| {
            Cell::from(schema.at("spec").at("matchingPrecedence").int())
        })
        .about("Which schema a request belongs to if several fit: the lowest."),
        Column::text("DistinguisherMethod", |schema, _| {
            columns::or_none(&schema.at("spec").at("distinguisherMethod").at("type"))
        })
        .about("What tells its flows apart."),
        columns::AGE,
        Column::text("MissingPL", |schema, _| dangling(schema))
            .about("Whether its priority level is missing."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        tracks_generation: true,
        ..Rules::DEFAULT
    };

    fn default_fields(schema: &mut Tree) {
        schema
            .child("spec")
            .fill("matchingPrecedence", DEFAULT_PRECEDENCE);
    }

    fn validate(schema: &At<'_>) {
        let (spec, own) = (schema.at("spec"), schema.at("metadata").at("name").str());
        validate_precedence(&spec.at("matchingPrecedence"), own);
        let method = spec.at("distinguisherMethod");
        if method.is_set() && !METHODS.contains(&method.at("type").str()) {
            let shown = json!({"Type": method.at("type").str()});
            method.at("type").errors().not_supported(shown, METHODS);
        }
        let level = spec.at("priorityLevelConfiguration").at("name");
        if level.is_empty() {
            level.required("must reference a priority level");
        } else {
            name::check(&level, name::subdomain);
        }
        for rule in spec.at("rules").items() {
            validate_rule(&rule);
        }
        if MANDATORY.contains(&own) && bootstrap::spec_differs("FlowSchema", own, spec.value()) {
            spec.invalid(&format!("spec of '{own}' must equal the fixed value"));
        }
        validate_conditions(&schema.at("status").at("conditions"));
    }

    fn validate_status(schema: &At<'_>, _old: &At<'_>) {
        validate_conditions(&schema.at("status").at("conditions"));
    }
}

fn dangling(schema: &At<'_>) -> Cell {
    let conditions = schema.at("status").at("conditions");
    let found = conditions
        .items()
        .find(|condition| condition.at("type").str() == "Dangling");
    Cell::from(found.map_or("?", |condition| condition.at("status").str()))
}

fn validate_precedence(precedence: &At<'_>, own: &str) {
    if precedence.int() <= 0 {
        precedence.invalid("must be a positive value");
    }
    if precedence.int() > MOST_PRECEDENCE {
        precedence.invalid(&format!("must not be greater than {MOST_PRECEDENCE}"));
    }
    if precedence.int() == 1 && own != "exempt" {
        precedence.invalid("only the schema named 'exempt' may have matchingPrecedence 1");
    }
}

fn validate_rule(rule: &At<'_>) {
    if rule.at("subjects").is_empty() {
        rule.at("subjects")
            .required("subjects must contain at least one value");
    }
    for subject in rule.at("subjects").items() {
        validate_subject(&subject);
    }
    let (resources, others) = (rule.at("resourceRules"), rule.at("nonResourceRules"));
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

/// A subject names one of its kind, and nothing of another.
fn validate_subject(subject: &At<'_>) {
    let kind = subject.at("kind").str();
    if !SUBJECT_KINDS.contains(&kind) {
        subject.at("kind").not_supported(SUBJECT_KINDS);
        return;
    }
    for (owner, field) in [
        ("ServiceAccount", "serviceAccount"),
        ("User", "user"),
        ("Group", "group"),
    ] {
        let place = subject.at(field);
        match (owner == kind, place.is_set()) {
            (true, false) => place.required(&format!("{field} is required when subject kind is '{owner}'")),
            (true, true) => validate_name(&place, owner),
            (false, _) => {}
        }
    }
    for (owner, field) in [
        ("ServiceAccount", "serviceAccount"),
        ("User", "user"),
        ("Group", "group"),
    ] {
        if owner != kind && subject.at(field).is_set() {
            let why = format!("{field} is forbidden when subject kind is not '{owner}'");
            subject.at(field).forbidden(&why);
        }
    }
}

fn validate_name(subject: &At<'_>, kind: &str) {
    let own = subject.at("name");
    own.require();
    if kind != "ServiceAccount" {
        return;
    }
    if !own.is_empty() && own.str() != "*" {
        name::check(&own, name::subdomain);
    }
    let namespace = subject.at("namespace");
    if namespace.is_empty() {
        namespace.required("must specify namespace for service account");
    } else {
        name::check(&namespace, name::label);
    }
}

fn validate_verbs(verbs: &At<'_>) {
    if validate_set(verbs, "verbs must contain at least one value", "verbs")
        && verbs.strs().any(|verb| !VERBS.contains(&verb))
    {
        verbs.not_supported(VERBS);
    }
}

/// Reports a set without members, and one where everything stands beside something. Whether single members are left to
/// be looked at.
fn validate_set(set: &At<'_>, missing: &str, what: &str) -> bool {
    let all = set.strs().any(|member| member == "*");
    if set.is_empty() {
        set.required(missing);
    } else if all && set.len() > 1 {
        set.invalid(&format!("if '*' is present, must not specify other {what}"));
    }
    !set.is_empty() && !all
}

fn validate_resources(rule: &At<'_>) {
    validate_verbs(&rule.at("verbs"));
    let missing = |what: &str| format!("resource rules must supply at least one {what}");
    validate_set(&rule.at("apiGroups"), &missing("api group"), "api groups");
    validate_set(&rule.at("resources"), &missing("resource"), "resources");
    let namespaces = rule.at("namespaces");
    if namespaces.is_empty() && rule.at("clusterScope").bool() {
        return;
    }
    let missing = "resource rules that are not cluster scoped must supply at least one namespace";
    if validate_set(&namespaces, missing, "namespaces") {
        for namespace in namespaces.items() {
            for why in name::label(namespace.str()) {
                namespace.invalid(&format!(
                    "each member of this list must be '*' or a DNS-1123 label; {why}"
                ));
            }
        }
    }
}

fn validate_others(rule: &At<'_>) {
    validate_verbs(&rule.at("verbs"));
    let urls = rule.at("nonResourceURLs");
    let missing = "nonResourceURLs must contain at least one value";
    if validate_set(&urls, missing, "non-resource URLs") {
        for url in urls.items() {
            if let Some(why) = check_path(url.str()) {
                url.invalid(why);
            }
        }
    }
}

/// What keeps a text from being a path, perhaps with everything below it.
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
