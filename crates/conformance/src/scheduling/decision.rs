//! The decision of a scheduler in one situation, and the file of recorded decisions: one JSON line each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a scheduler did with the pod of a situation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Decision {
    /// The nodes on which the pod fits.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub nodes: BTreeSet<String>,
    /// The node that it was bound to, if the scores decide; absent if kube-scheduler selected different nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// By node, the allocations that the ResourceClaims of the pod get there.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub allocations: BTreeMap<String, Value>,
    /// Reason of the condition PodScheduled of a pod without a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Message of that condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `status.nominatedNodeName`, after preemption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominated: Option<String>,
    /// The names of the pods that were preempted.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub victims: BTreeSet<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    id: String,
    #[serde(flatten)]
    decision: Decision,
}

/// The recorded decisions by the id of their situation.
pub fn read_decisions(path: &Path) -> Result<BTreeMap<String, Decision>> {
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let mut decisions = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line: Line =
            serde_json::from_str(line).with_context(|| format!("{} line {}", path.display(), number + 1))?;
        decisions.insert(line.id, line.decision);
    }
    Ok(decisions)
}

pub fn write_decisions(path: &Path, decisions: &BTreeMap<String, Decision>) -> Result<()> {
    let mut text = String::new();
    for (id, decision) in decisions {
        let line = Line {
            id: id.clone(),
            decision: decision.clone(),
        };
        text.push_str(&serde_json::to_string(&line)?);
        text.push('\n');
    }
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_decisions_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scheduling.jsonl");
        let bound = Decision {
            nodes: BTreeSet::from(["a1".to_owned()]),
            chosen: Some("a1".to_owned()),
            ..Decision::default()
        };
        let decisions = BTreeMap::from([("taints/none".to_owned(), bound)]);
        write_decisions(&path, &decisions).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "{\"id\":\"taints/none\",\"nodes\":[\"a1\"],\"chosen\":\"a1\"}\n"
        );
        assert_eq!(read_decisions(&path).unwrap(), decisions);
    }
}
