//! Validation of a pod's status.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_schema::Tree;

use super::ALWAYS;
use crate::field::FieldRef;
use crate::shared::{ip, name};

const SYSTEM_CONDITIONS: &[&str] = &["PodScheduled", "Ready", "Initialized"];
const LISTS: [&str; 3] = [
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
];
const HEALTH: &[&str] = &["Healthy", "Unhealthy", "Unknown"];
const MESSAGE_BYTES: usize = 1024;
const CLAIM: &str = "claim:";

/// Keeps every `observedGeneration` that the new status omits.
pub(super) fn keep_observed(status: &mut Tree, old: Option<&Tree>) {
    let Some(old) = old else { return };
    if let Some(generation) = old.get("observedGeneration") {
        status.set_default("observedGeneration", generation.clone());
    }
    let mut before: BTreeMap<&str, Vec<&Tree>> = BTreeMap::new();
    for condition in old.items("conditions").iter().rev() {
        let kind = condition.str_at(&["type"]).unwrap_or_default();
        let generation = condition.get("observedGeneration").unwrap_or(&Tree::Null);
        before.entry(kind).or_default().push(generation);
    }
    for condition in status.items_mut("conditions") {
        let kind = condition.str_at(&["type"]).unwrap_or_default();
        let generation = before.get_mut(kind).and_then(Vec::pop);
        if let Some(generation) = generation.filter(|generation| !generation.is_null()) {
            condition.set_default("observedGeneration", generation.clone());
        }
    }
}

/// Validates a status update.
pub(super) fn validate(pod: &FieldRef<'_>, old: &FieldRef<'_>) {
    let (status, before) = (pod.at("status"), old.at("status"));
    validate_conditions(&status.at("conditions"));
    if pod.at("spec").at("nodeName").str() != old.at("spec").at("nodeName").str() {
        status
            .errors()
            .at("nodeName")
            .forbidden("may not be changed directly");
    }
    validate_nominated(&status.at("nominatedNodeName"), &before, old);
    if status.at("observedGeneration").int() < 0 {
        status
            .at("observedGeneration")
            .invalid("must be a non-negative integer");
    }
    status.at("qosClass").immutable(&before.at("qosClass"));
    for list in LISTS {
        validate_states(&status.at(list), &before.at(list), &old.at("spec"), list);
    }
    validate_claims(pod);
    validate_addresses(&status, &before);
    for list in LISTS {
        let windows = pod.at("spec").at("os").at("name").str() == "windows";
        status
            .at(list)
            .items()
            .for_each(|container_status| validate_user(&container_status, windows));
    }
    validate_allocated(pod);
}

fn validate_conditions(conditions: &FieldRef<'_>) {
    for condition in conditions.items() {
        let (kind, generation) = (condition.at("type"), condition.at("observedGeneration"));
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
    if nominated.is_empty() || nominated.str() == before.at("nominatedNodeName").str() {
        return;
    }
    name::check(nominated, name::check_dns1123_subdomain);
    if !old.at("spec").at("nodeName").is_empty() {
        nominated.forbidden("may not be set on pods that are already bound to a node");
    }
}

/// A terminated container starts again only if its restart policy allows it.
fn validate_states(statuses: &FieldRef<'_>, old: &FieldRef<'_>, spec: &FieldRef<'_>, list: &str) {
    let containers = match list {
        "containerStatuses" => Some(spec.at("containers")),
        "initContainerStatuses" => Some(spec.at("initContainers")),
        _ => None,
    };
    if containers.is_some() && may_all_restart(spec) {
        return;
    }
    for (at, before) in old.items().enumerate() {
        let (name, end) = (before.at("name").str(), before.at("state").at("terminated"));
        if !end.is_set() {
            continue;
        }
        let mut now = statuses.items().filter(|now| now.at("name").str() == name);
        let runs = now
            .next()
            .is_some_and(|now| !now.at("state").at("terminated").is_set());
        let mut same = containers.iter().flat_map(FieldRef::items);
        let container = same.find(|container| container.at("name").str() == name);
        let may = container.is_some_and(|container| may_restart(&container, spec, end.at("exitCode").int()));
        if runs && !may {
            let field = statuses.errors().index(at).at("state");
            field.forbidden("may not be transitioned to non-terminated state");
        }
    }
}

/// Whether a container's restart rule may restart all containers.
fn may_all_restart(spec: &FieldRef<'_>) -> bool {
    let lists = ["containers", "initContainers"].map(|list| spec.at(list));
    let containers = lists.iter().flat_map(FieldRef::items);
    let mut rules = containers.flat_map(|container| container.at("restartPolicyRules").items());
    rules.any(|rule| rule.at("action").str() == "RestartAllContainers")
}

fn may_restart(container: &FieldRef<'_>, spec: &FieldRef<'_>, code: i64) -> bool {
    let restart_policy = container.at("restartPolicy");
    let matches = |rule: &FieldRef<'_>| {
        let codes = rule.at("exitCodes");
        let found = codes
            .at("values")
            .list()
            .iter()
            .any(|value| value.as_i64() == Some(code));
        match codes.at("operator").str() {
            "In" => found,
            "NotIn" => !found,
            _ => false,
        }
    };
    if restart_policy.is_set()
        && container
            .at("restartPolicyRules")
            .items()
            .any(|rule| matches(&rule))
    {
        return true;
    }
    let policy = if restart_policy.is_set() {
        restart_policy.str()
    } else {
        spec.at("restartPolicy").str()
    };
    match policy {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => policy == ALWAYS || policy.is_empty(),
    }
}

fn validate_claims(pod: &FieldRef<'_>) {
    let (spec, status) = (pod.at("spec"), pod.at("status"));
    let claims = spec.at("resourceClaims");
    let mut seen = BTreeSet::new();
    for claim_status in status.at("resourceClaimStatuses").items() {
        let (named, object) = (claim_status.at("name"), claim_status.at("resourceClaimName"));
        if !claims.items().any(|claim| claim.at("name").str() == named.str()) {
            named.invalid("must match the name of an entry in `spec.resourceClaims`");
        }
        if !seen.insert(named.str()) {
            named.duplicate();
        }
        if object.is_set() {
            name::check(&object, name::check_dns1123_subdomain);
        }
    }
    let extended = status.at("extendedResourceClaimStatus");
    if extended.is_set() {
        validate_extended(&extended, &spec);
    }
}

fn validate_extended(status: &FieldRef<'_>, spec: &FieldRef<'_>) {
    let mappings = status.at("requestMappings");
    if mappings.is_empty() {
        mappings.required("at least one request mapping is required");
    }
    let mut seen = BTreeSet::new();
    for mapping in mappings.items() {
        let fields = ["containerName", "resourceName", "requestName"].map(|field| mapping.at(field));
        let [container, resource, request] = &fields;
        match find_container(spec, container.str()) {
            None => container
                .invalid("must match the name of an entry in spec.initContainers.name or spec.containers.name"),
            Some(matched) if !matched.at("resources").at("requests").key(resource.str()).is_set() => resource.invalid(
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests",
            ),
            Some(_) => {}
        }
        name::report(
            request.str(),
            name::check_dns1123_label(request.str()),
            &status.errors().at("requestName"),
        );
        if !seen.insert(fields.clone().map(|field| field.str().to_owned())) {
            fields.iter().for_each(FieldRef::duplicate);
        }
    }
    if status.at("resourceClaimName").require() {
        name::check(&status.at("resourceClaimName"), name::check_dns1123_subdomain);
    }
}

fn find_container<'a>(spec: &FieldRef<'a>, name: &str) -> Option<FieldRef<'a>> {
    let lists = ["containers", "initContainers"].map(|list| spec.at(list));
    let mut containers = lists.iter().flat_map(FieldRef::items);
    containers.find(|container| container.at("name").str() == name)
}

/// `podIPs` has at most one address of each family, and `podIP` is the first of them.
fn validate_addresses(status: &FieldRef<'_>, before: &FieldRef<'_>) {
    let (one, several) = (status.at("podIP"), status.at("podIPs"));
    validate_list(&several, &before.at("podIPs"));
    let first = several.items().next();
    match first {
        None if one.is_empty() => {}
        Some(first) if !one.is_empty() => {
            if first.at("ip").str() != one.str() {
                first.at("ip").invalid("must be equal to `podIP`");
            }
        }
        _ => several.invalid("podIP and podIPs must either both be set or both be unset"),
    }
    let (one, several) = (status.at("hostIP"), status.at("hostIPs"));
    if let Some(first) = several.items().next()
        && first.at("ip").str() != one.str()
    {
        first.at("ip").invalid("must be equal to `hostIP`");
    }
    validate_list(&several, &before.at("hostIPs"));
}

fn validate_list(addresses: &FieldRef<'_>, old: &FieldRef<'_>) {
    let known: BTreeSet<&str> = old.items().map(|address| address.at("ip").str()).collect();
    for address in addresses.items() {
        let text = address.at("ip").str();
        if !known.contains(text) {
            ip::check(text, address.errors());
        }
    }
    let texts = addresses.items().map(|address| address.at("ip").str());
    if addresses.len() > 1 && !ip::is_one_of_each(texts) {
        addresses.invalid("may specify no more than one IP for each IP family");
    }
}

fn validate_user(container_status: &FieldRef<'_>, windows: bool) {
    let user = container_status.at("user").at("linux");
    if !user.is_set() {
        return;
    }
    if windows {
        return user.forbidden("cannot be set for a windows pod");
    }
    user.at("uid").in_range(0, u32::MAX.into());
    user.at("gid").in_range(0, i32::MAX.into());
    for group in user.at("supplementalGroups").items() {
        group.in_range(0, i32::MAX.into());
    }
}

fn validate_allocated(pod: &FieldRef<'_>) {
    for list in LISTS {
        for container_status in pod.at("status").at(list).items() {
            let allocated = container_status.at("allocatedResourcesStatus");
            if list == "ephemeralContainerStatuses" {
                if !allocated.is_empty() {
                    allocated.forbidden("must not be specified in container status");
                }
                continue;
            }
            let container = find_container(&pod.at("spec"), container_status.at("name").str());
            for resource in allocated.items() {
                if let Some(container) = &container {
                    validate_allocated_name(&resource.at("name"), container, pod);
                }
                validate_health(&resource.at("resources"));
            }
        }
    }
}

fn validate_allocated_name(resource_name: &FieldRef<'_>, container: &FieldRef<'_>, pod: &FieldRef<'_>) {
    let Some(claim) = resource_name.str().strip_prefix(CLAIM) else {
        if !container
            .at("resources")
            .at("requests")
            .key(resource_name.str())
            .is_set()
        {
            resource_name.invalid("must match one of the container's resource requests");
        }
        return;
    };
    let claims = container.at("resources").at("claims");
    let mut names = claims.items().map(|claim| match claim.at("request").str() {
        "" => claim.at("name").str().to_owned(),
        request => format!("{}/{request}", claim.at("name").str()),
    });
    let extended = pod.at("status").at("extendedResourceClaimStatus");
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
    let requests = container.at("resources").at("requests");
    let mut mappings = status.at("requestMappings").items();
    object == status.at("resourceClaimName").str()
        && mappings.any(|mapping| {
            let amount = requests.key(mapping.at("resourceName").str()).quantity();
            mapping.at("containerName").str() == container.at("name").str()
                && mapping.at("requestName").str() == request
                && amount.is_some_and(|amount| !amount.is_zero())
        })
}

fn validate_health(resources: &FieldRef<'_>) {
    let mut seen = BTreeSet::new();
    for resource in resources.items() {
        let (health, message, id) = (
            resource.at("health"),
            resource.at("message"),
            resource.at("resourceID"),
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
