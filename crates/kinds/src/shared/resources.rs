//! Resource quantities: requests, limits, capacity.

use std::collections::BTreeSet;

use setpoint_api::Quantity;
use setpoint_api::field::Errors;
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::{FieldRef, name};

/// Prefix of huge page resources; the page size follows.
pub const HUGE_PAGES: &str = "hugepages-";
/// Resources without a domain that a container may request.
const CONTAINER_RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage"];
/// Resources that are integers, besides those with a domain.
const INTEGER_RESOURCES: &[&str] = &[
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
/// All known resource names without a domain.
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

/// A missing request defaults to the limit.
pub fn default_requests(resources: &mut Tree) {
    let Some(Tree::Map(limits)) = resources.get(fields::LIMITS).cloned() else {
        return;
    };
    let requests = resources.child(fields::REQUESTS);
    for (name, limit) in limits.iter() {
        requests.set_default(name, limit.clone());
    }
    sort(requests.map_or_default());
}

/// Sorts the keys again after one was added.
pub fn sort(map: &mut Map) {
    map.pairs_mut().sort_by(|(left, _), (right, _)| left.cmp(right));
}

/// Reports negative quantities.
pub fn validate_amounts(amounts: &FieldRef<'_>) {
    for (name, amount) in amounts.entries() {
        if amount.quantity().is_some_and(|amount| amount.is_negative()) {
            let errors = amounts.errors().at(name);
            errors.invalid(amount.str(), "must be greater than or equal to 0");
        }
    }
}

/// The owner of a resource list, which decides which names are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceOwner {
    Container,
    Pod,
}

/// The inputs of validating requests and limits besides them.
#[derive(Debug, Clone, Copy)]
pub struct ValidationContext<'a> {
    pub owner: ResourceOwner,
    /// The names of the pod's resource claims.
    pub claims: &'a BTreeSet<&'a str>,
    /// Whether huge pages need not be a multiple of the page size, since the old object's are not.
    pub partial_huge_pages: bool,
}

/// Which resource types a list contains.
#[derive(Debug, Clone, Copy, Default)]
struct ListSummary {
    compute: bool,
    huge_pages: bool,
}

/// Validates requests, limits and claims.
pub fn validate(resources: &FieldRef<'_>, rules: &ValidationContext<'_>) {
    let limits = resources.at(fields::LIMITS);
    let limited = validate_limits(&limits, rules);
    let mut requested = ListSummary::default();
    for (name, amount) in resources.at(fields::REQUESTS).entries() {
        validate_one(name, &amount, rules.owner);
        validate_pair(name, &amount, &limits.key(name), resources);
        requested.add(name, &amount, rules);
    }
    if !limited.compute && !requested.compute && (limited.huge_pages || requested.huge_pages) {
        resources.forbidden("HugePages require cpu or memory");
    }
    validate_claims(&resources.at(fields::CLAIMS), rules.claims);
}

/// Validates a pod's overhead as if it were limits at this field path.
pub fn validate_overhead(amounts: &FieldRef<'_>, field: &Errors) {
    let rules = ValidationContext {
        owner: ResourceOwner::Container,
        claims: &BTreeSet::new(),
        partial_huge_pages: false,
    };
    let summary = validate_limits(&amounts.with_errors(field.at(fields::LIMITS)), &rules);
    if !summary.compute && summary.huge_pages {
        field.forbidden("HugePages require cpu or memory");
    }
}

fn validate_limits(limits: &FieldRef<'_>, rules: &ValidationContext<'_>) -> ListSummary {
    let mut summary = ListSummary::default();
    for (name, amount) in limits.entries() {
        validate_one(name, &amount, rules.owner);
        summary.add(name, &amount, rules);
    }
    summary
}

fn validate_pair(name: &str, request: &FieldRef<'_>, limit: &FieldRef<'_>, resources: &FieldRef<'_>) {
    let requests = resources.at(fields::REQUESTS);
    let (requested, max) = (request.quantity(), limit.quantity());
    match (overcommits(name), limit.is_set()) {
        (false, true) if requested != max => requests.invalid_as(
            request.str(),
            &format!("must be equal to {name} limit of {}", limit.str()),
        ),
        (true, true) if requested > max => requests.invalid_as(
            request.str(),
            &format!("must be less than or equal to {name} limit of {}", limit.str()),
        ),
        (false, false) => resources
            .at(fields::LIMITS)
            .required("Limit must be set for non overcommitable resources"),
        _ => {}
    }
}

fn validate_one(name: &str, amount: &FieldRef<'_>, whose: ResourceOwner) {
    match whose {
        ResourceOwner::Container => validate_container_name(name, amount),
        ResourceOwner::Pod => validate_pod_name(name, amount),
    }
    validate_amount(name, amount);
}

/// Reports a negative quantity, or a fraction of an integer resource.
pub fn validate_amount(name: &str, amount: &FieldRef<'_>) {
    let quantity = amount.quantity().unwrap_or_default();
    if quantity.is_negative() {
        amount.invalid("must be greater than or equal to 0");
    }
    if (INTEGER_RESOURCES.contains(&name) || is_extended(name)) && quantity.milli_value() % 1000 != 0 {
        amount.invalid("must be an integer");
    }
}

/// Reports an invalid resource name. Returns whether it is valid.
pub fn validate_name(text: &str, amount: &FieldRef<'_>) -> bool {
    let violations = name::check_qualified_name(text);
    let formed = violations.is_empty();
    name::report(text, violations, amount.errors());
    let known = !formed || text.contains('/') || is_standard(text);
    if !known {
        amount.invalid_as(text, "must be a standard resource type or fully qualified");
    }
    formed && known
}

/// Reports a name that is not a container resource.
pub fn validate_container_name(text: &str, amount: &FieldRef<'_>) {
    validate_name(text, amount);
    if !text.contains('/') {
        if !CONTAINER_RESOURCES.contains(&text) && !text.starts_with(HUGE_PAGES) {
            amount.invalid_as(text, "must be a standard resource for containers");
        }
    } else if !is_native(text) && !is_extended(text) {
        amount.invalid_as(text, "doesn't follow extended resource name standard");
    }
}

fn validate_pod_name(text: &str, amount: &FieldRef<'_>) {
    if validate_name(text, amount) && !is_pod_level(text) {
        amount
            .errors()
            .not_supported(text, &["cpu", HUGE_PAGES, "memory"]);
    }
}

/// Reports claims that the pod does not have, and duplicates.
fn validate_claims(claims: &FieldRef<'_>, known: &BTreeSet<&str>) {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for claim in claims.items() {
        let (name, request) = (claim.at(fields::NAME).str(), claim.at(fields::REQUEST));
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
            claim.errors().not_found_with_detail(name, &detail);
        }
    }
}

/// A claim is referenced as a whole or by single requests, each once.
fn validate_request(claim: &FieldRef<'_>, name: &str, request: &FieldRef<'_>, names: &mut BTreeSet<String>) {
    let mut key = name.to_owned();
    if !request.is_empty() {
        name::check(request, name::check_dns1123_label);
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

impl ListSummary {
    fn add(&mut self, name: &str, amount: &FieldRef<'_>, rules: &ValidationContext<'_>) {
        self.compute |= matches!(name, "cpu" | "memory");
        if name.starts_with(HUGE_PAGES) {
            self.huge_pages = true;
            if !rules.partial_huge_pages {
                validate_pages(name, amount);
            }
        }
    }
}

/// Reports huge pages that are not a multiple of the page size.
pub fn validate_pages(name: &str, amount: &FieldRef<'_>) {
    let Some(size) = name.strip_prefix(HUGE_PAGES) else {
        return;
    };
    if !is_multiple_of_page(size, amount.quantity().unwrap_or_default()) {
        amount.invalid(&format!(
            "{} is not positive integer multiple of {name}",
            amount.str()
        ));
    }
}

/// Whether a quantity is a multiple of this page size.
fn is_multiple_of_page(size: &str, amount: Quantity) -> bool {
    let Ok(size) = size.parse::<Quantity>() else {
        return false;
    };
    let whole = size.value() > 0 && size.milli_value() % 1000 == 0;
    whole && amount.value() % size.value() == 0
}

/// Whether pod-level resources may include it.
pub fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || name.starts_with(HUGE_PAGES) || name.starts_with("requests.hugepages-")
}

/// Whether it is a native resource: without a domain, or in `kubernetes.io`.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether it is an extended resource.
pub fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && name::check_qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether it may be overcommitted.
pub fn overcommits(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}
