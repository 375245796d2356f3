//! ResourceQuota: limits on the total resources of a namespace.

use std::collections::BTreeSet;

use setpoint_api::table::Cell;
use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy, Subresource};

use crate::shared::resources;

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];
/// Scopes that exclude each other.
const PAIRS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
/// Resources without a domain that a quota may limit.
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
/// Compute resources of pods.
const COMPUTE: &[&str] = &[
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
];
/// Resources for which a request above the limit is warned about.
const COMPARED: [&str; 4] = ["cpu", "memory", "storage", "ephemeral-storage"];

#[derive(Debug)]
pub struct ResourceQuota;

impl Strategy for ResourceQuota {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "ResourceQuota");
    const NAMES: Names = Names::new("resourcequotas", "resourcequota").short(&["quota"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Request", |quota, _| Cell::from(print(quota, false)))
            .description("Used and hard requests."),
        Column::text("Limit", |quota, _| Cell::from(print(quota, true))).description("Used and hard limits."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT.returns_deleted();

    fn validate(quota: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_spec(&quota.at(fields::SPEC));
        validate_status(&quota.at(fields::STATUS));
    }

    fn validate_for_update(quota: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_spec(&quota.at(fields::SPEC));
    }

    fn validate_update(quota: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let scopes = quota.at(fields::SPEC).at(fields::SCOPES);
        let before = old.at(fields::SPEC).at(fields::SCOPES);
        if scopes.strs().collect::<BTreeSet<_>>() != before.strs().collect::<BTreeSet<_>>() {
            scopes.invalid("field is immutable");
        }
    }

    fn validate_status(quota: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_status(&quota.at(fields::STATUS));
    }

    fn warnings(quota: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let hard = quota.at(fields::SPEC).at(fields::HARD);
        COMPARED.iter().filter_map(|name| warn(&hard, name)).collect()
    }
}

fn validate_amounts(amounts: &FieldRef<'_>) {
    for (name, amount) in amounts.entries() {
        resources::validate_name(name, &amount);
        if !name.contains('/') && !is_standard(name) {
            amount.invalid_as(name, "must be a standard resource for quota");
        }
        resources::validate_amount(name, &amount);
    }
}

fn is_standard(name: &str) -> bool {
    let pages = name.strip_prefix("requests.").unwrap_or(name);
    STANDARD.contains(&name) || pages.starts_with(resources::HUGE_PAGES)
}

fn validate_status(status: &FieldRef<'_>) {
    validate_amounts(&status.at(fields::HARD));
    validate_amounts(&status.at(fields::USED));
}

fn validate_spec(spec: &FieldRef<'_>) {
    let (hard, scopes, selector) = (
        spec.at(fields::HARD),
        spec.at(fields::SCOPES),
        spec.at(fields::SCOPE_SELECTOR),
    );
    validate_amounts(&hard);
    for scope in scopes.strs() {
        if !SCOPES.contains(&scope) {
            scopes.invalid("unsupported scope");
        }
        for _ in inapplicable_resources(&hard, scope) {
            scopes.invalid("unsupported scope applied to resource");
        }
    }
    report_conflicts(scopes.strs(), &scopes, &scopes);
    if selector.is_set() {
        validate_selector(&selector, &hard, &scopes);
    }
}

fn validate_selector(selector: &FieldRef<'_>, hard: &FieldRef<'_>, scopes: &FieldRef<'_>) {
    let all = selector.at(fields::MATCH_EXPRESSIONS);
    let errors_at = |field: &str| all.errors().at(field);
    for expression in all.items() {
        let scope = expression.at(fields::SCOPE_NAME).str();
        if !SCOPES.contains(&scope) {
            errors_at(fields::SCOPE_NAME).invalid(scope, "unsupported scope");
        }
        for _ in inapplicable_resources(hard, scope) {
            selector
                .with_errors(all.errors().clone())
                .invalid("unsupported scope applied to resource");
        }
        validate_operator(&expression.with_errors(all.errors().clone()), scope);
    }
    let named: Vec<&str> = all
        .items()
        .map(|expression| expression.at(fields::SCOPE_NAME).str())
        .collect();
    report_conflicts(named.into_iter(), &all, scopes);
}

fn validate_operator(expression: &FieldRef<'_>, scope: &str) {
    let (operator, values) = (expression.at(fields::OPERATOR), expression.at(fields::VALUES));
    let unvalued = SCOPES.contains(&scope) && !matches!(scope, "PriorityClass" | "VolumeAttributesClass");
    if unvalued && operator.str() != "Exists" {
        operator.invalid("must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity");
    }
    match operator.str() {
        "In" | "NotIn" if values.is_empty() => {
            values
                .required("must be at least one value when `operator` is 'In' or 'NotIn' for scope selector");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            values
                .invalid("must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => operator.invalid("not a valid selector operator"),
    }
}

/// The resources of a quota to which a scope does not apply.
fn inapplicable_resources<'a>(hard: &FieldRef<'a>, scope: &str) -> Vec<&'a str> {
    let fits = |name: &str| match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        scope if SCOPES.contains(&scope) => name == "pods" || COMPUTE.contains(&name),
        _ => true,
    };
    let names = hard.entries().map(|(name, _)| name);
    names.filter(|name| is_standard(name) && !fits(name)).collect()
}

/// Errors show the plain scopes, even if the conflict is in the scope selector.
fn report_conflicts<'a>(scopes: impl Iterator<Item = &'a str>, field: &FieldRef<'_>, shown: &FieldRef<'_>) {
    let listed: BTreeSet<&str> = scopes.collect();
    for _ in PAIRS
        .iter()
        .filter(|pair| pair.iter().all(|scope| listed.contains(scope)))
    {
        shown
            .with_errors(field.errors().clone())
            .invalid("conflicting scopes");
    }
}

fn warn(hard: &FieldRef<'_>, name: &str) -> Option<String> {
    let request_name = [format!("requests.{name}"), name.to_owned()];
    let known = if matches!(name, "cpu" | "memory") { 2 } else { 1 };
    let request_name = request_name[..known]
        .iter()
        .find(|request_name| hard.key(request_name).is_set())?;
    let limit = format!("limits.{name}");
    let (request, max) = (hard.key(request_name), hard.key(&limit));
    (request.quantity()? > max.quantity()?).then(|| {
        format!(
            "ResourceQuota {request_name} ({}) should be less than {limit} ({})",
            request.str(),
            max.str()
        )
    })
}

/// Used and hard values, of limits or of everything else.
fn print(quota: &FieldRef<'_>, limits: bool) -> String {
    let status = quota.at(fields::STATUS);
    let hard = status.at(fields::HARD);
    let texts: Vec<String> = hard
        .entries()
        .filter(|(name, _)| name.starts_with("limits.") == limits)
        .map(|(name, max)| {
            let used = status.at(fields::USED).key(name);
            let used = if used.is_empty() { "0" } else { used.str() };
            format!("{name}: {used}/{}", max.str())
        })
        .collect();
    texts.join(", ")
}
