//! ResourceQuota: how much all objects of a namespace may ask for together.

use std::collections::BTreeSet;

use setpoint_api::table::Cell;

use crate::at::At;
use crate::columns::{self, Column};
use crate::shared::resources;
use crate::strategy::{Names, Rules, Strategy, Subresource};

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
/// The resources that a quota may be of, besides those with a domain.
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
/// What pods compute with.
const COMPUTE: &[&str] = &[
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
];
/// What is warned of when more of it is requested than is allowed.
const COMPARED: [&str; 4] = ["cpu", "memory", "storage", "ephemeral-storage"];

#[derive(Debug)]
pub struct ResourceQuota;

impl Strategy for ResourceQuota {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "ResourceQuota");
    const NAMES: Names = Names::new("resourcequotas", "resourcequota").short(&["quota"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Request", |quota, _| Cell::from(print(quota, false)))
            .about("What is requested, and how much may be."),
        Column::text("Limit", |quota, _| Cell::from(print(quota, true)))
            .about("What is the limit, and how much may be."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        returns_deleted: true,
        ..Rules::DEFAULT
    };

    fn validate(quota: &At<'_>) {
        validate_spec(&quota.at("spec"));
        validate_status(&quota.at("status"));
    }

    fn validate_again(quota: &At<'_>, _old: &At<'_>) {
        validate_spec(&quota.at("spec"));
    }

    fn validate_update(quota: &At<'_>, old: &At<'_>) {
        let scopes = quota.at("spec").at("scopes");
        let before = old.at("spec").at("scopes");
        if scopes.strs().collect::<BTreeSet<_>>() != before.strs().collect::<BTreeSet<_>>() {
            scopes.invalid("field is immutable");
        }
    }

    fn validate_status(quota: &At<'_>, _old: &At<'_>) {
        validate_status(&quota.at("status"));
    }

    fn warnings(quota: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let hard = quota.at("spec").at("hard");
        COMPARED.iter().filter_map(|name| warn(&hard, name)).collect()
    }
}

fn validate_amounts(amounts: &At<'_>) {
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

fn validate_status(status: &At<'_>) {
    validate_amounts(&status.at("hard"));
    validate_amounts(&status.at("used"));
}

fn validate_spec(spec: &At<'_>) {
    let (hard, scopes, selector) = (spec.at("hard"), spec.at("scopes"), spec.at("scopeSelector"));
    validate_amounts(&hard);
    for scope in scopes.strs() {
        if !SCOPES.contains(&scope) {
            scopes.invalid("unsupported scope");
        }
        for _ in unfit(&hard, scope) {
            scopes.invalid("unsupported scope applied to resource");
        }
    }
    report_conflicts(scopes.strs(), &scopes, &scopes);
    if selector.is_set() {
        validate_selector(&selector, &hard, &scopes);
    }
}

fn validate_selector(selector: &At<'_>, hard: &At<'_>, scopes: &At<'_>) {
    let all = selector.at("matchExpressions");
    let place = |field: &str| all.errors().at(field);
    for expression in all.items() {
        let scope = expression.at("scopeName").str();
        if !SCOPES.contains(&scope) {
            place("scopeName").invalid(scope, "unsupported scope");
        }
        for _ in unfit(hard, scope) {
            selector
                .reported_at(all.errors().clone())
                .invalid("unsupported scope applied to resource");
        }
        validate_operator(&expression.reported_at(all.errors().clone()), scope);
    }
    let named: Vec<&str> = all
        .items()
        .map(|expression| expression.at("scopeName").str())
        .collect();
    report_conflicts(named.into_iter(), &all, scopes);
}

fn validate_operator(expression: &At<'_>, scope: &str) {
    let (operator, values) = (expression.at("operator"), expression.at("values"));
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

/// The resources of a quota that a scope says nothing about.
fn unfit<'a>(hard: &At<'a>, scope: &str) -> Vec<&'a str> {
    let fits = |name: &str| match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        scope if SCOPES.contains(&scope) => name == "pods" || COMPUTE.contains(&name),
        _ => true,
    };
    let names = hard.entries().map(|(name, _)| name);
    names.filter(|name| is_standard(name) && !fits(name)).collect()
}

/// The report shows the plain scopes, wherever the conflict is.
fn report_conflicts<'a>(scopes: impl Iterator<Item = &'a str>, place: &At<'_>, shown: &At<'_>) {
    let said: BTreeSet<&str> = scopes.collect();
    for _ in PAIRS
        .iter()
        .filter(|pair| pair.iter().all(|scope| said.contains(scope)))
    {
        shown
            .reported_at(place.errors().clone())
            .invalid("conflicting scopes");
    }
}

fn warn(hard: &At<'_>, name: &str) -> Option<String> {
    let asked = [format!("requests.{name}"), name.to_owned()];
    let known = if matches!(name, "cpu" | "memory") { 2 } else { 1 };
    let asked = asked[..known].iter().find(|asked| hard.key(asked).is_set())?;
    let limit = format!("limits.{name}");
    let (request, most) = (hard.key(asked), hard.key(&limit));
    (request.quantity()? > most.quantity()?).then(|| {
        format!(
            "ResourceQuota {asked} ({}) should be less than {limit} ({})",
            request.str(),
            most.str()
        )
    })
}

/// How much is used of what is allowed, of limits or of all else.
fn print(quota: &At<'_>, limits: bool) -> String {
    let status = quota.at("status");
    let hard = status.at("hard");
    let texts: Vec<String> = hard
        .entries()
        .filter(|(name, _)| name.starts_with("limits.") == limits)
        .map(|(name, most)| {
            let used = status.at("used").key(name);
            let used = if used.is_empty() { "0" } else { used.str() };
            format!("{name}: {used}/{}", most.str())
        })
        .collect();
    texts.join(", ")
}
