//! Pod: containers that run together on one node.
//!
//! The spec says what to run and hardly ever changes; the status is what the node's agent reports. Once bound to a node
//! a pod goes gracefully: it stays until the agent has stopped its containers.
//!
//! Start reading here, then [`spec`] for the rules of pods and pod templates alike.

mod columns;
mod qos;
pub(crate) mod spec;
pub(crate) mod template;

use jiff::Timestamp;

use setpoint_schema::{Map, Tree};

use crate::at::At;
use crate::columns::Column;
use crate::strategy::{Facts, Field, Names, Rules, Strategy, Subresource};
use crate::{meta, parts};

const ALWAYS: &str = "Always";
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
        Subresource::action("binding", ("", "v1", "Binding")),
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
        let spec = pod.child("spec");
        let mut status = Map::default();
        status.insert("phase", "Pending");
        status.insert("qosClass", qos::class(spec));
        if !spec.items("schedulingGates").is_empty() {
            status.insert("conditions", vec![gated()]);
        }
        pod.set(&["status"], status);
    }

    fn prepare_update(pod: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep(pod, old, "status");
        keep_unset(pod.child("spec"), old.get("spec"), ADMITTED);
    }

    fn prepare_status(pod: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep(pod, old, "spec");
        meta::copy(pod, old, "ownerReferences");
        keep_unset(pod.child("status"), old.get("status"), KEPT);
    }

    fn validate(pod: &At<'_>) {
        spec::validate(&pod.at("spec"));
    }

    fn validate_update(pod: &At<'_>, old: &At<'_>) {
        spec::update::validate(&pod.at("spec"), &old.at("spec"));
    }

    fn validate_status(pod: &At<'_>, old: &At<'_>) {
        let node = |pod: &At<'_>| pod.at("spec").at("nodeName").str().to_owned();
        if node(pod) != node(old) {
            pod.at("spec")
                .at("nodeName")
                .forbidden("may not be changed directly");
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

/// A pod with gates is not to be scheduled, and says so.
fn gated() -> Tree {
    let condition: Map = [
        ("type", "PodScheduled"),
        ("status", "False"),
        ("reason", "SchedulingGated"),
        (
            "message",
            "Scheduling is blocked due to non-empty scheduling gates",
        ),
    ]
    .into_iter()
    .collect();
    condition.into()
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
