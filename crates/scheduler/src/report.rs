//! Telling why a pod waits: the condition in its status, pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The condition that says whether a pod has a node.
const POD_SCHEDULED: &str = "PodScheduled";

/// Puts the reason into the pod's status. Says whether that changed anything.
pub(crate) fn set_unschedulable(now: Timestamp, pod: &mut Pod, message: &str) -> bool {
    let generation = pod.metadata.generation;
    let status = pod.status.get_or_insert_default();
    let conditions = status.conditions.get_or_insert_default();
    let known = conditions.iter().position(|one| one.type_ == POD_SCHEDULED);
    let since = known
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
    match known {
        Some(at) if conditions[at] == condition => return false,
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    /// FL5
    #[test]
    fn the_reason_is_written_once_and_keeps_its_time() {
        let mut pod = Pod::default();
        assert!(set_unschedulable(at(5), &mut pod, "no room"));
        assert!(!set_unschedulable(at(9), &mut pod, "no room"));
        assert!(set_unschedulable(at(9), &mut pod, "still no room"));
        let conditions = pod.status.unwrap().conditions.unwrap();
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].reason.as_deref(), Some("Unschedulable"));
        assert_eq!(conditions[0].message.as_deref(), Some("still no room"));
        assert_eq!(conditions[0].last_transition_time, Some(Time(at(5))));
    }
}
