//! [`PodCount`]: how many pods of a Deployment there were at each revision, from the events of two watches.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use crate::objects;

/// What happened at a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// A pod is active: it is not being deleted and has not ended.
    Active { pod: String, owner: String },
    /// A pod is deleted, is being deleted, or has ended.
    Inactive { pod: String },
    /// A ReplicaSet wants so many pods.
    Replicas { owner: String, replicas: u64 },
}

/// The changes of a rollout by revision, in whatever order they were received.
#[derive(Debug, Default)]
pub(crate) struct PodCount {
    changes: BTreeMap<u64, Change>,
}

/// The result of a count.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PodTotals {
    /// The most pods that were active at a revision.
    pub(crate) most: usize,
    pub(crate) created: usize,
    pub(crate) violations: Vec<String>,
}

impl Change {
    /// The change that an event of a pod or a ReplicaSet shows, with its revision. A bookmark shows none.
    pub(crate) fn of_event(event: &Value) -> Option<(u64, Self)> {
        if event["type"] == "BOOKMARK" {
            return None;
        }
        let object = &event["object"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let uid = text(&object["metadata"]["uid"]);
        let change = match object["kind"].as_str()? {
            "ReplicaSet" => Self::Replicas {
                owner: uid,
                replicas: object["spec"]["replicas"].as_u64()?,
            },
            "Pod" => {
                let has_ended = matches!(object["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
                let is_deleted =
                    event["type"] == "DELETED" || object["metadata"]["deletionTimestamp"].is_string();
                match has_ended || is_deleted {
                    true => Self::Inactive { pod: uid },
                    false => Self::Active {
                        pod: uid,
                        owner: text(&object["metadata"]["ownerReferences"][0]["uid"]),
                    },
                }
            }
            _ => return None,
        };
        Some((objects::revision(object), change))
    }
}

impl PodCount {
    pub(crate) fn add(&mut self, revision: u64, change: Change) {
        self.changes.insert(revision, change);
    }

    /// Counts the pods after each revision. There must never be more than the limit, and never more pods of a ReplicaSet than
    /// it has ever wanted until then.
    pub(crate) fn count(&self, limit: usize) -> PodTotals {
        let mut totals = PodTotals::default();
        let mut active: HashMap<&str, &str> = HashMap::new();
        let mut created: HashSet<&str> = HashSet::new();
        let mut wanted: HashMap<&str, u64> = HashMap::new();
        for (revision, change) in &self.changes {
            match change {
                Change::Inactive { pod } => drop(active.remove(pod.as_str())),
                Change::Replicas { owner, replicas } => {
                    let most = wanted.entry(owner).or_default();
                    *most = (*most).max(*replicas);
                }
                Change::Active { pod, owner } => {
                    if !created.insert(pod) {
                        continue;
                    }
                    active.insert(pod, owner);
                    let own = active.values().filter(|other| **other == owner).count();
                    let most = wanted.get(owner.as_str()).copied().unwrap_or_default();
                    if own as u64 > most {
                        let text = format!(
                            "revision {revision}: {own} pods of ReplicaSet {owner}, which wants {most}"
                        );
                        totals.violations.push(text);
                    }
                    if active.len() > limit {
                        let text = format!("revision {revision}: {} pods, more than {limit}", active.len());
                        totals.violations.push(text);
                    }
                }
            }
            totals.most = totals.most.max(active.len());
        }
        totals.created = created.len();
        totals
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `+a` is a new pod, `-a` its end, `=2` the wanted number.
    #[track_caller]
    fn check(changes: &[&str], most: usize, violations: &[&str]) {
        let mut count = PodCount::default();
        for (revision, text) in (1..).zip(changes) {
            let (change, name) = text.split_at(1);
            let (pod, owner) = (name.to_owned(), "set".to_owned());
            let change = match change {
                "+" => Change::Active { pod, owner },
                "-" => Change::Inactive { pod },
                _ => Change::Replicas {
                    owner,
                    replicas: name.parse().unwrap(),
                },
            };
            count.add(revision, change);
        }
        let totals = count.count(3);
        assert_eq!(
            (totals.most, totals.violations),
            (most, violations.iter().map(ToString::to_string).collect())
        );
    }

    #[test]
    fn an_event_shows_whether_a_pod_is_active() {
        let event = |event_type: &str, metadata: Value, phase: &str| {
            let object = json!({"kind": "Pod", "metadata": metadata, "status": {"phase": phase}});
            Change::of_event(&json!({"type": event_type, "object": object}))
        };
        let metadata = json!({"resourceVersion": "7", "uid": "a", "ownerReferences": [{"uid": "set"}]});
        let (pod, owner) = ("a".to_owned(), "set".to_owned());
        let active = Change::Active {
            pod: pod.clone(),
            owner,
        };
        assert_eq!(event("ADDED", metadata.clone(), "Pending"), Some((7, active)));
        let inactive = Some((7, Change::Inactive { pod }));
        assert_eq!(event("MODIFIED", metadata.clone(), "Failed"), inactive);
        assert_eq!(event("DELETED", metadata.clone(), "Running"), inactive);
        let mut terminating = metadata;
        terminating["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(event("MODIFIED", terminating, "Running"), inactive);
        assert_eq!(event("BOOKMARK", json!({"resourceVersion": "7"}), ""), None);
    }

    #[test]
    fn a_pod_too_many_is_reported_at_its_revision() {
        check(&["=2", "+a", "+b"], 2, &[]);
        check(&["=2", "+a", "+b", "-a", "+c"], 2, &[]);
        check(
            &["=2", "+a", "+b", "+c"],
            3,
            &["revision 4: 3 pods of ReplicaSet set, which wants 2"],
        );
        check(
            &["=4", "+a", "+b", "+c", "+d"],
            4,
            &["revision 5: 4 pods, more than 3"],
        );
        check(
            &["+a"],
            1,
            &["revision 1: 1 pods of ReplicaSet set, which wants 0"],
        );
        // A later event of a pod that is known, and one of a pod that has ended.
        check(&["=1", "+a", "+a", "-a", "+a"], 1, &[]);
    }
}
