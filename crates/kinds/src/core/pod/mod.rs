//! Pod: containers that run together on one node.
//!
//! The spec is mostly immutable; the kubelet reports the status. Once bound to a node a pod is deleted gracefully: it
//! stays until the kubelet has stopped its containers.
//!
//! Start reading here, then [`spec`] for the rules of pods and pod templates.

pub(crate) mod annotations;
pub(crate) mod spec;
pub(crate) mod template;

mod columns;
mod ephemeral_containers;
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

use crate::columns::Column;
use crate::field::FieldRef;
use crate::strategy::{FieldLabel, Names, RequestFacts, Rules, Strategy, Subresource};
use crate::{meta, top_level};

use self::spec::PodContext;
use self::spec::validation_options::PodValidationOptions;

const ALWAYS: &str = "Always";
const EPHEMERAL: &str = "ephemeralcontainers";
const RESIZE: &str = "resize";
const STREAM: &[&str] = &["create", "get"];
const SLICE: &[&str] = &["get", "patch", "update"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];
/// Fields that admission may have set when the pod was created.
const SET_BY_ADMISSION: &[&str] = &["resources", "priority", "preemptionPolicy"];
/// Status fields that stay unchanged if a status update omits them.
const KEPT_STATUS_FIELDS: &[&str] = &[
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
    const FIELDS: &'static [FieldLabel] = &[
        FieldLabel::new("spec.host", &[&["spec", "nodeName"]]),
        FieldLabel::boolean("spec.hostNetwork", &[&["spec", "hostNetwork"]]),
        FieldLabel::new("spec.nodeName", &[&["spec", "nodeName"]]),
        FieldLabel::new("spec.restartPolicy", &[&["spec", "restartPolicy"]]),
        FieldLabel::new("spec.schedulerName", &[&["spec", "schedulerName"]]),
        FieldLabel::new("spec.serviceAccountName", &[&["spec", "serviceAccountName"]]),
        FieldLabel::new("status.nominatedNodeName", &[&["status", "nominatedNodeName"]]),
        FieldLabel::new("status.phase", &[&["status", "phase"]]),
        FieldLabel::new("status.podIP", &[&["status", "podIP"]]),
        // Accepted as a label, and always empty.
        FieldLabel::new("status.podIPs", &[]),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[
        Subresource::connect("attach", STREAM, ("", "v1", "PodAttachOptions")),
        Subresource::action("binding", ("", "v1", "Binding")),
        Subresource::partial(EPHEMERAL, SLICE),
        Subresource::action("eviction", ("policy", "v1", "Eviction")),
        Subresource::connect("exec", STREAM, ("", "v1", "PodExecOptions")),
        Subresource::connect("log", &["get"], ("", "", "")),
        Subresource::connect("portforward", STREAM, ("", "v1", "PodPortForwardOptions")),
        Subresource::connect("proxy", PROXY, ("", "v1", "PodProxyOptions")),
        Subresource::partial(RESIZE, SLICE),
        Subresource::STATUS,
    ];
    const RULES: Rules = Rules {
        returns_deleted: true,
        tracks_generation: true,
        ..Rules::DEFAULT
    };

    fn default_fields(pod: &mut Tree) {
        let spec = pod.child("spec");
        spec::defaults::set_defaults(spec);
        spec::defaults::set_pod_defaults(spec);
        if let Some(status) = pod.find_mut("status") {
            sync_pod_ips(status);
        }
    }

    fn prepare_create(pod: &mut Tree, _facts: &RequestFacts) {
        prepare::set_first_status(pod);
        prepare::merge_label_keys(pod);
        prepare::copy_app_armor_annotations(pod);
        let spec = pod.child("spec");
        spec::pod_resources::set_defaults(spec);
        let class = qos::class(spec);
        pod.set(&["status", "qosClass"], class);
    }

    fn prepare_update(pod: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(pod, old, "status");
        keep_unset(pod.child("spec"), old.get("spec"), SET_BY_ADMISSION);
    }

    fn prepare_status(pod: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(pod, old, "spec");
        meta::copy(pod, old, "ownerReferences");
        keep_unset(pod.child("status"), old.get("status"), KEPT_STATUS_FIELDS);
        status::keep_observed(pod.child("status"), old.get("status"));
    }

    fn prepare_subresource(pod: &mut Tree, name: &str, old: &Tree, _facts: &RequestFacts) {
        match name {
            EPHEMERAL => ephemeral_containers::prepare(pod, old),
            RESIZE => resize::prepare(pod, old),
            _ => {}
        }
    }

    fn validate(pod: &FieldRef<'_>) {
        let spec = pod.at("spec");
        validate_with(pod, PodValidationOptions::default());
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

    fn validate_for_update(pod: &FieldRef<'_>, old: &FieldRef<'_>) {
        let errors = Errors::default();
        validate_with(&pod.with_errors(errors.clone()), PodValidationOptions::default());
        if !errors.is_empty() {
            let annotations = old.at("metadata").at("annotations");
            validate_with(
                pod,
                PodValidationOptions::for_update(&old.at("spec"), &annotations),
            );
        }
    }

    fn validate_update(pod: &FieldRef<'_>, old: &FieldRef<'_>) {
        validate_annotations(pod, old);
        spec::update::validate(&pod.at("spec"), &old.at("spec"));
    }

    fn validate_status(pod: &FieldRef<'_>, old: &FieldRef<'_>) {
        validate_annotations(pod, old);
        let (annotations, before) = (
            pod.at("metadata").at("annotations"),
            old.at("metadata").at("annotations"),
        );
        annotations::validate(
            &annotations,
            &pod.at("spec"),
            !annotations::is_deletion_cost(&before),
        );
        status::validate(pod, old);
    }

    fn validate_subresource(pod: &FieldRef<'_>, name: &str, old: &FieldRef<'_>) {
        match name {
            EPHEMERAL => ephemeral_containers::validate(pod, old),
            RESIZE => resize::validate(pod, old),
            _ => {}
        }
    }

    fn warnings(pod: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        match old {
            None => warnings::of_pod(pod),
            Some(_) => Vec::new(),
        }
    }

    // Only a pod that a kubelet may have started gets a grace period.
    fn grace_period(pod: &Tree, requested: Option<i64>) -> Option<i64> {
        let spec_seconds = pod.at(&["spec", "terminationGracePeriodSeconds"]);
        let seconds = requested
            .or(spec_seconds.and_then(Tree::as_i64))
            .unwrap_or_default();
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

/// Fields that are absent keep their old values.
fn keep_unset(new: &mut Tree, old: Option<&Tree>, fields: &[&str]) {
    for field in fields {
        if let Some(before) = old.and_then(|old| old.get(field)) {
            new.set_default(field, before.clone());
        }
    }
}

/// Makes `podIP` the first of `podIPs`; the list takes precedence.
fn sync_pod_ips(status: &mut Tree) {
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

/// Validates a pod, new or updated. Metadata is validated before.
fn validate_with(pod: &FieldRef<'_>, options: PodValidationOptions) {
    let (metadata, spec) = (pod.at("metadata"), pod.at("spec"));
    annotations::validate(&metadata.at("annotations"), &spec, options.deletion_cost);
    let pod_context = PodContext {
        pod: Some(metadata),
        options,
    };
    spec::validate(&spec, &pod_context);
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

/// A pod without a service account cannot have its tokens.
fn forbid_tokens(volumes: &FieldRef<'_>) {
    let sources = volumes
        .items()
        .flat_map(|volume| volume.at("projected").at("sources").items());
    for token in sources.map(|source| source.at("serviceAccountToken")) {
        if token.is_set() {
            token.forbidden("must not be specified when serviceAccountName is not set");
        }
    }
}

fn validate_annotations(pod: &FieldRef<'_>, old: &FieldRef<'_>) {
    annotations::validate_update(
        &pod.at("metadata").at("annotations"),
        &old.at("metadata").at("annotations"),
    );
}

/// Binds a pod to a node: sets the node name and the `PodScheduled` condition.
pub fn bind(pod: &mut Tree, node: &str, now: Timestamp) {
    pod.set(&["spec", "nodeName"], node);
    let conditions = pod.child("status").map_or_default().entry("conditions");
    let mut list = conditions.as_list().unwrap_or_default().to_vec();
    list.retain(|condition| condition.str_at(&["type"]) != Some("PodScheduled"));
    let mut condition = Map::default();
    condition.insert("type", "PodScheduled");
    condition.insert("lastTransitionTime", meta::timestamp(now));
    condition.insert("status", "True");
    list.push(condition.into());
    *conditions = list.into();
}
