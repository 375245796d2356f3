//! The rules of pod specs, in pods and in templates alike.
//!
//! [`validate`] goes through a spec in the order in which Kubernetes reports; each file here has one subject. What a
//! spec broke before it may go on breaking: see [`waived::Waived`].

pub(crate) mod defaults;

mod affinity;
mod claims;
mod container;
mod containers;
mod env;
mod image;
mod mounts;
mod names;
mod os;
mod paths;
mod probes;
mod security;
mod spread;
mod sums;
pub(super) mod tolerations;
mod volumes;
mod windows;

pub(crate) mod level;
pub(crate) mod update;
pub(crate) mod waived;

pub(super) use container::validate_image;
pub(super) use paths::check_descending;
pub use security::allow_privileged;
pub(super) use security::validate_app_armor;

use std::collections::{BTreeMap, BTreeSet};

use crate::at::At;
use crate::meta;
use crate::shared::name;
use crate::shared::resources::{self, Whose};

use self::waived::Waived;

const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];
const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const PREEMPTION_POLICIES: &[&str] = &["PreemptLowerPriority", "Never"];
/// The lists of containers, in the order in which rules about all of them go.
pub(crate) const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// What the rules know besides the spec.
#[derive(Debug, Clone, Default)]
pub(crate) struct Around<'a> {
    /// The pod's own metadata; a template has none.
    pub pod: Option<At<'a>>,
    pub waived: Waived,
}

/// What the rules of containers know of the pod they are in.
#[derive(Debug)]
pub(super) struct Inside<'a> {
    pub spec: &'a At<'a>,
    /// The volumes that are fine, by name.
    pub volumes: BTreeMap<&'a str, At<'a>>,
    /// The names the pod gives to its claims.
    pub claims: BTreeSet<&'a str>,
    pub waived: Waived,
}

/// Reports what is wrong with a spec.
pub(crate) fn validate(spec: &At<'_>, around: &Around<'_>) {
    spec.at("terminationGracePeriodSeconds").require_set();
    let inside = Inside {
        spec,
        volumes: volumes::validate(&spec.at("volumes"), around),
        claims: claims::names(spec),
        waived: around.waived,
    };
    claims::validate(&spec.at("resourceClaims"), around);
    containers::validate(&inside);
    level::validate(&inside);
    validate_host_network(spec, around);
    spec.at("restartPolicy").require_one_of(RESTART_POLICIES);
    spec.at("dnsPolicy").require_one_of(DNS_POLICIES);
    meta::validate_labels(&spec.at("nodeSelector"));
    security::validate_pod(spec, around);
    affinity::validate(&spec.at("affinity"), around);
    names::validate_dns(spec);
    validate_gates(spec);
    spread::validate(&spec.at("topologySpreadConstraints"), around);
    windows::validate_host_process(spec);
    security::validate_host_users(spec, around);
    names::validate_hostname_override(spec);
    names::validate(spec);
    validate_rest(spec);
}

/// All containers, those that run first in front.
pub(crate) fn all_containers<'a>(spec: &At<'a>) -> impl Iterator<Item = At<'a>> + use<'a> {
    let spec = spec.clone();
    LISTS.into_iter().flat_map(move |list| spec.at(list).items())
}

fn validate_host_network(spec: &At<'_>, around: &Around<'_>) {
    if !spec.at("hostNetwork").bool() {
        return;
    }
    let containers = spec.at("containers");
    for port in containers
        .items()
        .flat_map(|container| container.at("ports").items())
    {
        let (host, own) = (port.at("hostPort"), port.at("containerPort").int());
        if (around.pod.is_some() || host.int() != 0) && host.int() != own {
            host.invalid("must match `containerPort` when `hostNetwork` is true");
        }
    }
}

fn validate_gates(spec: &At<'_>) {
    for gate in spec.at("readinessGates").items() {
        name::check(&gate.at("conditionType"), name::qualified);
    }
    let mut seen = BTreeSet::new();
    for gate in spec.at("schedulingGates").items() {
        let own = gate.at("name").str();
        name::report(own, name::qualified(own), gate.errors());
        if !seen.insert(own) {
            gate.errors().duplicate(own);
        }
    }
}

fn validate_rest(spec: &At<'_>) {
    let policy = spec.at("preemptionPolicy");
    if policy.is_set() {
        policy.require_one_of(PREEMPTION_POLICIES);
    }
    let overhead = spec.at("overhead");
    resources::validate_overhead(&overhead, overhead.errors());
    os::validate(spec);
    env::validate_file_volumes(spec);
}

impl Inside<'_> {
    pub(super) fn resources(&self, whose: Whose) -> resources::Rules<'_> {
        resources::Rules {
            whose,
            claims: &self.claims,
            part_pages: self.waived.part_pages,
        }
    }

    /// How long the pod takes to end.
    pub(super) fn grace(&self) -> Option<i64> {
        self.spec.at("terminationGracePeriodSeconds").find_int()
    }

    pub(super) fn has_host_users(&self) -> bool {
        self.spec.at("hostUsers").find_bool().unwrap_or(true)
    }
}
