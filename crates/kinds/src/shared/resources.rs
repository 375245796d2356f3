//! Amounts of resources: requests, limits, capacity.

use std::collections::BTreeSet;

use setpoint_api::Quantity;
use setpoint_api::field::Errors;
use setpoint_schema::{Map, Tree};

use super::name;
use crate::at::At;

/// How the name of a resource begins that is memory in pages of one size.
pub const HUGE_PAGES: &str = "hugepages-";
/// The resources a container may ask for without a domain in their name.
const OF_CONTAINERS: &[&str] = &["cpu", "memory", "ephemeral-storage"];
/// The resources that are counted in whole numbers, besides those with a domain.
const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
/// The names without a domain that are known at all.
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    "services",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Every request that is missing becomes what the limit is.
pub fn default_requests(resources: &mut Tree) {
    let Some(Tree::Map(limits)) = resources.get("limits").cloned() else {
        return;
    };
    let requests = resources.child("requests");
    for (name, limit) in limits.iter() {
        requests.fill(name, limit.clone());
    }
    sort(requests.map_or_default());
}

/// Puts the keys back into their order after one was added.
pub fn sort(map: &mut Map) {
    map.pairs_mut().sort_by(|(left, _), (right, _)| left.cmp(right));
}

/// Reports amounts below zero.
pub fn validate_amounts(amounts: &At<'_>) {
    for (name, amount) in amounts.entries() {
        if amount.quantity().is_some_and(|amount| amount.is_negative()) {
            let errors = amounts.errors().at(name);
            errors.invalid(amount.str(), "must be greater than or equal to 0");
        }
    }
}

/// Whose resources they are, which decides what they may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Container,
    Pod,
}

/// What the rules on requests and limits look at besides them.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    pub whose: Whose,
    /// The names that the pod gives to its claims.
    pub claims: &'a BTreeSet<&'a str>,
    /// Whether memory in huge pages need not come in whole pages, since it did not before.
    pub part_pages: bool,
}

/// What was found in a list of amounts.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    compute: bool,
    huge_pages: bool,
}

/// Reports what is wrong with requests and limits.
pub fn validate(resources: &At<'_>, rules: &Rules<'_>) {
    let limits = resources.at("limits");
    let limited = validate_limits(&limits, rules);
    let mut asked = Seen::default();
    for (name, amount) in resources.at("requests").entries() {
        validate_one(name, &amount, rules.whose);
        validate_pair(name, &amount, &limits.key(name), resources);
        asked.add(name, &amount, rules);
    }
    if !limited.compute && !asked.compute && (limited.huge_pages || asked.huge_pages) {
        resources.forbidden("HugePages require cpu or memory");
    }
    validate_claims(&resources.at("claims"), rules.claims);
}

/// Reports what is wrong with what a pod costs besides its containers, as if these were limits at this place.
pub fn validate_overhead(amounts: &At<'_>, place: &Errors) {
    let rules = Rules {
        whose: Whose::Container,
        claims: &BTreeSet::new(),
        part_pages: false,
    };
    let seen = validate_limits(&amounts.reported_at(place.at("limits")), &rules);
    if !seen.compute && seen.huge_pages {
        place.forbidden("HugePages require cpu or memory");
    }
}

fn validate_limits(limits: &At<'_>, rules: &Rules<'_>) -> Seen {
    let mut seen = Seen::default();
    for (name, amount) in limits.entries() {
        validate_one(name, &amount, rules.whose);
        seen.add(name, &amount, rules);
    }
    seen
}

fn validate_pair(name: &str, request: &At<'_>, limit: &At<'_>, resources: &At<'_>) {
    let requests = resources.at("requests");
    let (wanted, most) = (request.quantity(), limit.quantity());
    match (overcommits(name), limit.is_set()) {
        (false, true) if wanted != most => requests.invalid_as(
            request.str(),
            &format!("must be equal to {name} limit of {}", limit.str()),
        ),
        (true, true) if wanted > most => requests.invalid_as(
            request.str(),
            &format!("must be less than or equal to {name} limit of {}", limit.str()),
        ),
        (false, false) => resources
            .at("limits")
            .required("Limit must be set for non overcommitable resources"),
        _ => {}
    }
}

fn validate_one(name: &str, amount: &At<'_>, whose: Whose) {
    match whose {
        Whose::Container => validate_container_name(name, amount),
        Whose::Pod => validate_pod_name(name, amount),
    }
    validate_amount(name, amount);
}

/// Reports an amount below zero, or a part of what only comes whole.
pub fn validate_amount(name: &str, amount: &At<'_>) {
    let quantity = amount.quantity().unwrap_or_default();
    if quantity.is_negative() {
        amount.invalid("must be greater than or equal to 0");
    }
    if (COUNTED.contains(&name) || is_extended(name)) && quantity.milli_value() % 1000 != 0 {
        amount.invalid("must be an integer");
    }
}

/// Reports a name that no resource has. Whether it is fine.
pub fn validate_name(text: &str, amount: &At<'_>) -> bool {
    let complaints = name::qualified(text);
    let formed = complaints.is_empty();
    name::report(text, complaints, amount.errors());
    let known = !formed || text.contains('/') || is_standard(text);
    if !known {
        amount.invalid_as(text, "must be a standard resource type or fully qualified");
    }
    formed && known
}

/// Reports a name that no resource of a container has.
pub fn validate_container_name(text: &str, amount: &At<'_>) {
    validate_name(text, amount);
    if !text.contains('/') {
        if !OF_CONTAINERS.contains(&text) && !text.starts_with(HUGE_PAGES) {
            amount.invalid_as(text, "must be a standard resource for containers");
        }
    } else if !is_native(text) && !is_extended(text) {
        amount.invalid_as(text, "doesn't follow extended resource name standard");
    }
}

fn validate_pod_name(text: &str, amount: &At<'_>) {
    if validate_name(text, amount) && !is_of_pods(text) {
        amount
            .errors()
            .not_supported(text, &["cpu", HUGE_PAGES, "memory"]);
    }
}

/// Reports claims that the pod does not have, or that are named twice.
fn validate_claims(claims: &At<'_>, known: &BTreeSet<&str>) {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for claim in claims.items() {
        let (name, request) = (claim.at("name").str(), claim.at("request"));
        if name.is_empty() {
            claim.required("");
            continue;
        }
        if names.contains(name) {
            claim.errors().duplicate(name);
        } else {
            validate_request(&claim, name, &request, &mut names);
        }
        if !known.contains(name) {
            let which = match known.is_empty() {
                true => " which is empty".to_owned(),
                false => format!(": {}", known.iter().copied().collect::<Vec<_>>().join(", ")),
            };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{which}");
            claim.errors().not_found_because(name, &detail);
        }
    }
}

/// A claim is used whole or by single requests, each once.
fn validate_request(claim: &At<'_>, name: &str, request: &At<'_>, names: &mut BTreeSet<String>) {
    let mut key = name.to_owned();
    if !request.is_empty() {
        name::check(request, name::label);
        key = format!("{name}/{}", request.str());
    }
    if names.contains(&key) {
        claim.errors().duplicate(key.as_str());
    } else if request.is_empty() {
        let parts = names.iter().filter_map(|other| other.split_once('/'));
        for _ in parts.filter(|(of, _)| *of == name) {
            claim.errors().duplicate(name);
        }
    }
    names.insert(key);
}

impl Seen {
    fn add(&mut self, name: &str, amount: &At<'_>, rules: &Rules<'_>) {
        self.compute |= matches!(name, "cpu" | "memory");
        if name.starts_with(HUGE_PAGES) {
            self.huge_pages = true;
            if !rules.part_pages {
                validate_pages(name, amount);
            }
        }
    }
}

/// Reports memory in huge pages that does not come in whole pages.
pub fn validate_pages(name: &str, amount: &At<'_>) {
    let Some(size) = name.strip_prefix(HUGE_PAGES) else {
        return;
    };
    if !comes_in(size, amount.quantity().unwrap_or_default()) {
        amount.invalid(&format!(
            "{} is not positive integer multiple of {name}",
            amount.str()
        ));
    }
}

/// Whether an amount is whole pages of this size.
fn comes_in(size: &str, amount: Quantity) -> bool {
    let Ok(size) = size.parse::<Quantity>() else {
        return false;
    };
    let whole = size.value() > 0 && size.milli_value() % 1000 == 0;
    whole && amount.value() % size.value() == 0
}

/// Whether a pod as a whole may ask for it.
pub fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || name.starts_with(HUGE_PAGES) || name.starts_with("requests.hugepages-")
}

/// Whether the name is one of Kubernetes' own.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether somebody else than Kubernetes provides it.
pub fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && name::qualified(&format!("requests.{name}")).is_empty()
}

/// Whether more of it may be promised than there is.
pub fn overcommits(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}
