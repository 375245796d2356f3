//! Node: a machine that runs pods.

use std::collections::BTreeSet;

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use crate::at::At;
use crate::columns::{self, Column, NONE, UNKNOWN};
use crate::parts;
use crate::shared::{name, resources};
use crate::strategy::{Facts, Field, Names, Scope, Strategy, Subresource};

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

#[derive(Debug)]
pub struct Node;

impl Strategy for Node {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "Node");
    const NAMES: Names = Names::new("nodes", "node").short(&["no"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Status", |node, _| Cell::from(status(node))).about("Whether it is ready."),
        Column::text("Roles", |node, _| Cell::from(roles(node))).about("What it is for."),
        columns::AGE,
        Column::text("Version", |node, _| {
            columns::or_empty(&info(node).at("kubeletVersion"))
        })
        .about("The version of its agent."),
        Column::text("Internal-IP", |node, _| Cell::from(address(node, "InternalIP")))
            .wide()
            .about("Its address in the cluster."),
        Column::text("External-IP", |node, _| Cell::from(address(node, "ExternalIP")))
            .wide()
            .about("Its address outside."),
        Column::text("OS-Image", |node, _| reported(&info(node).at("osImage")))
            .wide()
            .about("Its operating system."),
        Column::text("Kernel-Version", |node, _| {
            reported(&info(node).at("kernelVersion"))
        })
        .wide()
        .about("Its kernel."),
        Column::text("Container-Runtime", |node, _| {
            reported(&info(node).at("containerRuntimeVersion"))
        })
        .wide()
        .about("What runs its containers."),
    ];
    const FIELDS: &'static [Field] = &[Field::boolean(
        "spec.unschedulable",
        &[&["spec", "unschedulable"]],
    )];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];

    fn default_fields(node: &mut Tree) {
        if let Some(spec) = node.find_mut("spec") {
            agree(spec, "podCIDR", "podCIDRs");
        }
        if let Some(status) = node.find_mut("status")
            && let Some(capacity) = status.get("capacity").cloned()
        {
            status.fill("allocatable", capacity);
        }
    }

    // Configuration through the API is gone; what is left of its fields is dropped unless it is in use.
    fn prepare_create(node: &mut Tree, _facts: &Facts) {
        node.take(&["spec", "configSource"]);
        node.take(&["status", "config"]);
    }

    fn prepare_update(node: &mut Tree, old: &Tree, facts: &Facts) {
        if old.at(&["spec", "configSource"]).is_none() {
            Self::prepare_create(node, facts);
        }
        parts::keep(node, old, "status");
    }

    fn validate(node: &At<'_>) {
        let taints = node.at("spec").at("taints");
        validate_taints(&taints.reported_at(node.errors().at("metadata").at("taints")));
        validate_cidrs(&node.at("spec").at("podCIDRs"));
        validate_amounts(node);
    }

    fn validate_status(node: &At<'_>, _old: &At<'_>) {
        validate_amounts(node);
    }

    fn validate_update(node: &At<'_>, old: &At<'_>) {
        let (new, old) = (node.at("spec").at("podCIDR"), old.at("spec").at("podCIDR"));
        if !old.is_empty() && new.str() != old.str() {
            new.forbidden("node updates may not change podCIDR except from \"\" to valid");
        }
    }
}

fn validate_amounts(node: &At<'_>) {
    let status = node.at("status");
    resources::validate_amounts(&status.at("capacity"));
    resources::validate_amounts(&status.at("allocatable"));
}

/// A list of texts is the truth; the single one is its first.
pub(super) fn agree(object: &mut Tree, one: &str, several: &str) {
    let first = object.items(several).first().cloned();
    match object.get(one).filter(|own| !own.is_null()).cloned() {
        Some(own) if first.as_ref() != Some(&own) => object.set(&[several], vec![own]),
        Some(_) => {}
        None => {
            if let Some(first) = first {
                object.set(&[one], first);
            }
        }
    }
}

/// At most one address range of each family.
fn validate_cidrs(cidrs: &At<'_>) {
    let sixes = cidrs.strs().filter(|cidr| cidr.contains(':')).count();
    if sixes > 1 || cidrs.len() - sixes > 1 {
        cidrs.invalid("may specify no more than one CIDR for each IP family");
    }
}

fn validate_taints(taints: &At<'_>) {
    let mut seen = BTreeSet::new();
    for taint in taints.items() {
        name::check(&taint.at("key"), name::qualified);
        if !taint.at("value").is_empty() {
            name::check(&taint.at("value"), name::label_value);
        }
        taint.at("effect").require_one_of(EFFECTS);
        if !seen.insert((taint.at("key").str(), taint.at("effect").str())) {
            taint.duplicate();
        }
    }
}

fn status(node: &At<'_>) -> String {
    let conditions = node.at("status").at("conditions");
    let ready = conditions
        .items()
        .find(|condition| condition.at("type").str() == "Ready")
        .map(|condition| condition.at("status").str() == "True");
    let word = match ready {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    };
    match node.at("spec").at("unschedulable").bool() {
        true => format!("{word},SchedulingDisabled"),
        false => word.to_owned(),
    }
}

fn roles(node: &At<'_>) -> String {
    let mut roles: BTreeSet<&str> = BTreeSet::new();
    for (label, value) in node.at("metadata").at("labels").entries() {
        match label.strip_prefix(ROLE_PREFIX) {
            Some(role) if !role.is_empty() => _ = roles.insert(role),
            None if label == ROLE_LABEL && !value.is_empty() => _ = roles.insert(value.str()),
            _ => {}
        }
    }
    if roles.is_empty() {
        return NONE.to_owned();
    }
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn address(node: &At<'_>, kind: &str) -> String {
    let addresses = node.at("status").at("addresses");
    let mut found = addresses
        .items()
        .filter(|address| address.at("type").str() == kind);
    found.next().map_or_else(
        || NONE.to_owned(),
        |address| address.at("address").str().to_owned(),
    )
}

fn info<'a>(node: &At<'a>) -> At<'a> {
    node.at("status").at("nodeInfo")
}

fn reported(text: &At<'_>) -> Cell {
    Cell::from(if text.is_empty() { UNKNOWN } else { text.str() })
}
