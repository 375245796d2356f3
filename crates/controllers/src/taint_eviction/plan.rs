//! How long a pod may stay on a tainted node. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Taint, Toleration};
use serde::Deserialize;

use crate::api_time;
use crate::node_fit::tolerates;

/// How long a pod tolerates the taints of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TolerationTime {
    Forever,
    For(Duration),
    Expired,
}

/// The tolerations of a pod.
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

/// How long a pod with these tolerations may stay on a node with these taints.
pub(crate) fn min_toleration_time(now: Timestamp, taints: &[Taint], pod: &PodTolerations) -> TolerationTime {
    let mut shortest: Option<Timestamp> = None;
    for taint in taints {
        let mut fitting = pod
            .spec
            .tolerations
            .iter()
            .filter(|toleration| tolerates(toleration, taint))
            .peekable();
        if fitting.peek().is_none() {
            return TolerationTime::Expired;
        }
        let since = taint.time_added.as_ref().map_or(now, |time| time.0);
        let seconds = fitting
            .filter_map(|toleration| toleration.toleration_seconds)
            .min();
        if let Some(seconds) = seconds {
            let due = api_time::add_seconds(since, seconds.max(0));
            shortest = Some(shortest.map_or(due, |own| own.min(due)));
        }
    }
    match shortest {
        None => TolerationTime::Forever,
        Some(due) => api_time::duration_until(now, due).map_or(TolerationTime::Expired, TolerationTime::For),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(tolerations: &Value, added: i64, expected: TolerationTime) {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let taint = Taint {
            key: "broken".to_owned(),
            effect: "NoExecute".to_owned(),
            time_added: Some(api_time::from_timestamp(api_time::add_seconds(now, -added))),
            value: None,
        };
        let pod: PodTolerations =
            serde_json::from_value(json!({"spec": {"tolerations": tolerations}})).unwrap();
        assert_eq!(min_toleration_time(now, &[taint], &pod), expected);
    }

    #[test]
    fn a_pod_stays_as_long_as_it_tolerates_the_taint() {
        let for_ever = json!({"key": "broken", "operator": "Exists"});
        let for_a_minute = json!({"key": "broken", "operator": "Exists", "tolerationSeconds": 60});
        check(&json!([]), 0, TolerationTime::Expired);
        check(
            &json!([{"key": "other", "operator": "Exists"}]),
            0,
            TolerationTime::Expired,
        );
        check(&json!([for_ever]), 0, TolerationTime::Forever);
        check(
            &json!([for_a_minute]),
            10,
            TolerationTime::For(Duration::from_secs(50)),
        );
        check(&json!([for_a_minute]), 60, TolerationTime::Expired);
        check(&json!([for_ever, for_a_minute]), 60, TolerationTime::Expired);
    }
}
