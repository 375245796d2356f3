//! Readiness of an Instance without a running plan: the health of its workloads.

use serde_json::Value;
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Gvk, Status};
use setpoint_kuttl::ObjectClient;

use super::status::Readiness;
use crate::api::{Instance, labels};
use crate::health::{Health, health};

const WORKLOADS: &[(&str, &str)] = &[
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
    ("apps", "ReplicaSet"),
    ("apps", "DaemonSet"),
    ("", "Pod"),
];

/// The readiness by the workloads that the Instance has applied, with the messages of those that are not healthy.
pub(super) async fn readiness(
    objects: &ObjectClient,
    instance: &Instance,
) -> Result<(Readiness, String), Status> {
    let mut messages = Vec::new();
    for (group, kind) in WORKLOADS {
        let mut selector = LabelSelector::equals(labels::INSTANCE, instance.name());
        let heritage = LabelSelector::equals(labels::HERITAGE, "kudo");
        selector.requirements.extend(heritage.requirements);
        let found = objects
            .list(&Gvk::new(group, "v1", kind), instance.namespace(), selector)
            .await?;
        messages.extend(found.iter().filter_map(problem));
    }
    Ok(match messages.is_empty() {
        true => (Readiness::ResourcesReady, String::new()),
        false => (Readiness::ResourceNotReady, messages.join(", ")),
    })
}

fn problem(object: &Value) -> Option<String> {
    match health(object) {
        Health::Healthy => None,
        Health::Waiting(message) | Health::Failed(message) => Some(message),
    }
}
