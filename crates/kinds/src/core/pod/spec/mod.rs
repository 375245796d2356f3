//! Validation of pod specs, in pods and in templates.
//!
//! [`validate`] checks a spec in the order in which Kubernetes reports errors; each file here has one subject. On an
//! update, rules that the old object already violates are skipped: see [`validation_options::PodValidationOptions`].

pub(crate) mod defaults;

mod affinity;
mod claims;
mod container;
mod containers;
mod dns;
mod env;
mod image;
mod mounts;
mod os;
mod paths;
mod probes;
mod resource_totals;
mod security;
pub(super) mod tolerations;
mod topology_spread;
mod volumes;
mod windows;

pub(crate) mod pod_resources;
pub(crate) mod update;
pub(crate) mod validation_options;

pub(super) use container::validate_image;
pub(super) use paths::check_relative_path;
pub(super) use security::validate_app_armor;

use std::collections::{BTreeMap, BTreeSet};

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, meta, name};

use crate::shared::resources::{self, ResourceOwner};

use self::validation_options::PodValidationOptions;

const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const PREEMPTION_POLICIES: &[&str] = &["PreemptLowerPriority", "Never"];
/// The lists of containers, in the order in which rules about all containers visit them.
pub(crate) const LISTS: [&str; 3] = [
    fields::INIT_CONTAINERS,
    fields::CONTAINERS,
    fields::EPHEMERAL_CONTAINERS,
];

/// The inputs of pod validation besides the spec.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodContext<'a> {
    /// The pod's metadata; `None` for a template.
    pub pod: Option<FieldRef<'a>>,
    pub options: PodValidationOptions,
    pub allow_privileged: bool,
}

/// The inputs of container validation besides the container.
#[derive(Debug)]
pub(super) struct ContainerContext<'a> {
    pub spec: &'a FieldRef<'a>,
    /// The valid volumes, by name.
    pub volumes: BTreeMap<&'a str, FieldRef<'a>>,
    /// The names of the pod's resource claims.
    pub claims: BTreeSet<&'a str>,
    pub options: PodValidationOptions,
    pub allow_privileged: bool,
}

/// Validates a pod spec.
pub(crate) fn validate(spec: &FieldRef<'_>, pod_context: &PodContext<'_>) {
    spec.at(fields::TERMINATION_GRACE_PERIOD_SECONDS).require_set();
    let container_context = ContainerContext {
        spec,
        volumes: volumes::validate(&spec.at(fields::VOLUMES), pod_context),
        claims: claims::names(spec),
        options: pod_context.options,
        allow_privileged: pod_context.allow_privileged,
    };
    claims::validate(&spec.at(fields::RESOURCE_CLAIMS), pod_context);
    containers::validate(&container_context);
    pod_resources::validate(&container_context);
    validate_host_network(spec, pod_context);
    spec.at(fields::RESTART_POLICY).require_one_of(RESTART_POLICIES);
    spec.at(fields::DNS_POLICY).require_one_of(DNS_POLICIES);
    meta::validate_labels(&spec.at(fields::NODE_SELECTOR));
    security::validate_pod(spec, pod_context);
    affinity::validate(&spec.at(fields::AFFINITY), pod_context);
    dns::validate_dns(spec);
    validate_gates(spec);
    topology_spread::validate(&spec.at(fields::TOPOLOGY_SPREAD_CONSTRAINTS), pod_context);
    windows::validate_host_process(spec, pod_context.allow_privileged);
    security::validate_host_users(spec, pod_context);
    dns::validate_hostname_override(spec);
    dns::validate(spec);
    validate_remaining_fields(spec);
}

/// All containers, init containers first.
pub(crate) fn all_containers<'a>(spec: &FieldRef<'a>) -> impl Iterator<Item = FieldRef<'a>> + use<'a> {
    let spec = spec.clone();
    LISTS.into_iter().flat_map(move |list| spec.at(list).items())
}

fn validate_host_network(spec: &FieldRef<'_>, pod_context: &PodContext<'_>) {
    if !spec.at(fields::HOST_NETWORK).bool() {
        return;
    }
    let containers = spec.at(fields::CONTAINERS);
    for port in containers
        .items()
        .flat_map(|container| container.at(fields::PORTS).items())
    {
        let (host, container_port) = (port.at(fields::HOST_PORT), port.at(fields::CONTAINER_PORT).int());
        if (pod_context.pod.is_some() || host.int() != 0) && host.int() != container_port {
            host.invalid("must match `containerPort` when `hostNetwork` is true");
        }
    }
}

fn validate_gates(spec: &FieldRef<'_>) {
    for gate in spec.at(fields::READINESS_GATES).items() {
        name::check(&gate.at(fields::CONDITION_TYPE), name::check_qualified_name);
    }
    let mut seen = BTreeSet::new();
    for gate in spec.at(fields::SCHEDULING_GATES).items() {
        let name = gate.at(fields::NAME).str();
        name::report(name, name::check_qualified_name(name), gate.errors());
        if !seen.insert(name) {
            gate.errors().duplicate(name);
        }
    }
}

fn validate_remaining_fields(spec: &FieldRef<'_>) {
    let policy = spec.at(fields::PREEMPTION_POLICY);
    if policy.is_set() {
        policy.require_one_of(PREEMPTION_POLICIES);
    }
    let overhead = spec.at(fields::OVERHEAD);
    resources::validate_overhead(&overhead, overhead.errors());
    os::validate(spec);
    env::validate_file_volumes(spec);
}

impl ContainerContext<'_> {
    pub(super) fn resources(&self, whose: ResourceOwner) -> resources::ValidationContext<'_> {
        resources::ValidationContext {
            owner: whose,
            claims: &self.claims,
            partial_huge_pages: self.options.partial_huge_pages,
        }
    }

    /// The pod's termination grace period.
    pub(super) fn grace_period(&self) -> Option<i64> {
        self.spec.at(fields::TERMINATION_GRACE_PERIOD_SECONDS).find_int()
    }

    pub(super) fn has_host_users(&self) -> bool {
        self.spec.at(fields::HOST_USERS).find_bool().unwrap_or(true)
    }
}
