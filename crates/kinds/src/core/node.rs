//! Node: a machine that runs pods.

use std::collections::BTreeSet;

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use crate::at::At;
use crate::columns::{self, Column, NONE, UNKNOWN};
use crate::parts;
use crate::shared::internal::Internal;
use crate::shared::{ip, name, resources};
use crate::strategy::{Facts, Field, Names, Rules, Scope, Strategy, Subresource};

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
        Column::text("Kernel-Version", |node, _| Cell::from(kernel(node)))
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
    const RULES: Rules = Rules {
        kept_at: "minions",
        ..Rules::DEFAULT
    };
    const SUBRESOURCES: &'static [Subresource] = &[
        Subresource::connect(
            "proxy",
            &["create", "delete", "get", "patch", "update"],
            ("", "v1", "NodeProxyOptions"),
        ),
        Subresource::STATUS,
    ];

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
        node.take(&["spec", "podPreemptionPolicy"]);
        node.take(&["status", "config"]);
    }

    fn prepare_update(node: &mut Tree, old: &Tree, _facts: &Facts) {
        for field in ["configSource", "podPreemptionPolicy"] {
            if old.at(&["spec", field]).is_none() {
                node.take(&["spec", field]);
            }
        }
        parts::keep(node, old, "status");
    }

    fn prepare_status(node: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep_all_but(node, old, &["metadata", "status"]);
        if old.at(&["status", "config"]).is_none() {
            node.take(&["status", "config"]);
        }
    }

    fn validate(node: &At<'_>) {
        validate_taints(node);
        validate_amounts(node);
        validate_swap(node);
        validate_features(&node.at("status").at("declaredFeatures"));
        validate_ranges(&node.at("spec").at("podCIDRs"));
    }

    fn validate_update(node: &At<'_>, old: &At<'_>) {
        update(node, old);
    }

    fn validate_status(node: &At<'_>, old: &At<'_>) {
        update(node, old);
    }
}

/// What may not follow, in updates of the node and of its status alike.
fn update(node: &At<'_>, old: &At<'_>) {
    validate_amounts(node);
    validate_features(&node.at("status").at("declaredFeatures"));
    let mut seen = BTreeSet::new();
    for address in node.at("status").at("addresses").items() {
        if !seen.insert((address.at("type").str(), address.at("address").str())) {
            address.errors().duplicate(Internal(&address));
        }
    }
    let (spec, old) = (node.at("spec"), old.at("spec"));
    validate_same_ranges(&spec.at("podCIDRs"), &old.at("podCIDRs"));
    let (id, before) = (spec.at("providerID"), old.at("providerID"));
    if !before.is_empty() && id.is_empty() {
        id.invalid_as((), "field cannot be cleared once set");
    } else if !before.is_empty() && id.str() != before.str() {
        id.invalid_as((), "field cannot be modified once set");
    }
    validate_taints(node);
    if !spec.at("externalID").is_same(&old.at("externalID")) {
        spec.at("externalID").forbidden("may not be updated");
    }
}

fn validate_amounts(node: &At<'_>) {
    let status = node.at("status");
    resources::validate_amounts(&status.at("capacity"));
    resources::validate_amounts(&status.at("allocatable"));
}

fn validate_swap(node: &At<'_>) {
    let capacity = info(node).at("swap").at("capacity");
    if capacity.is_set() && capacity.int() <= 0 {
        let place = node.errors().at("metadata").at("nodeSwapStatus").at("capacity");
        place.invalid(capacity.int(), "must be greater than zero");
    }
}

/// Features are listed in their order, each once.
fn validate_features(features: &At<'_>) {
    let mut before: Option<&str> = None;
    for feature in features.items() {
        let text = feature.str();
        match before {
            Some(before) if before == text => feature.duplicate(),
            Some(before) if before > text => feature.invalid("list must be sorted alphabetically"),
            _ => {}
        }
        if text.len() > 253 {
            feature.invalid(&format!(
                "invalid feature name {text:?}: must be no more than 253 characters"
            ));
        } else if !is_feature(text) {
            feature.invalid(&format!("invalid feature name {text:?}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"));
        }
        before = Some(text);
    }
}

fn is_feature(text: &str) -> bool {
    let word = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    text.starts_with(|first: char| first.is_ascii_uppercase()) && text.split('/').all(word)
}

fn validate_same_ranges(ranges: &At<'_>, old: &At<'_>) {
    let detail = "node updates may not change podCIDR except from \"\" to valid";
    if old.is_empty() {
        return;
    }
    if ranges.len() != old.len() {
        return ranges.forbidden(detail);
    }
    for _ in ranges.strs().zip(old.strs()).filter(|(new, old)| new != old) {
        ranges.forbidden(detail);
    }
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
fn validate_ranges(ranges: &At<'_>) {
    for range in ranges.items() {
        ip::check_range(range.str(), range.errors());
    }
    if ranges.len() < 2 {
        return;
    }
    let mut texts = ranges.strs().enumerate();
    if let Some((at, bad)) = texts.find(|(_, range)| ip::parse_range(range).is_none()) {
        ranges.errors().internal(format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{at}]: <nil> (invalid CIDR address: {bad})"
        ));
    }
    if !ip::is_one_of_each(ranges.strs()) {
        ranges.invalid("may specify no more than one CIDR for each IP family");
    }
}

fn validate_taints(node: &At<'_>) {
    let taints = node.at("spec").at("taints");
    let taints = taints.reported_at(node.errors().at("metadata").at("taints"));
    let mut seen = BTreeSet::new();
    for taint in taints.items() {
        name::check(&taint.at("key"), name::qualified);
        let complaints = name::label_value(taint.at("value").str());
        if !complaints.is_empty() {
            taint.at("value").invalid(&complaints.join(";"));
        }
        taint.at("effect").require_one_of(EFFECTS);
        if !seen.insert((taint.at("key").str(), taint.at("effect").str())) {
            let detail = "taints must be unique by key and effect pair";
            taint.errors().duplicate_because(Internal(&taint), detail);
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

fn kernel(node: &At<'_>) -> String {
    let version = match info(node).at("kernelVersion").str() {
        "" => UNKNOWN,
        version => version,
    };
    match info(node).at("architecture").str() {
        "" => version.to_owned(),
        architecture => format!("{version} ({architecture})"),
    }
}
