//! Pod: containers that run together on one node.
//!
//! The spec says what to run and hardly ever changes; the status is what the node's agent reports. Once bound to a node
//! a pod goes gracefully: it stays until the agent has stopped its containers.
//!
//! Start reading here, then [`spec`] for the rules of pods and pod templates alike.

mod columns;
mod qos;
pub mod spec;

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodIP, PodSpec, PodStatus, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use setpoint_api::field::Errors;

use crate::columns::Column;
use crate::meta;
use crate::strategy::{Facts, Field, Names, Rules, Strategy, Subresource};

const ALWAYS: &str = "Always";

impl Strategy for Pod {
    const NAMES: Names = Names::new("pods", "pod").short(&["po"]).categories(&["all"]);
    const COLUMNS: &'static [Column<Self>] = columns::COLUMNS;
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

    fn default_fields(&mut self) {
        let spec = self.spec.get_or_insert_default();
        spec::defaults::fill(spec);
        spec::defaults::fill_pod(spec);
        if let Some(status) = &mut self.status {
            agree_on_addresses(status);
        }
    }

    fn prepare_create(&mut self, _facts: &Facts) {
        let spec = self.spec.get_or_insert_default();
        self.status = Some(PodStatus {
            phase: Some("Pending".to_owned()),
            qos_class: Some(qos::class(spec).to_owned()),
            conditions: gated(spec),
            ..PodStatus::default()
        });
    }

    fn prepare_update(&mut self, old: &Self, _facts: &Facts) {
        self.status.clone_from(&old.status);
        if let (Some(spec), Some(old)) = (&mut self.spec, &old.spec) {
            keep_admitted(spec, old);
        }
        if self.spec != old.spec {
            let generation = self.metadata.generation.get_or_insert_default();
            *generation += 1;
        }
    }

    fn prepare_status(&mut self, old: &Self, _facts: &Facts) {
        self.spec.clone_from(&old.spec);
        self.metadata
            .owner_references
            .clone_from(&old.metadata.owner_references);
        let (Some(status), Some(old)) = (&mut self.status, &old.status) else {
            return;
        };
        if status.qos_class.as_ref().is_none_or(String::is_empty) {
            status.qos_class.clone_from(&old.qos_class);
        }
        keep_unset(&mut status.resource_claim_statuses, &old.resource_claim_statuses);
        keep_unset(
            &mut status.extended_resource_claim_status,
            &old.extended_resource_claim_status,
        );
        keep_unset(
            &mut status.node_allocatable_resource_claim_statuses,
            &old.node_allocatable_resource_claim_statuses,
        );
    }

    fn validate(&self, errors: &Errors<'_>) {
        let default = PodSpec::default();
        let spec = self.spec.as_ref().unwrap_or(&default);
        spec::validate(spec, &errors.at("spec"));
    }

    fn validate_update(&self, old: &Self, errors: &Errors<'_>) {
        if let (Some(spec), Some(old)) = (&self.spec, &old.spec) {
            spec::update::validate(spec, old, &errors.at("spec"));
        }
    }

    fn validate_status(&self, old: &Self, errors: &Errors<'_>) {
        let node = |pod: &Self| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        if node(self) != node(old) {
            errors
                .at("spec")
                .at("nodeName")
                .forbidden("may not be changed directly");
        }
    }

    // Only a pod that some agent may have started needs its grace.
    fn graceful_deletion(&self, asked: Option<i64>) -> Option<i64> {
        let spec = self.spec.as_ref();
        let own = spec.and_then(|spec| spec.termination_grace_period_seconds);
        let seconds = asked.or(own).unwrap_or_default();
        let bound = spec
            .and_then(|spec| spec.node_name.as_ref())
            .is_some_and(|node| !node.is_empty());
        let phase = self.status.as_ref().and_then(|status| status.phase.as_deref());
        let over = matches!(phase, Some("Succeeded" | "Failed"));
        Some(match seconds {
            _ if !bound || over => 0,
            ..0 => 1,
            seconds => seconds,
        })
    }
}

/// Fills in what a template leaves out.
pub(crate) fn default_template(template: &mut PodTemplateSpec) {
    template.metadata.get_or_insert_default();
    spec::defaults::fill(template.spec.get_or_insert_default());
}

/// Reports what is wrong with a template.
pub(crate) fn validate_template(template: &PodTemplateSpec, errors: &Errors<'_>) {
    let default = PodSpec::default();
    if let Some(metadata) = &template.metadata {
        let errors = errors.at("metadata");
        meta::validate_labels(metadata.labels.as_ref(), &errors.at("labels"));
        meta::validate_annotations(metadata.annotations.as_ref(), &errors.at("annotations"));
    }
    spec::validate(template.spec.as_ref().unwrap_or(&default), &errors.at("spec"));
}

/// Reports a template whose pods would end by themselves.
pub(crate) fn require_always_restart(template: &PodTemplateSpec, errors: &Errors<'_>) {
    let Some(spec) = &template.spec else { return };
    let policy = spec.restart_policy.as_deref().unwrap_or(ALWAYS);
    if policy != ALWAYS {
        errors.at("restartPolicy").not_supported(policy, &[ALWAYS]);
    }
}

/// What admission decided at creation stays, where an update leaves it out.
fn keep_admitted(spec: &mut PodSpec, old: &PodSpec) {
    keep_unset(&mut spec.resources, &old.resources);
    keep_unset(&mut spec.priority, &old.priority);
    keep_unset(&mut spec.preemption_policy, &old.preemption_policy);
}

fn keep_unset<T: Clone>(new: &mut Option<T>, old: &Option<T>) {
    if new.is_none() {
        new.clone_from(old);
    }
}

/// The list of addresses is the truth; the single one is its first.
fn agree_on_addresses(status: &mut PodStatus) {
    let first = status
        .pod_ips
        .as_ref()
        .and_then(|ips| ips.first())
        .map(|ip| ip.ip.clone());
    match status.pod_ip.clone().filter(|ip| !ip.is_empty()) {
        Some(ip) if first.as_ref() != Some(&ip) => status.pod_ips = Some(vec![PodIP { ip }]),
        Some(_) => {}
        None => status.pod_ip = first,
    }
}

/// A pod with gates is not to be scheduled, and says so.
fn gated(spec: &PodSpec) -> Option<Vec<PodCondition>> {
    spec.scheduling_gates.as_ref().filter(|gates| !gates.is_empty())?;
    Some(vec![PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("SchedulingGated".to_owned()),
        message: Some("Scheduling is blocked due to non-empty scheduling gates".to_owned()),
        ..PodCondition::default()
    }])
}

/// Marks a pod as bound to a node, at the time given.
pub fn bind(pod: &mut Pod, node: &str, now: Time) {
    pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
    let status = pod.status.get_or_insert_default();
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|condition| condition.type_ != "PodScheduled");
    conditions.push(PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(now),
        ..PodCondition::default()
    });
}
