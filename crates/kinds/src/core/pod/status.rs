//! Validation of a pod's status.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, ip, name};

use super::ALWAYS;

const SYSTEM_CONDITIONS: &[&str] = &["PodScheduled", "Ready", "Initialized"];
const LISTS: [&str; 3] = [
    fields::CONTAINER_STATUSES,
    fields::INIT_CONTAINER_STATUSES,
    fields::EPHEMERAL_CONTAINER_STATUSES,
];
const HEALTH: &[&str] = &["Healthy", "Unhealthy", "Unknown"];
const MESSAGE_BYTES: usize = 1024;
const CLAIM: &str = "claim:";

/// Keeps every `observedGeneration` that the new status omits.
pub(super) fn keep_observed(status: &mut Tree, old: Option<&Tree>) {
    let Some(old) = old else { return };
    if let Some(generation) = old.get(fields::OBSERVED_GENERATION) {
        status.set_default(fields::OBSERVED_GENERATION, generation.clone());
    }
    let mut before: BTreeMap<&str, Vec<&Tree>> = BTreeMap::new();
    for condition in old.items(fields::CONDITIONS).iter().rev() {
        let kind = condition.str_at(&[fields::TYPE]).unwrap_or_default();
        let generation = condition.get(fields::OBSERVED_GENERATION).unwrap_or(&Tree::Null);
        before.entry(kind).or_default().push(generation);
    }
    for condition in status.items_mut(fields::CONDITIONS) {
        let kind = condition.str_at(&[fields::TYPE]).unwrap_or_default();
        let generation = before.get_mut(kind).and_then(Vec::pop);
        if let Some(generation) = generation.filter(|generation| !generation.is_null()) {
            condition.set_default(fields::OBSERVED_GENERATION, generation.clone());
        }
    }
}

/// Validates a status update.
pub(super) fn validate(pod: &FieldRef<'_>, old: &FieldRef<'_>) {
    let (status, before) = (pod.at(fields::STATUS), old.at(fields::STATUS));
    validate_conditions(&status.at(fields::CONDITIONS));
    if pod.at(fields::SPEC).at(fields::NODE_NAME).str() != old.at(fields::SPEC).at(fields::NODE_NAME).str() {
        status
            .errors()
            .at(fields::NODE_NAME)
            .forbidden("may not be changed directly");
    }
    validate_nominated(&status.at(fields::NOMINATED_NODE_NAME), &before, old);
    if status.at(fields::OBSERVED_GENERATION).int() < 0 {
        status
            .at(fields::OBSERVED_GENERATION)
            .invalid("must be a non-negative integer");
    }
    status
        .at(fields::QOS_CLASS)
        .immutable(&before.at(fields::QOS_CLASS));
    for list in LISTS {
        validate_states(&status.at(list), &before.at(list), &old.at(fields::SPEC), list);
    }
    validate_claims(pod);
    validate_addresses(&status, &before);
    for list in LISTS {
        let windows = pod.at(fields::SPEC).at(fields::OS).at(fields::NAME).str() == "windows";
        status
            .at(list)
            .items()
            .for_each(|container_status| validate_user(&container_status, windows));
    }
    validate_allocated(pod);
}

fn validate_conditions(conditions: &FieldRef<'_>) {
    for condition in conditions.items() {
        let (kind, generation) = (
            condition.at(fields::TYPE),
            condition.at(fields::OBSERVED_GENERATION),
        );
        if generation.int() < 0 {
            generation.invalid("must be a non-negative integer");
        }
        if !SYSTEM_CONDITIONS.contains(&kind.str()) {
            let field = condition.errors().at("Type");
            name::report(kind.str(), name::check_qualified_name(kind.str()), &field);
        }
    }
}

fn validate_nominated(nominated: &FieldRef<'_>, before: &FieldRef<'_>, old: &FieldRef<'_>) {
    if nominated.is_empty() || nominated.str() == before.at(fields::NOMINATED_NODE_NAME).str() {
        return;
    }
    name::check(nominated, name::check_dns1123_subdomain);
    if !old.at(fields::SPEC).at(fields::NODE_NAME).is_empty() {
        nominated.forbidden("may not be set on pods that are already bound to a node");
    }
}

/// A terminated container starts again only if its restart policy allows it.
fn validate_states(statuses: &FieldRef<'_>, old: &FieldRef<'_>, spec: &FieldRef<'_>, list: &str) {
    let containers = match list {
        fields::CONTAINER_STATUSES => Some(spec.at(fields::CONTAINERS)),
        fields::INIT_CONTAINER_STATUSES => Some(spec.at(fields::INIT_CONTAINERS)),
        _ => None,
    };
    if containers.is_some() && may_all_restart(spec) {
        return;
    }
    for (at, before) in old.items().enumerate() {
        let (name, end) = (
            before.at(fields::NAME).str(),
            before.at(fields::STATE).at(fields::TERMINATED),
        );
        if !end.is_set() {
            continue;
        }
        let mut now = statuses.items().filter(|now| now.at(fields::NAME).str() == name);
        let runs = now
            .next()
            .is_some_and(|now| !now.at(fields::STATE).at(fields::TERMINATED).is_set());
        let mut same = containers.iter().flat_map(FieldRef::items);
        let container = same.find(|container| container.at(fields::NAME).str() == name);
        let may =
            container.is_some_and(|container| may_restart(&container, spec, end.at(fields::EXIT_CODE).int()));
        if runs && !may {
            let field = statuses.errors().index(at).at(fields::STATE);
            field.forbidden("may not be transitioned to non-terminated state");
        }
    }
}

/// Whether a container's restart rule may restart all containers.
fn may_all_restart(spec: &FieldRef<'_>) -> bool {
    let lists = [fields::CONTAINERS, fields::INIT_CONTAINERS].map(|list| spec.at(list));
    let containers = lists.iter().flat_map(FieldRef::items);
    let mut rules = containers.flat_map(|container| container.at(fields::RESTART_POLICY_RULES).items());
    rules.any(|rule| rule.at(fields::ACTION).str() == "RestartAllContainers")
}

fn may_restart(container: &FieldRef<'_>, spec: &FieldRef<'_>, code: i64) -> bool {
    let restart_policy = container.at(fields::RESTART_POLICY);
    let matches = |rule: &FieldRef<'_>| {
        let codes = rule.at(fields::EXIT_CODES);
        let found = codes
            .at(fields::VALUES)
            .list()
            .iter()
            .any(|value| value.as_i64() == Some(code));
        match codes.at(fields::OPERATOR).str() {
            "In" => found,
            "NotIn" => !found,
            _ => false,
        }
    };
    if restart_policy.is_set()
        && container
            .at(fields::RESTART_POLICY_RULES)
            .items()
            .any(|rule| matches(&rule))
    {
        return true;
    }
    let policy = if restart_policy.is_set() {
        restart_policy.str()
    } else {
        spec.at(fields::RESTART_POLICY).str()
    };
    match policy {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => policy == ALWAYS || policy.is_empty(),
    }
}

fn validate_claims(pod: &FieldRef<'_>) {
    let (spec, status) = (pod.at(fields::SPEC), pod.at(fields::STATUS));
    let claims = spec.at(fields::RESOURCE_CLAIMS).items();
    let claims: BTreeSet<&str> = claims.map(|claim| claim.at(fields::NAME).str()).collect();
    let mut seen = BTreeSet::new();
    for claim_status in status.at(fields::RESOURCE_CLAIM_STATUSES).items() {
        let (named, object) = (
            claim_status.at(fields::NAME),
            claim_status.at(fields::RESOURCE_CLAIM_NAME),
        );
        if !claims.contains(named.str()) {
            named.invalid("must match the name of an entry in `spec.resourceClaims`");
        }
        if !seen.insert(named.str()) {
            named.duplicate();
        }
        if object.is_set() {
            name::check(&object, name::check_dns1123_subdomain);
        }
    }
    let extended = status.at(fields::EXTENDED_RESOURCE_CLAIM_STATUS);
    if extended.is_set() {
        validate_extended(&extended, &spec);
    }
}

fn validate_extended(status: &FieldRef<'_>, spec: &FieldRef<'_>) {
    let mappings = status.at(fields::REQUEST_MAPPINGS);
    if mappings.is_empty() {
        mappings.required("at least one request mapping is required");
    }
    let mut seen = BTreeSet::new();
    for mapping in mappings.items() {
        let fields = [
            fields::CONTAINER_NAME,
            fields::RESOURCE_NAME,
            fields::REQUEST_NAME,
        ]
        .map(|field| mapping.at(field));
        let [container, resource, request] = &fields;
        match find_container(spec, container.str()) {
            None => container
                .invalid("must match the name of an entry in spec.initContainers.name or spec.containers.name"),
            Some(matched) if !matched.at(fields::RESOURCES).at(fields::REQUESTS).key(resource.str()).is_set() => resource.invalid(
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests",
            ),
            Some(_) => {}
        }
        name::report(
            request.str(),
            name::check_dns1123_label(request.str()),
            &status.errors().at(fields::REQUEST_NAME),
        );
        if !seen.insert(fields.clone().map(|field| field.str().to_owned())) {
            fields.iter().for_each(FieldRef::duplicate);
        }
    }
    if status.at(fields::RESOURCE_CLAIM_NAME).require() {
        name::check(
            &status.at(fields::RESOURCE_CLAIM_NAME),
            name::check_dns1123_subdomain,
        );
    }
}

fn find_container<'a>(spec: &FieldRef<'a>, name: &str) -> Option<FieldRef<'a>> {
    let lists = [fields::CONTAINERS, fields::INIT_CONTAINERS].map(|list| spec.at(list));
    let mut containers = lists.iter().flat_map(FieldRef::items);
    containers.find(|container| container.at(fields::NAME).str() == name)
}

/// `podIPs` has at most one address of each family, and `podIP` is the first of them.
fn validate_addresses(status: &FieldRef<'_>, before: &FieldRef<'_>) {
    let (one, several) = (status.at(fields::POD_IP), status.at(fields::POD_IPS));
    validate_list(&several, &before.at(fields::POD_IPS));
    let first = several.items().next();
    match first {
        None if one.is_empty() => {}
        Some(first) if !one.is_empty() => {
            if first.at(fields::IP).str() != one.str() {
                first.at(fields::IP).invalid("must be equal to `podIP`");
            }
        }
        _ => several.invalid("podIP and podIPs must either both be set or both be unset"),
    }
    let (one, several) = (status.at(fields::HOST_IP), status.at(fields::HOST_IPS));
    if let Some(first) = several.items().next()
        && first.at(fields::IP).str() != one.str()
    {
        first.at(fields::IP).invalid("must be equal to `hostIP`");
    }
    validate_list(&several, &before.at(fields::HOST_IPS));
}

fn validate_list(addresses: &FieldRef<'_>, old: &FieldRef<'_>) {
    let known: BTreeSet<&str> = old.items().map(|address| address.at(fields::IP).str()).collect();
    for address in addresses.items() {
        let text = address.at(fields::IP).str();
        if !known.contains(text) {
            ip::check(text, address.errors());
        }
    }
    let texts = addresses.items().map(|address| address.at(fields::IP).str());
    if addresses.len() > 1 && !ip::is_one_of_each(texts) {
        addresses.invalid("may specify no more than one IP for each IP family");
    }
}

fn validate_user(container_status: &FieldRef<'_>, windows: bool) {
    let user = container_status.at(fields::USER).at(fields::LINUX);
    if !user.is_set() {
        return;
    }
    if windows {
        return user.forbidden("cannot be set for a windows pod");
    }
    user.at(fields::UID).in_range(0, u32::MAX.into());
    user.at(fields::GID).in_range(0, i32::MAX.into());
    for group in user.at(fields::SUPPLEMENTAL_GROUPS).items() {
        group.in_range(0, i32::MAX.into());
    }
}

fn validate_allocated(pod: &FieldRef<'_>) {
    for list in LISTS {
        for container_status in pod.at(fields::STATUS).at(list).items() {
            let allocated = container_status.at(fields::ALLOCATED_RESOURCES_STATUS);
            if list == fields::EPHEMERAL_CONTAINER_STATUSES {
                if !allocated.is_empty() {
                    allocated.forbidden("must not be specified in container status");
                }
                continue;
            }
            let container = find_container(&pod.at(fields::SPEC), container_status.at(fields::NAME).str());
            for resource in allocated.items() {
                if let Some(container) = &container {
                    validate_allocated_name(&resource.at(fields::NAME), container, pod);
                }
                validate_health(&resource.at(fields::RESOURCES));
            }
        }
    }
}

fn validate_allocated_name(resource_name: &FieldRef<'_>, container: &FieldRef<'_>, pod: &FieldRef<'_>) {
    let Some(claim) = resource_name.str().strip_prefix(CLAIM) else {
        if !container
            .at(fields::RESOURCES)
            .at(fields::REQUESTS)
            .key(resource_name.str())
            .is_set()
        {
            resource_name.invalid("must match one of the container's resource requests");
        }
        return;
    };
    let claims = container.at(fields::RESOURCES).at(fields::CLAIMS);
    let mut names = claims.items().map(|claim| match claim.at(fields::REQUEST).str() {
        "" => claim.at(fields::NAME).str().to_owned(),
        request => format!("{}/{request}", claim.at(fields::NAME).str()),
    });
    let extended = pod.at(fields::STATUS).at(fields::EXTENDED_RESOURCE_CLAIM_STATUS);
    if !names.any(|name| name == claim) && !is_extended(claim, container, &extended) {
        resource_name.invalid(
            "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty",
        );
    }
}

/// Whether a claim provides extended resources that the container requests by name.
fn is_extended(claim: &str, container: &FieldRef<'_>, status: &FieldRef<'_>) -> bool {
    let Some((object, request)) = claim.split_once('/') else {
        return false;
    };
    let requests = container.at(fields::RESOURCES).at(fields::REQUESTS);
    let mut mappings = status.at(fields::REQUEST_MAPPINGS).items();
    object == status.at(fields::RESOURCE_CLAIM_NAME).str()
        && mappings.any(|mapping| {
            let amount = requests.key(mapping.at(fields::RESOURCE_NAME).str()).quantity();
            mapping.at(fields::CONTAINER_NAME).str() == container.at(fields::NAME).str()
                && mapping.at(fields::REQUEST_NAME).str() == request
                && amount.is_some_and(|amount| !amount.is_zero())
        })
}

fn validate_health(resources: &FieldRef<'_>) {
    let mut seen = BTreeSet::new();
    for resource in resources.items() {
        let (health, message, id) = (
            resource.at(fields::HEALTH),
            resource.at(fields::MESSAGE),
            resource.at(fields::RESOURCE_ID),
        );
        if !HEALTH.contains(&health.str()) {
            health.not_supported(HEALTH);
        }
        match message.find_str().map(str::len) {
            Some(0) => message.required("must be non-empty if specified"),
            Some(bytes) if bytes > MESSAGE_BYTES => message.too_long(MESSAGE_BYTES),
            _ => {}
        }
        if !seen.insert(id.str()) {
            id.duplicate();
        }
    }
}
