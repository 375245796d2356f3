//! Service: a stable name and address for a set of pods.
//!
//! The type decides which fields apply. Admission allocates addresses and node ports by what [`allocation`] computes;
//! validation sees only the result.
//!
//! Start reading here, then [`families`] for the addresses and [`update`] for updates.

pub mod allocation;

mod columns;
mod families;
mod ports;
mod update;
mod warnings;

use std::collections::{BTreeSet, HashSet};

use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::Column;
use setpoint_strategy::{
    ConnectKind, FieldLabel, FieldRef, NameRule, Names, RequestFacts, Rules, Strategy, Subresource, ip, meta,
    name, top_level,
};

use crate::networking::ingress;

/// The cluster IP of a headless service.
pub const NO_ADDRESS: &str = "None";
const AFFINITY_SECONDS: i64 = 10_800;
const MAX_AFFINITY_SECONDS: i64 = 86_400;
const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const POLICIES: &[&str] = &["Cluster", "Local"];
const DISTRIBUTIONS: &[&str] = &["PreferClose", "PreferSameZone", "PreferSameNode"];
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
const RANGES_ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const HINTS_ANNOTATION: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_ANNOTATION: &str = "service.kubernetes.io/topology-mode";

#[derive(Debug)]
pub struct Service;

impl Strategy for Service {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "Service");
    const NAMES: Names = Names::new("services", "service")
        .short(&["svc"])
        .categories(&["all"]);
    const COLUMNS: &'static [Column] = columns::COLUMNS;
    const FIELDS: &'static [FieldLabel] = &[
        FieldLabel::new("spec.clusterIP", &[&[fields::SPEC, fields::CLUSTER_IP]]),
        FieldLabel::new("spec.type", &[&[fields::SPEC, fields::TYPE]]),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[
        Subresource::connect(ConnectKind::Proxy, ("", "v1", "ServiceProxyOptions")),
        Subresource::STATUS,
    ];
    const RULES: Rules = Rules::DEFAULT
        .name(NameRule::Label)
        .create_on_update()
        .returns_deleted()
        .error_storage_path("services/specs")
        .range_allocation("servicenodeports");

    fn default_fields(service: &mut Tree) {
        set_defaults(service.child(fields::SPEC));
        if service.str_at(&[fields::SPEC, fields::TYPE]) == Some("LoadBalancer")
            && let Some(balancer) = service.at_mut(&[fields::STATUS, fields::LOAD_BALANCER])
        {
            for point in balancer.items_mut(fields::INGRESS) {
                if point.str_at(&[fields::IP]).is_some() {
                    point.set_default(fields::IP_MODE, "VIP");
                }
            }
        }
    }

    fn prepare_create(service: &mut Tree, _facts: &RequestFacts) {
        top_level::drop(service, fields::STATUS);
        drop_internal_traffic_policy(service);
    }

    fn prepare_update(service: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(service, old, fields::STATUS);
        update::drop_what_no_longer_applies(service, old);
        drop_internal_traffic_policy(service);
    }

    fn validate(service: &FieldRef<'_>, _facts: &RequestFacts) {
        validate(service, None);
    }

    fn validate_for_update(_service: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {}

    fn validate_update(service: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        update::validate(&service.at(fields::SPEC), &old.at(fields::SPEC));
        validate(service, Some(old));
    }

    fn validate_status(service: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let (old, new) = (
            ingress::ingress_points(&old.at(fields::STATUS)),
            ingress::ingress_points(&service.at(fields::STATUS)),
        );
        if spec(service).at(fields::TYPE).str() != "LoadBalancer" && !new.is_empty() {
            return new.forbidden("may only be used when `spec.type` is 'LoadBalancer'");
        }
        let before: BTreeSet<&str> = old.items().map(|point| point.at(fields::IP).str()).collect();
        for point in new.items() {
            validate_point(&point, &before);
        }
    }

    fn warnings(service: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
        warnings::of(service)
    }
}

fn spec<'a>(service: &FieldRef<'a>) -> FieldRef<'a> {
    service.at(fields::SPEC)
}

/// Whether the service has no cluster IP.
fn is_headless(spec: &FieldRef<'_>) -> bool {
    let addresses = spec.at(fields::CLUSTER_IPS);
    addresses.len() == 1 && addresses.strs().next() == Some(NO_ADDRESS)
}

/// Whether the service is reachable from outside the cluster.
fn is_reachable(kind: &str, external_ips: bool) -> bool {
    matches!(kind, "LoadBalancer" | "NodePort") || (kind == "ClusterIP" && external_ips)
}

fn set_defaults(spec: &mut Tree) {
    spec.set_default(fields::SESSION_AFFINITY, "None");
    match spec.str_at(&[fields::SESSION_AFFINITY]) {
        Some("None") => _ = spec.take(&[fields::SESSION_AFFINITY_CONFIG]),
        Some("ClientIP") => {
            let client = spec
                .child(fields::SESSION_AFFINITY_CONFIG)
                .child(fields::CLIENT_IP);
            client.set_default(fields::TIMEOUT_SECONDS, AFFINITY_SECONDS);
        }
        _ => {}
    }
    spec.set_default(fields::TYPE, "ClusterIP");
    for port in spec.items_mut(fields::PORTS) {
        port.set_default(fields::PROTOCOL, "TCP");
        let unset = match port.get(fields::TARGET_PORT) {
            Some(Tree::Int(number)) => *number == 0,
            Some(Tree::Str(text)) => text.is_empty(),
            _ => true,
        };
        if unset {
            let port_number = port.get(fields::PORT).cloned().unwrap_or(Tree::Int(0));
            port.set(&[fields::TARGET_PORT], port_number);
        }
    }
    let kind = spec.str_at(&[fields::TYPE]).unwrap_or_default().to_owned();
    if is_reachable(&kind, !spec.items(fields::EXTERNAL_IPS).is_empty()) {
        spec.set_default(fields::EXTERNAL_TRAFFIC_POLICY, "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        spec.set_default(fields::INTERNAL_TRAFFIC_POLICY, "Cluster");
    }
    if kind == "LoadBalancer" {
        spec.set_default(fields::ALLOCATE_LOAD_BALANCER_NODE_PORTS, true);
    }
}

/// An ExternalName service has no internal traffic policy.
fn drop_internal_traffic_policy(service: &mut Tree) {
    if service.str_at(&[fields::SPEC, fields::TYPE]) == Some("ExternalName") {
        service.take(&[fields::SPEC, fields::INTERNAL_TRAFFIC_POLICY]);
    }
}

fn validate(service: &FieldRef<'_>, old: Option<&FieldRef<'_>>) {
    let spec = spec(service);
    let old_spec = old.map(|old| old.at(fields::SPEC));
    validate_topology(service);
    validate_type(&spec);
    ports::validate(&spec);
    if spec.at(fields::SELECTOR).is_set() {
        meta::validate_labels(&spec.at(fields::SELECTOR));
    }
    validate_affinity(&spec);
    families::validate(&spec, old_spec.as_ref());
    validate_external_ips(&spec, old_spec.as_ref());
    spec.at(fields::TYPE).require_one_of(TYPES);
    ports::validate_unique(&spec);
    validate_source_ranges(service, old);
    validate_balancer(&spec);
    validate_traffic(&spec);
}

fn validate_topology(service: &FieldRef<'_>) {
    let annotation = |key| meta::entry(service.value(), fields::ANNOTATIONS, key);
    if let (Some(hints), Some(mode)) = (annotation(HINTS_ANNOTATION), annotation(TOPOLOGY_ANNOTATION))
        && hints != mode
    {
        let annotations = service.at(fields::METADATA).at(fields::ANNOTATIONS);
        let field = annotations.errors().key(TOPOLOGY_ANNOTATION);
        let detail = format!("must match annotations[{HINTS_ANNOTATION}] when both are specified");
        field.invalid(mode, &detail);
    }
}

fn validate_type(spec: &FieldRef<'_>) {
    let (kind, headless) = (spec.at(fields::TYPE).str(), is_headless(spec));
    if spec.at(fields::PORTS).is_empty() && !headless && kind != "ExternalName" {
        spec.at(fields::PORTS).required("");
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let field = spec.at(fields::CLUSTER_IPS).errors().index(0);
            field.invalid(
                NO_ADDRESS,
                &format!("may not be set to 'None' for {kind} services"),
            );
        }
        "ExternalName" => validate_external_name(spec),
        _ => {}
    }
}

fn validate_external_name(spec: &FieldRef<'_>) {
    for field in [fields::CLUSTER_IPS, fields::IP_FAMILIES, fields::IP_FAMILY_POLICY] {
        if !spec.at(field).is_empty() {
            spec.at(field)
                .forbidden("may not be set for ExternalName services");
        }
    }
    let name = spec.at(fields::EXTERNAL_NAME);
    match name.str().strip_suffix('.').unwrap_or(name.str()) {
        "" => name.required(""),
        text => name::report(text, name::check_dns1123_subdomain(text), name.errors()),
    }
}

fn validate_affinity(spec: &FieldRef<'_>) {
    let (affinity, config) = (
        spec.at(fields::SESSION_AFFINITY),
        spec.at(fields::SESSION_AFFINITY_CONFIG),
    );
    affinity.require_one_of(&["ClientIP", "None"]);
    let seconds = config.at(fields::CLIENT_IP).at(fields::TIMEOUT_SECONDS);
    match affinity.str() {
        "ClientIP" if !(1..=MAX_AFFINITY_SECONDS).contains(&seconds.int()) => seconds.invalid(&format!(
            "must be greater than 0 and less than {MAX_AFFINITY_SECONDS}"
        )),
        "None" if config.is_set() => config.forbidden("must not be set when session affinity is None"),
        _ => {}
    }
}

fn validate_external_ips(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>) {
    let before: HashSet<&str> = old
        .map(|old| old.at(fields::EXTERNAL_IPS).strs().collect())
        .unwrap_or_default();
    for address in spec.at(fields::EXTERNAL_IPS).items() {
        if before.contains(address.str()) || ip::check(address.str(), address.errors()) {
            ip::check_endpoint(address.str(), address.errors());
        }
    }
}

fn validate_source_ranges(service: &FieldRef<'_>, old: Option<&FieldRef<'_>>) {
    let spec = spec(service);
    let balanced = spec.at(fields::TYPE).str() == "LoadBalancer";
    let ranges = spec.at(fields::LOAD_BALANCER_SOURCE_RANGES);
    if !ranges.is_empty() {
        let ranges = ranges.with_errors(spec.errors().at("LoadBalancerSourceRanges"));
        if !balanced {
            ranges.forbidden(ONLY_BALANCED);
        }
        let before = old.map(|old| old.at(fields::SPEC).at(fields::LOAD_BALANCER_SOURCE_RANGES));
        let before: HashSet<&str> = before
            .iter()
            .flat_map(|before| before.strs().map(str::trim))
            .collect();
        for range in ranges.items() {
            let text = range.str().trim();
            if !before.contains(text) {
                ip::check_cidr(text, range.errors());
            }
        }
        return;
    }
    let annotation = |service: &FieldRef<'_>| {
        let found = meta::entry(service.value(), fields::ANNOTATIONS, RANGES_ANNOTATION);
        found.map(str::to_owned)
    };
    let Some(text) = annotation(service) else {
        return;
    };
    let annotations = service.at(fields::METADATA).at(fields::ANNOTATIONS);
    let field = annotations.errors().key(RANGES_ANNOTATION);
    if !balanced {
        field.forbidden(ONLY_BALANCED);
    }
    let same = old.and_then(annotation).as_deref() == Some(&text);
    if !same && !text.trim().is_empty() {
        for range in text.split(',') {
            ip::check_cidr(range.trim(), &field);
        }
    }
}

fn validate_balancer(spec: &FieldRef<'_>) {
    let (ports, class) = (
        spec.at(fields::ALLOCATE_LOAD_BALANCER_NODE_PORTS),
        spec.at(fields::LOAD_BALANCER_CLASS),
    );
    let balanced = spec.at(fields::TYPE).str() == "LoadBalancer";
    if ports.is_set() && !balanced {
        ports.forbidden(ONLY_BALANCED);
    }
    if class.is_set() {
        check_class(&class, balanced);
    }
}

fn check_class(class: &FieldRef<'_>, balanced: bool) {
    if balanced {
        name::check(class, name::check_qualified_name);
    } else {
        class.forbidden(ONLY_BALANCED);
    }
}

fn validate_traffic(spec: &FieldRef<'_>) {
    let kind = spec.at(fields::TYPE).str();
    let outer = spec.at(fields::EXTERNAL_TRAFFIC_POLICY);
    if is_reachable(kind, !spec.at(fields::EXTERNAL_IPS).is_empty()) {
        outer.require_one_of(POLICIES);
    } else if !outer.is_empty() {
        outer.invalid("may only be set for externally-accessible services");
    }
    let health = spec.at(fields::HEALTH_CHECK_NODE_PORT);
    if kind == "LoadBalancer" && outer.str() == "Local" {
        match health.int() {
            0 => health.required(""),
            _ => health.in_range(1, 65535),
        }
    } else if health.int() != 0 {
        health
            .invalid("may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'");
    }
    let inner = spec.at(fields::INTERNAL_TRAFFIC_POLICY);
    if inner.is_set() {
        if !POLICIES.contains(&inner.str()) {
            inner.not_supported(POLICIES);
        }
    } else if matches!(kind, "NodePort" | "LoadBalancer" | "ClusterIP") {
        inner.required("");
    }
    let distribution = spec.at(fields::TRAFFIC_DISTRIBUTION);
    if distribution.is_set() && !DISTRIBUTIONS.contains(&distribution.str()) {
        distribution.not_supported(DISTRIBUTIONS);
    }
}

/// Validates one ingress point of a load balancer.
fn validate_point(point: &FieldRef<'_>, before: &BTreeSet<&str>) {
    let (address, mode) = (point.at(fields::IP), point.at(fields::IP_MODE));
    if !address.is_empty() && !before.contains(address.str()) {
        ip::check(address.str(), address.errors());
    }
    match (mode.is_set(), address.is_empty()) {
        (false, false) => mode.required("must be specified when `ip` is set"),
        (true, true) => mode.forbidden("may not be specified when `ip` is not set"),
        (true, false) if !matches!(mode.str(), "Proxy" | "VIP") => mode.not_supported(&["Proxy", "VIP"]),
        _ => {}
    }
    ingress::check_host_name(&point.at(fields::HOSTNAME));
}
