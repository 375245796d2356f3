//! How long a pod may stay on a node with taints: pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Taint, Toleration};
use serde::Deserialize;

use crate::moments;
use crate::node_fit::tolerates;

/// How long a pod may stay where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    ForEver,
    For(Duration),
    NoLonger,
}

/// The taints of a node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeTaints {
    spec: NodeTaintsSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeTaintsSpec {
    taints: Vec<Taint>,
}

/// What a pod tolerates.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodTolerations {
    spec: PodTolerationsSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodTolerationsSpec {
    tolerations: Vec<Toleration>,
}

impl NodeTaints {
    /// Those that drive pods out.
    pub(crate) fn drives_out(&self) -> Vec<Taint> {
        let taints = self
            .spec
            .taints
            .iter()
            .filter(|taint| taint.effect == "NoExecute");
        taints.cloned().collect()
    }
}

/// How long a pod of these tolerations may stay on a node of these taints.
pub(crate) fn stay(now: Timestamp, taints: &[Taint], pod: &PodTolerations) -> Stay {
    let mut shortest: Option<Timestamp> = None;
    for taint in taints {
        let mut fitting = pod
            .spec
            .tolerations
            .iter()
            .filter(|toleration| tolerates(toleration, taint))
            .peekable();
        if fitting.peek().is_none() {
            return Stay::NoLonger;
        }
        let since = taint.time_added.as_ref().map_or(now, |time| time.0);
        let seconds = fitting
            .filter_map(|toleration| toleration.toleration_seconds)
            .min();
        if let Some(seconds) = seconds {
            let due = moments::later(since, seconds.max(0));
            shortest = Some(shortest.map_or(due, |own| own.min(due)));
        }
    }
    match shortest {
        None => Stay::ForEver,
        Some(due) => moments::until(now, due).map_or(Stay::NoLonger, Stay::For),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(tolerations: &Value, added: i64, expected: Stay) {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let taint = Taint {
            key: "broken".to_owned(),
            effect: "NoExecute".to_owned(),
            time_added: Some(moments::written(moments::later(now, -added))),
            value: None,
        };
        let pod: PodTolerations =
            serde_json::from_value(json!({"spec": {"tolerations": tolerations}})).unwrap();
        assert_eq!(stay(now, &[taint], &pod), expected);
    }

    #[test]
    fn a_pod_stays_as_long_as_it_bears_the_taint() {
        let for_ever = json!({"key": "broken", "operator": "Exists"});
        let for_a_minute = json!({"key": "broken", "operator": "Exists", "tolerationSeconds": 60});
        check(&json!([]), 0, Stay::NoLonger);
        check(
            &json!([{"key": "other", "operator": "Exists"}]),
            0,
            Stay::NoLonger,
        );
        check(&json!([for_ever]), 0, Stay::ForEver);
        check(&json!([for_a_minute]), 10, Stay::For(Duration::from_secs(50)));
        check(&json!([for_a_minute]), 60, Stay::NoLonger);
        check(&json!([for_ever, for_a_minute]), 60, Stay::NoLonger);
    }
}
