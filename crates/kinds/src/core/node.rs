//! Node: a machine that runs pods.

use std::collections::BTreeSet;

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column, NONE, UNKNOWN};
use setpoint_strategy::go_dump::GoDump;
use setpoint_strategy::{
    ConnectKind, FieldLabel, FieldRef, Names, RequestFacts, Rules, Scope, Strategy, Subresource, ip, name,
    top_level,
};

use crate::shared::resources;

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
        Column::text("Status", |node, _| Cell::from(status(node)))
            .description("Whether the node is ready and schedulable."),
        Column::text("Roles", |node, _| Cell::from(roles(node))).description("The roles of the node."),
        columns::AGE,
        Column::text("Version", |node, _| {
            columns::or_empty(&info(node).at(fields::KUBELET_VERSION))
        })
        .description("The version of the kubelet."),
        Column::text("Internal-IP", |node, _| Cell::from(address(node, "InternalIP")))
            .wide()
            .description("The address inside the cluster."),
        Column::text("External-IP", |node, _| Cell::from(address(node, "ExternalIP")))
            .wide()
            .description("The address outside the cluster."),
        Column::text("OS-Image", |node, _| reported(&info(node).at(fields::OS_IMAGE)))
            .wide()
            .description("The operating system."),
        Column::text("Kernel-Version", |node, _| Cell::from(kernel(node)))
            .wide()
            .description("The kernel version."),
        Column::text("Container-Runtime", |node, _| {
            reported(&info(node).at(fields::CONTAINER_RUNTIME_VERSION))
        })
        .wide()
        .description("The container runtime."),
    ];
    const FIELDS: &'static [FieldLabel] = &[FieldLabel::boolean(
        "spec.unschedulable",
        &[&[fields::SPEC, fields::UNSCHEDULABLE]],
    )];
    const RULES: Rules = Rules::DEFAULT.error_storage_path("minions");
    const SUBRESOURCES: &'static [Subresource] = &[
        Subresource::connect(ConnectKind::Proxy, ("", "v1", "NodeProxyOptions")),
        Subresource::STATUS,
    ];

    fn default_fields(node: &mut Tree) {
        if let Some(spec) = node.find_mut(fields::SPEC) {
            sync_first(spec, fields::POD_CIDR, fields::POD_CIDRS);
        }
        if let Some(status) = node.find_mut(fields::STATUS)
            && let Some(capacity) = status.get(fields::CAPACITY).cloned()
        {
            status.set_default(fields::ALLOCATABLE, capacity);
        }
    }

    // Dynamic kubelet configuration was removed from Kubernetes; its fields are dropped unless in use.
    fn prepare_create(node: &mut Tree, _facts: &RequestFacts) {
        node.take(&[fields::SPEC, fields::CONFIG_SOURCE]);
        node.take(&[fields::SPEC, fields::POD_PREEMPTION_POLICY]);
        node.take(&[fields::STATUS, fields::CONFIG]);
    }

    fn prepare_update(node: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        for field in [fields::CONFIG_SOURCE, fields::POD_PREEMPTION_POLICY] {
            if old.at(&[fields::SPEC, field]).is_none() {
                node.take(&[fields::SPEC, field]);
            }
        }
        top_level::keep(node, old, fields::STATUS);
    }

    fn prepare_status(node: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep_all_except(node, old, &[fields::METADATA, fields::STATUS]);
        if old.at(&[fields::STATUS, fields::CONFIG]).is_none() {
            node.take(&[fields::STATUS, fields::CONFIG]);
        }
    }

    fn validate(node: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_taints(node);
        validate_amounts(node);
        validate_swap(node);
        validate_features(&node.at(fields::STATUS).at(fields::DECLARED_FEATURES));
        validate_pod_cidrs(&node.at(fields::SPEC).at(fields::POD_CIDRS));
    }

    fn validate_update(node: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_node_update(node, old);
    }

    fn validate_status(node: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_node_update(node, old);
    }
}

/// Validates an update of the node or of its status.
fn validate_node_update(node: &FieldRef<'_>, old: &FieldRef<'_>) {
    validate_amounts(node);
    validate_features(&node.at(fields::STATUS).at(fields::DECLARED_FEATURES));
    let mut seen = BTreeSet::new();
    for address in node.at(fields::STATUS).at(fields::ADDRESSES).items() {
        if !seen.insert((address.at(fields::TYPE).str(), address.at(fields::ADDRESS).str())) {
            address.errors().duplicate(GoDump(&address));
        }
    }
    let (spec, old) = (node.at(fields::SPEC), old.at(fields::SPEC));
    validate_same_pod_cidrs(&spec.at(fields::POD_CIDRS), &old.at(fields::POD_CIDRS));
    let (id, before) = (spec.at(fields::PROVIDER_ID), old.at(fields::PROVIDER_ID));
    if !before.is_empty() && id.is_empty() {
        id.invalid_as((), "field cannot be cleared once set");
    } else if !before.is_empty() && id.str() != before.str() {
        id.invalid_as((), "field cannot be modified once set");
    }
    validate_taints(node);
    if !spec.at(fields::EXTERNAL_ID).is_same(&old.at(fields::EXTERNAL_ID)) {
        spec.at(fields::EXTERNAL_ID).forbidden("may not be updated");
    }
}

fn validate_amounts(node: &FieldRef<'_>) {
    let status = node.at(fields::STATUS);
    resources::validate_amounts(&status.at(fields::CAPACITY));
    resources::validate_amounts(&status.at(fields::ALLOCATABLE));
}

fn validate_swap(node: &FieldRef<'_>) {
    let capacity = info(node).at(fields::SWAP).at(fields::CAPACITY);
    if capacity.is_set() && capacity.int() <= 0 {
        let field = node
            .errors()
            .at(fields::METADATA)
            .at("nodeSwapStatus")
            .at(fields::CAPACITY);
        field.invalid(capacity.int(), "must be greater than zero");
    }
}

/// Features must be sorted and unique.
fn validate_features(features: &FieldRef<'_>) {
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

fn validate_same_pod_cidrs(cidrs: &FieldRef<'_>, old: &FieldRef<'_>) {
    let detail = "node updates may not change podCIDR except from \"\" to valid";
    if old.is_empty() {
        return;
    }
    if cidrs.len() != old.len() {
        return cidrs.forbidden(detail);
    }
    for _ in cidrs.strs().zip(old.strs()).filter(|(new, old)| new != old) {
        cidrs.forbidden(detail);
    }
}

/// Makes the single field the first item of its list; the list takes precedence.
pub(super) fn sync_first(object: &mut Tree, one: &str, several: &str) {
    let first = object.items(several).first().cloned();
    match object.get(one).filter(|single| !single.is_null()).cloned() {
        Some(single) if first.as_ref() != Some(&single) => object.set(&[several], vec![single]),
        Some(_) => {}
        None => {
            if let Some(first) = first {
                object.set(&[one], first);
            }
        }
    }
}

/// At most one CIDR of each IP family.
fn validate_pod_cidrs(cidrs: &FieldRef<'_>) {
    for cidr in cidrs.items() {
        ip::check_cidr(cidr.str(), cidr.errors());
    }
    if cidrs.len() < 2 {
        return;
    }
    let mut texts = cidrs.strs().enumerate();
    if let Some((at, bad)) = texts.find(|(_, cidr)| ip::parse_cidr(cidr).is_none()) {
        cidrs.errors().internal(format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{at}]: <nil> (invalid CIDR address: {bad})"
        ));
    }
    if !ip::is_one_of_each(cidrs.strs()) {
        cidrs.invalid("may specify no more than one CIDR for each IP family");
    }
}

fn validate_taints(node: &FieldRef<'_>) {
    let taints = node.at(fields::SPEC).at(fields::TAINTS);
    let taints = taints.with_errors(node.errors().at(fields::METADATA).at(fields::TAINTS));
    let mut seen = BTreeSet::new();
    for taint in taints.items() {
        name::check(&taint.at(fields::KEY), name::check_qualified_name);
        let violations = name::check_label_value(taint.at(fields::VALUE).str());
        if !violations.is_empty() {
            taint.at(fields::VALUE).invalid(&violations.join(";"));
        }
        taint.at(fields::EFFECT).require_one_of(EFFECTS);
        if !seen.insert((taint.at(fields::KEY).str(), taint.at(fields::EFFECT).str())) {
            let detail = "taints must be unique by key and effect pair";
            taint.errors().duplicate_with_detail(GoDump(&taint), detail);
        }
    }
}

fn status(node: &FieldRef<'_>) -> String {
    let conditions = node.at(fields::STATUS).at(fields::CONDITIONS);
    let ready = conditions
        .items()
        .find(|condition| condition.at(fields::TYPE).str() == "Ready")
        .map(|condition| condition.at(fields::STATUS).str() == "True");
    let word = match ready {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    };
    match node.at(fields::SPEC).at(fields::UNSCHEDULABLE).bool() {
        true => format!("{word},SchedulingDisabled"),
        false => word.to_owned(),
    }
}

fn roles(node: &FieldRef<'_>) -> String {
    let mut roles: BTreeSet<&str> = BTreeSet::new();
    for (label, value) in node.at(fields::METADATA).at(fields::LABELS).entries() {
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

fn address(node: &FieldRef<'_>, kind: &str) -> String {
    let addresses = node.at(fields::STATUS).at(fields::ADDRESSES);
    let mut found = addresses
        .items()
        .filter(|address| address.at(fields::TYPE).str() == kind);
    found.next().map_or_else(
        || NONE.to_owned(),
        |address| address.at(fields::ADDRESS).str().to_owned(),
    )
}

fn info<'a>(node: &FieldRef<'a>) -> FieldRef<'a> {
    node.at(fields::STATUS).at(fields::NODE_INFO)
}

fn reported(text: &FieldRef<'_>) -> Cell {
    Cell::from(if text.is_empty() { UNKNOWN } else { text.str() })
}

fn kernel(node: &FieldRef<'_>) -> String {
    let version = match info(node).at(fields::KERNEL_VERSION).str() {
        "" => UNKNOWN,
        version => version,
    };
    match info(node).at(fields::ARCHITECTURE).str() {
        "" => version.to_owned(),
        architecture => format!("{version} ({architecture})"),
    }
}
