//! The PodScheduled condition of an unschedulable pod: pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

/// The condition for whether a pod has a node.
const POD_SCHEDULED: &str = "PodScheduled";

/// Sets the condition in the pod's status. Returns whether that changed anything.
///
/// The pod is a JSON tree of which only the conditions are decoded: all other fields are written back as they came, and the
/// whole Pod type need not be compiled for it.
pub(crate) fn set_unschedulable(now: Timestamp, pod: &mut Value, message: &str) -> bool {
    let generation = pod["metadata"]["generation"].as_i64();
    let written = &mut pod["status"]["conditions"];
    let Ok(read) = serde_json::from_value::<Option<Vec<PodCondition>>>(written.clone()) else {
        return false;
    };
    let mut conditions = read.unwrap_or_default();
    let position = conditions.iter().position(|one| one.type_ == POD_SCHEDULED);
    let since = position
        .filter(|at| conditions[*at].status == "False")
        .and_then(|at| conditions[at].last_transition_time.clone());
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let condition = PodCondition {
        type_: POD_SCHEDULED.to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: since.or(Some(Time(now))),
        observed_generation: generation,
        ..PodCondition::default()
    };
    match position {
        Some(at) if conditions[at] == condition => return false,
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    *written = serde_json::json!(conditions);
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    /// FL5
    #[test]
    fn the_reason_is_written_once_and_keeps_its_time() {
        let mut pod = json!({"metadata": {"name": "web"}});
        assert!(set_unschedulable(at(5), &mut pod, "no room"));
        assert!(!set_unschedulable(at(9), &mut pod, "no room"));
        assert!(set_unschedulable(at(9), &mut pod, "still no room"));
        let expected = json!([{
            "lastTransitionTime": "1970-01-01T00:00:05Z",
            "message": "still no room",
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
        assert!(set_unschedulable(at(5), &mut pod, "no room"));
        assert_eq!(pod["spec"], json!({"unknown": [1]}));
        assert_eq!(pod["status"]["phase"], "Pending");
        assert_eq!(pod["status"]["conditions"][0], ready);
        assert_eq!(pod["status"]["conditions"][1]["observedGeneration"], 3);
    }
}
