//! Pod: containers that run together on one node.
//!
//! The spec says what to run and hardly ever changes; the status is what the node's agent reports. Once bound to a node
//! a pod goes gracefully: it stays until the agent has stopped its containers.
//!
//! Start reading here, then [`spec`] for the rules of pods and pod templates alike.

pub(crate) mod annotations;
pub(crate) mod spec;
pub(crate) mod template;

mod columns;
mod ephemeral;
mod prepare;
mod qos;
mod resize;
mod status;
mod warnings;

pub(crate) use annotations::MIRROR;
pub use spec::allow_privileged;

use jiff::Timestamp;

use setpoint_api::field::Errors;
use setpoint_schema::{Map, Tree};

use crate::at::At;
use crate::columns::Column;
use crate::strategy::{Facts, Field, Names, Rules, Strategy, Subresource};
use crate::{meta, parts};

use self::spec::Around;
use self::spec::waived::Waived;

const ALWAYS: &str = "Always";
const EPHEMERAL: &str = "ephemeralcontainers";
const RESIZE: &str = "resize";
const STREAM: &[&str] = &["create", "get"];
const SLICE: &[&str] = &["get", "patch", "update"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];
/// What admission decides when a pod is created.
const ADMITTED: &[&str] = &["resources", "priority", "preemptionPolicy"];
/// What an update of the status keeps where it leaves it out.
const KEPT: &[&str] = &[
    "qosClass",
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
];

#[derive(Debug)]
pub struct Pod;

impl Strategy for Pod {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "Pod");
    const NAMES: Names = Names::new("pods", "pod").short(&["po"]).categories(&["all"]);
    const COLUMNS: &'static [Column] = columns::COLUMNS;
    const FIELDS: &'static [Field] = &[
        Field::new("spec.host", &[&["spec", "nodeName"]]),
        Field::boolean("spec.hostNetwork", &[&["spec", "hostNetwork"]]),
        Field::new("spec.nodeName", &[&["spec", "nodeName"]]),
        Field::new("spec.restartPolicy", &[&["spec", "restartPolicy"]]),
        Field::new("spec.schedulerName", &[&["spec", "schedulerName"]]),
        Field::new("spec.serviceAccountName", &[&["spec", "serviceAccountName"]]),
        Field::new("status.nominatedNodeName", &[&["status", "nominatedNodeName"]]),
        Field::new("status.phase", &[&["status", "phase"]]),
        Field::new("status.podIP", &[&["status", "podIP"]]),
        // Accepted, and always empty.
        Field::new("status.podIPs", &[]),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[
        Subresource::connect("attach", STREAM, ("", "v1", "PodAttachOptions")),
        Subresource::action("binding", ("", "v1", "Binding")),
        Subresource::slice(EPHEMERAL, SLICE),
        Subresource::action("eviction", ("policy", "v1", "Eviction")),
        Subresource::connect("exec", STREAM, ("", "v1", "PodExecOptions")),
        Subresource::connect("log", &["get"], ("", "", "")),
        Subresource::connect("portforward", STREAM, ("", "v1", "PodPortForwardOptions")),
        Subresource::connect("proxy", PROXY, ("", "v1", "PodProxyOptions")),
        Subresource::slice(RESIZE, SLICE),
        Subresource::STATUS,
    ];
    const RULES: Rules = Rules {
        returns_deleted: true,
        tracks_generation: true,
        ..Rules::DEFAULT
    };

    fn default_fields(pod: &mut Tree) {
        let spec = pod.child("spec");
        spec::defaults::fill(spec);
        spec::defaults::fill_pod(spec);
        if let Some(status) = pod.find_mut("status") {
            agree_on_addresses(status);
        }
    }

    fn prepare_create(pod: &mut Tree, _facts: &Facts) {
        prepare::set_first_status(pod);
        prepare::fold_label_keys(pod);
        prepare::take_over_app_armor(pod);
        let spec = pod.child("spec");
        spec::level::fill(spec);
        let class = qos::class(spec);
        pod.set(&["status", "qosClass"], class);
    }

    fn prepare_update(pod: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep(pod, old, "status");
        keep_unset(pod.child("spec"), old.get("spec"), ADMITTED);
    }

    fn prepare_status(pod: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep(pod, old, "spec");
        meta::copy(pod, old, "ownerReferences");
        keep_unset(pod.child("status"), old.get("status"), KEPT);
        status::keep_observed(pod.child("status"), old.get("status"));
    }

    fn prepare_part(pod: &mut Tree, name: &str, old: &Tree, _facts: &Facts) {
        match name {
            EPHEMERAL => ephemeral::prepare(pod, old),
            RESIZE => resize::prepare(pod, old),
            _ => {}
        }
    }

    fn validate(pod: &At<'_>) {
        let spec = pod.at("spec");
        validate_with(pod, Waived::default());
        let ephemeral = spec.at("ephemeralContainers");
        if !ephemeral.is_empty() {
            ephemeral.forbidden("cannot be set on create");
        }
        if !spec.at("nodeName").is_empty() && !spec.at("schedulingGates").is_empty() {
            spec.at("nodeName")
                .forbidden("cannot be set until all schedulingGates have been cleared");
        }
        annotations::validate_match(&pod.at("metadata").at("annotations"), &spec);
    }

    fn validate_again(pod: &At<'_>, old: &At<'_>) {
        let errors = Errors::default();
        validate_with(&pod.reported_at(errors.clone()), Waived::default());
        if !errors.is_empty() {
            let own = old.at("metadata").at("annotations");
            validate_with(pod, Waived::by(&old.at("spec"), &own));
        }
    }

    fn validate_update(pod: &At<'_>, old: &At<'_>) {
        validate_annotations(pod, old);
        spec::update::validate(&pod.at("spec"), &old.at("spec"));
    }

    fn validate_status(pod: &At<'_>, old: &At<'_>) {
        validate_annotations(pod, old);
        let (own, before) = (
            pod.at("metadata").at("annotations"),
            old.at("metadata").at("annotations"),
        );
        annotations::validate(&own, &pod.at("spec"), !annotations::is_deletion_cost(&before));
        status::validate(pod, old);
    }

    fn validate_part(pod: &At<'_>, name: &str, old: &At<'_>) {
        match name {
            EPHEMERAL => ephemeral::validate(pod, old),
            RESIZE => resize::validate(pod, old),
            _ => {}
        }
    }

    fn warnings(pod: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
        match old {
            None => warnings::of_pod(pod),
            Some(_) => Vec::new(),
        }
    }

    // Only a pod that some agent may have started needs its grace.
    fn graceful_deletion(pod: &Tree, asked: Option<i64>) -> Option<i64> {
        let own = pod.at(&["spec", "terminationGracePeriodSeconds"]);
        let seconds = asked.or(own.and_then(Tree::as_i64)).unwrap_or_default();
        let bound = pod
            .str_at(&["spec", "nodeName"])
            .is_some_and(|node| !node.is_empty());
        let over = matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"));
        Some(match seconds {
            _ if !bound || over => 0,
            ..0 => 1,
            seconds => seconds,
        })
    }
}

/// Fields that are left out stay what they were.
fn keep_unset(new: &mut Tree, old: Option<&Tree>, fields: &[&str]) {
    for field in fields {
        if let Some(before) = old.and_then(|old| old.get(field)) {
            new.fill(field, before.clone());
        }
    }
}

/// The list of addresses is the truth; the single one is its first.
fn agree_on_addresses(status: &mut Tree) {
    let first = status.items("podIPs").first();
    let first = first.and_then(|ip| ip.get("ip")).cloned();
    match status.get("podIP").filter(|ip| !ip.is_null()).cloned() {
        Some(ip) if first.as_ref() != Some(&ip) => {
            let ip: Map = [("ip", ip)].into_iter().collect();
            status.set(&["podIPs"], vec![Tree::from(ip)]);
        }
        Some(_) => {}
        None => {
            if let Some(first) = first {
                status.set(&["podIP"], first);
            }
        }
    }
}

/// What is wrong with a pod, whether it is new or not. Metadata has been looked at before.
fn validate_with(pod: &At<'_>, waived: Waived) {
    let (metadata, spec) = (pod.at("metadata"), pod.at("spec"));
    annotations::validate(&metadata.at("annotations"), &spec, waived.deletion_cost);
    let around = Around {
        pod: Some(metadata),
        waived,
    };
    spec::validate(&spec, &around);
    if spec.at("serviceAccountName").is_empty() {
        forbid_tokens(&spec.at("volumes"));
    }
    spec.at("terminationGracePeriodSeconds").not_negative();
    for list in ["containers", "initContainers"] {
        for container in spec.at(list).items() {
            spec::validate_image(&container);
        }
    }
}

/// Without an account there is nothing that a token could be of.
fn forbid_tokens(volumes: &At<'_>) {
    let sources = volumes
        .items()
        .flat_map(|volume| volume.at("projected").at("sources").items());
    for token in sources.map(|source| source.at("serviceAccountToken")) {
        if token.is_set() {
            token.forbidden("must not be specified when serviceAccountName is not set");
        }
    }
}

fn validate_annotations(pod: &At<'_>, old: &At<'_>) {
    annotations::validate_update(
        &pod.at("metadata").at("annotations"),
        &old.at("metadata").at("annotations"),
    );
}

/// Marks a pod as bound to a node, at the time given.
pub fn bind(pod: &mut Tree, node: &str, now: Timestamp) {
    pod.set(&["spec", "nodeName"], node);
    let conditions = pod.child("status").map_or_default().entry("conditions");
    let mut list = conditions.as_list().unwrap_or_default().to_vec();
    list.retain(|condition| condition.str_at(&["type"]) != Some("PodScheduled"));
    let mut condition = Map::default();
    condition.insert("type", "PodScheduled");
    condition.insert("lastTransitionTime", meta::moment(now));
    condition.insert("status", "True");
    list.push(condition.into());
    *conditions = list.into();
}
