//! Which pods no other controller will delete. Pure.

use std::collections::{BTreeSet, HashMap};

use crate::pods::Pod;

/// Why a pod is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionCause {
    /// There are too many terminated pods.
    Finished,
    /// It is terminating and was never bound, so no kubelet will delete it.
    Unscheduled,
    /// Its node does not exist.
    Orphaned,
    /// It is terminating on a node that is out of service, whose kubelet will not delete it.
    OutOfService,
}

/// Whether a node can finish the deletion of its pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeState {
    InService,
    /// It is not ready, and an administrator has tainted it as out of service.
    OutOfService,
}

/// The pods to delete. `gone` are nodes that have been missing for long enough; the nodes that are missing at all are
/// returned in `missing`.
#[derive(Debug, Default)]
pub(crate) struct Plan<'a> {
    pub(crate) deletions: Vec<(&'a Pod, DeletionCause)>,
    pub(crate) missing: BTreeSet<String>,
}

/// Plans for all pods of the cluster.
pub(crate) fn plan<'a>(
    pods: &'a [Pod],
    nodes: &HashMap<String, NodeState>,
    gone: &BTreeSet<String>,
    threshold: usize,
) -> Plan<'a> {
    let mut plan = Plan::default();
    for pod in pods {
        let node = pod.view().node.as_str();
        if node.is_empty() && pod.is_deleting() {
            plan.deletions.push((pod, DeletionCause::Unscheduled));
        } else if pod.is_deleting() && nodes.get(node) == Some(&NodeState::OutOfService) {
            plan.deletions.push((pod, DeletionCause::OutOfService));
        } else if !node.is_empty() && !nodes.contains_key(node) {
            plan.missing.insert(node.to_owned());
            if gone.contains(node) {
                plan.deletions.push((pod, DeletionCause::Orphaned));
            }
        }
    }
    plan.deletions.extend(
        finished(pods, threshold)
            .into_iter()
            .map(|pod| (pod, DeletionCause::Finished)),
    );
    plan
}

/// The oldest terminated pods beyond the threshold; none if the threshold is zero.
fn finished(pods: &[Pod], threshold: usize) -> Vec<&Pod> {
    let mut finished: Vec<&Pod> = pods.iter().filter(|pod| pod.is_finished()).collect();
    if threshold == 0 || finished.len() <= threshold {
        return Vec::new();
    }
    finished.sort_by_key(|pod| (pod.view().created, pod.object().key()));
    finished.truncate(finished.len() - threshold);
    finished
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use setpoint_api::{Header, Key, Stored};

    use super::*;

    fn pod(name: &str, node: &str, phase: &str, deleting: bool, created: i64) -> Pod {
        let mut header = Header::new(Key::new("default", name));
        header.deleting = deleting;
        let created = jiff::Timestamp::from_second(created).unwrap().to_string();
        let body = json!({
            "metadata": {"creationTimestamp": created},
            "spec": {"nodeName": node},
            "status": {"phase": phase},
        });
        Pod::read(Arc::new(Stored::new(header, body.to_string().into(), 1)))
    }

    #[test]
    fn pods_without_a_node_are_deleted() {
        let pods = [
            pod("a", "", "Pending", true, 1),
            pod("b", "", "Pending", false, 1),
            pod("c", "n1", "Running", true, 1),
            pod("d", "n2", "Running", false, 1),
            pod("e", "n3", "Running", false, 1),
        ];
        let nodes = HashMap::from([("n1".to_owned(), NodeState::InService)]);
        let gone = BTreeSet::from(["n3".to_owned()]);
        let plan = plan(&pods, &nodes, &gone, 100);
        let deletions: Vec<_> = plan
            .deletions
            .iter()
            .map(|(pod, cause)| (pod.object().key().name(), *cause))
            .collect();
        assert_eq!(
            deletions,
            [("a", DeletionCause::Unscheduled), ("e", DeletionCause::Orphaned)]
        );
        assert_eq!(plan.missing.into_iter().collect::<Vec<_>>(), ["n2", "n3"]);
    }

    #[test]
    fn terminating_pods_of_a_node_out_of_service_are_deleted() {
        let pods = [
            pod("a", "n1", "Running", true, 1),
            pod("b", "n1", "Running", false, 1),
        ];
        let nodes = HashMap::from([("n1".to_owned(), NodeState::OutOfService)]);
        let plan = plan(&pods, &nodes, &BTreeSet::new(), 100);
        let deletions = plan.deletions.iter();
        let deletions: Vec<_> = deletions
            .map(|(pod, cause)| (pod.object().key().name(), *cause))
            .collect();
        assert_eq!(deletions, [("a", DeletionCause::OutOfService)]);
    }

    #[test]
    fn fl9_of_finished_pods_the_oldest_are_deleted() {
        let pods = [
            pod("a", "n1", "Failed", false, 3),
            pod("b", "n1", "Succeeded", false, 1),
            pod("c", "n1", "Succeeded", false, 2),
            pod("d", "n1", "Running", false, 0),
        ];
        let names = |threshold| -> Vec<&str> {
            finished(&pods, threshold)
                .into_iter()
                .map(|pod| pod.object().key().name())
                .collect()
        };
        assert_eq!(names(1), ["b", "c"]);
        assert_eq!(names(3), Vec::<&str>::new());
        assert_eq!(names(0), Vec::<&str>::new());
    }
}
