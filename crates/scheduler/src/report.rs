//! Status writes of the scheduler: the PodScheduled condition of a pod that was not scheduled, and its nominated node.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use setpoint_api::{ResourceVersion, Status};
use setpoint_runtime::{Client, retry_on_conflict};

use crate::pod_info::PodInfo;

/// The condition for whether a pod has a node.
const POD_SCHEDULED: &str = "PodScheduled";

/// Attempts to write a status when updates conflict.
const STATUS_UPDATE_ATTEMPTS: usize = 5;

/// A failed attempt, as the status of the pod reports it.
#[derive(Debug, Clone)]
pub(crate) struct FailureReport {
    /// `Unschedulable` or `SchedulerError`.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// The node that the pod is nominated to; `Some("")` clears the nomination, `None` leaves it.
    pub(crate) nominated_node: Option<String>,
}

/// Writes the report to the status of the pod, if it still has no node.
pub(crate) async fn write_failure(client: &Client, now: Timestamp, pod: &PodInfo, report: &FailureReport) {
    let change = |pod: &mut Value| {
        let has_condition = set_condition(now, pod, report);
        let has_nomination = set_nominated_node(pod, report.nominated_node.as_deref());
        has_condition || has_nomination
    };
    if let Err(status) = update_status(client, pod, change).await {
        tracing::debug!(pod = %pod.key, %status, "cannot update the PodScheduled condition");
    }
}

/// Writes the node that the pod is about to be bound to. Returns the new version of the pod.
pub(crate) async fn write_nominated_node(
    client: &Client,
    pod: &PodInfo,
    node: &str,
) -> Option<ResourceVersion> {
    let change = |pod: &mut Value| set_nominated_node(pod, Some(node));
    match update_status(client, pod, change).await {
        Ok(version) => version,
        Err(status) => {
            tracing::debug!(pod = %pod.key, %status, "cannot update the nominated node");
            None
        }
    }
}

/// Adds or replaces a condition in the status of a pod. The pod is a JSON tree of which only the conditions are decoded.
pub(crate) fn put_condition(now: Timestamp, pod: &mut Value, mut condition: PodCondition) -> bool {
    condition.observed_generation = pod["metadata"]["generation"].as_i64();
    let written = &mut pod["status"]["conditions"];
    let Ok(read) = serde_json::from_value::<Option<Vec<PodCondition>>>(written.clone()) else {
        return false;
    };
    let mut conditions = read.unwrap_or_default();
    let position = conditions.iter().position(|one| one.type_ == condition.type_);
    let since = position
        .filter(|at| conditions[*at].status == condition.status)
        .and_then(|at| conditions[at].last_transition_time.clone());
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    condition.last_transition_time = since.or(Some(Time(now)));
    match position {
        Some(at) if conditions[at] == condition => return false,
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    *written = json!(conditions);
    true
}

/// Reads the pod, changes its status and writes it, if it is the same pod and still has no node.
pub(crate) async fn update_status(
    client: &Client,
    pod: &PodInfo,
    change: impl Fn(&mut Value) -> bool,
) -> Result<Option<ResourceVersion>, Status> {
    let pods = client.namespaced::<Pod>(pod.key.namespace());
    let (pods, change) = (&pods, &change);
    retry_on_conflict(STATUS_UPDATE_ATTEMPTS, || async move {
        let name = pod.key.name();
        let fresh = pods.get(name).await?;
        let mut object: Value = fresh.decode().map_err(Status::internal)?;
        let is_bound = object["spec"]["nodeName"].is_string();
        if fresh.uid() != pod.uid || is_bound || !change(&mut object) {
            return Ok(None);
        }
        let json = object.to_string();
        let written = pods.dynamic().update_subresource(name, "status", json).await?;
        Ok(Some(written.resource_version()))
    })
    .await
}

/// Sets the PodScheduled condition. Returns whether that changed anything.
fn set_condition(now: Timestamp, pod: &mut Value, report: &FailureReport) -> bool {
    let condition = PodCondition {
        type_: POD_SCHEDULED.to_owned(),
        status: "False".to_owned(),
        reason: Some(report.reason.to_owned()),
        message: Some(report.message.clone()),
        ..PodCondition::default()
    };
    put_condition(now, pod, condition)
}

/// Sets or clears `status.nominatedNodeName`. Returns whether that changed anything.
fn set_nominated_node(pod: &mut Value, node: Option<&str>) -> bool {
    let Some(node) = node else {
        return false;
    };
    let status = &mut pod["status"];
    if status["nominatedNodeName"].as_str().unwrap_or_default() == node {
        return false;
    }
    match (node, status.as_object_mut()) {
        ("", Some(fields)) => drop(fields.remove("nominatedNodeName")),
        _ => status["nominatedNodeName"] = json!(node),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(message: &str) -> FailureReport {
        FailureReport {
            reason: "Unschedulable",
            message: message.to_owned(),
            nominated_node: None,
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    /// FL5
    #[test]
    fn the_reason_is_written_once_and_keeps_its_time() {
        let mut pod = json!({"metadata": {"name": "web"}});
        assert!(set_condition(at(5), &mut pod, &report("Too many pods")));
        assert!(!set_condition(at(9), &mut pod, &report("Too many pods")));
        assert!(set_condition(at(9), &mut pod, &report("still Too many pods")));
        let expected = json!([{
            "lastTransitionTime": "1970-01-01T00:00:05Z",
            "message": "still Too many pods",
            "reason": "Unschedulable",
            "status": "False",
            "type": "PodScheduled",
        }]);
        assert_eq!(pod["status"]["conditions"], expected);
    }

    #[test]
    fn all_other_fields_of_a_pod_are_left_as_they_are() {
        let ready = json!({"type": "Ready", "status": "False"});
        let mut pod = json!({
            "metadata": {"generation": 3},
            "spec": {"unknown": [1]},
            "status": {"phase": "Pending", "conditions": [ready]},
        });
        assert!(set_condition(at(5), &mut pod, &report("Too many pods")));
        assert_eq!(pod["spec"], json!({"unknown": [1]}));
        assert_eq!(pod["status"]["phase"], "Pending");
        assert_eq!(pod["status"]["conditions"][0], ready);
        assert_eq!(pod["status"]["conditions"][1]["observedGeneration"], 3);
    }

    #[test]
    fn a_nomination_is_set_and_cleared() {
        let mut pod = json!({"status": {"phase": "Pending"}});
        assert!(!set_nominated_node(&mut pod, None));
        assert!(!set_nominated_node(&mut pod, Some("")));
        assert!(set_nominated_node(&mut pod, Some("n1")));
        assert_eq!(pod["status"]["nominatedNodeName"], "n1");
        assert!(set_nominated_node(&mut pod, Some("")));
        assert_eq!(pod["status"], json!({"phase": "Pending"}));
    }
}
