//! Node: a machine that runs pods.

use k8s_openapi::api::core::v1::{Node, NodeSystemInfo, Taint};

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;

use crate::columns::{self, Column, NONE, UNKNOWN};
use crate::shared::{name, resources};
use crate::strategy::{Facts, Field, Names, Scope, Strategy, Subresource};

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

impl Strategy for Node {
    const NAMES: Names = Names::new("nodes", "node").short(&["no"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column<Self>] = &[
        columns::name(),
        Column::text("Status", |node, _| Cell::from(status(node))).about("Whether it is ready."),
        Column::text("Roles", |node, _| Cell::from(roles(node))).about("What it is for."),
        columns::age(),
        Column::text("Version", |node, _| {
            Cell::from(info(node, |info| &info.kubelet_version))
        })
        .about("The version of its agent."),
        Column::text("Internal-IP", |node, _| Cell::from(address(node, "InternalIP")))
            .wide()
            .about("Its address in the cluster."),
        Column::text("External-IP", |node, _| Cell::from(address(node, "ExternalIP")))
            .wide()
            .about("Its address outside."),
        Column::text("OS-Image", |node, _| reported(info(node, |info| &info.os_image)))
            .wide()
            .about("Its operating system."),
        Column::text("Kernel-Version", |node, _| {
            reported(info(node, |info| &info.kernel_version))
        })
        .wide()
        .about("Its kernel."),
        Column::text("Container-Runtime", |node, _| {
            reported(info(node, |info| &info.container_runtime_version))
        })
        .wide()
        .about("What runs its containers."),
    ];
    const FIELDS: &'static [Field] = &[Field::boolean(
        "spec.unschedulable",
        &[&["spec", "unschedulable"]],
    )];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];

    fn default_fields(&mut self) {
        if let Some(spec) = &mut self.spec {
            agree_on_cidrs(&mut spec.pod_cidr, &mut spec.pod_cidrs);
        }
        if let Some(status) = &mut self.status
            && status.allocatable.is_none()
        {
            status.allocatable.clone_from(&status.capacity);
        }
    }

    // Configuration through the API is gone; what is left of its fields is dropped unless it is in use.
    fn prepare_create(&mut self, _facts: &Facts) {
        if let Some(spec) = &mut self.spec {
            spec.config_source = None;
        }
        if let Some(status) = &mut self.status {
            status.config = None;
        }
    }

    fn prepare_update(&mut self, old: &Self, facts: &Facts) {
        let in_use = old.spec.as_ref().is_some_and(|spec| spec.config_source.is_some());
        if !in_use {
            self.prepare_create(facts);
        }
        self.status.clone_from(&old.status);
    }

    fn prepare_status(&mut self, old: &Self, _facts: &Facts) {
        self.spec.clone_from(&old.spec);
    }

    fn validate(&self, errors: &Errors<'_>) {
        let spec = self.spec.as_ref();
        let taints = spec.and_then(|spec| spec.taints.as_deref());
        validate_taints(taints.unwrap_or_default(), &errors.at("metadata").at("taints"));
        validate_cidrs(
            spec.and_then(|spec| spec.pod_cidrs.as_deref()),
            &errors.at("spec").at("podCIDRs"),
        );
        self.validate_amounts(errors);
    }

    fn validate_status(&self, _old: &Self, errors: &Errors<'_>) {
        self.validate_amounts(errors);
    }

    fn validate_update(&self, old: &Self, errors: &Errors<'_>) {
        let cidr = |node: &Self| {
            let spec = node.spec.as_ref();
            spec.and_then(|spec| spec.pod_cidr.clone())
                .filter(|cidr| !cidr.is_empty())
        };
        if cidr(old).is_some() && cidr(self) != cidr(old) {
            let detail = "node updates may not change podCIDR except from \"\" to valid";
            errors.at("spec").at("podCIDR").forbidden(detail);
        }
    }
}

/// What the rules above need of a node.
trait Amounts {
    fn validate_amounts(&self, errors: &Errors<'_>);
}

impl Amounts for Node {
    fn validate_amounts(&self, errors: &Errors<'_>) {
        let Some(status) = &self.status else { return };
        let errors = errors.at("status");
        resources::validate_amounts(status.capacity.as_ref(), &errors.at("capacity"));
        resources::validate_amounts(status.allocatable.as_ref(), &errors.at("allocatable"));
    }
}

/// The list of address ranges is the truth; the single one is its first.
fn agree_on_cidrs(cidr: &mut Option<String>, cidrs: &mut Option<Vec<String>>) {
    let first = cidrs.as_ref().and_then(|cidrs| cidrs.first().cloned());
    match cidr.as_ref().filter(|cidr| !cidr.is_empty()) {
        Some(own) if first.as_ref() != Some(own) => *cidrs = Some(vec![own.clone()]),
        Some(_) => {}
        None => *cidr = first,
    }
}

/// At most one address range of each family.
fn validate_cidrs(cidrs: Option<&[String]>, errors: &Errors<'_>) {
    let cidrs = cidrs.unwrap_or_default();
    let sixes = cidrs.iter().filter(|cidr| cidr.contains(':')).count();
    if sixes > 1 || cidrs.len() - sixes > 1 {
        errors.invalid(cidrs, "may specify no more than one CIDR for each IP family");
    }
}

fn validate_taints(taints: &[Taint], errors: &Errors<'_>) {
    for (at, taint) in taints.iter().enumerate() {
        let errors = errors.index(at);
        name::report(&taint.key, name::qualified(&taint.key), &errors.at("key"));
        if let Some(value) = taint.value.as_deref().filter(|value| !value.is_empty()) {
            name::report(value, name::label_value(value), &errors.at("value"));
        }
        if taint.effect.is_empty() {
            errors.at("effect").required("");
        } else if !EFFECTS.contains(&taint.effect.as_str()) {
            errors.at("effect").not_supported(&taint.effect, EFFECTS);
        }
        let same = |other: &Taint| other.key == taint.key && other.effect == taint.effect;
        if taints[..at].iter().any(same) {
            errors.duplicate(taint);
        }
    }
}

fn status(node: &Node) -> String {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions
        .filter(|condition| condition.type_ == "Ready")
        .map(|condition| condition.status == "True")
        .next();
    let word = match ready {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    };
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable);
    match cordoned {
        Some(true) => format!("{word},SchedulingDisabled"),
        _ => word.to_owned(),
    }
}

fn roles(node: &Node) -> String {
    let mut roles: Vec<&str> = Vec::new();
    for (label, value) in node.metadata.labels.iter().flatten() {
        match label.strip_prefix(ROLE_PREFIX) {
            Some(role) if !role.is_empty() => roles.push(role),
            None if label == ROLE_LABEL && !value.is_empty() => roles.push(value),
            _ => {}
        }
    }
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() {
        return NONE.to_owned();
    }
    roles.join(",")
}

fn address(node: &Node, kind: &str) -> String {
    let addresses = node
        .status
        .iter()
        .flat_map(|status| status.addresses.iter().flatten());
    let mut found = addresses.filter(|address| address.type_ == kind);
    found
        .next()
        .map_or_else(|| NONE.to_owned(), |address| address.address.clone())
}

fn info(node: &Node, field: fn(&NodeSystemInfo) -> &String) -> &str {
    let status = node.status.as_ref();
    status
        .and_then(|status| status.node_info.as_ref())
        .map(field)
        .map_or("", String::as_str)
}

fn reported(text: &str) -> Cell {
    Cell::from(if text.is_empty() { UNKNOWN } else { text })
}
