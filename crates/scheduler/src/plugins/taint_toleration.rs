//! A node's taints keep away the pods that do not tolerate them.

use std::borrow::Cow;

use crate::framework::Filter;
use crate::node_info::{NodeInfo, NodeProperties};
use crate::pod_info::{PodInfo, Toleration};

#[derive(Debug)]
pub(super) struct TaintToleration;

impl Filter for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn fits(&self, pod: &PodInfo, _: &NodeInfo, properties: &NodeProperties) -> bool {
        let mut forbidding = properties.taints.iter().filter(|taint| forbids(taint));
        forbidding.all(|taint| pod.tolerates(taint))
    }

    fn reasons(&self, _: &PodInfo, _: &NodeInfo, _: &NodeProperties) -> Vec<Cow<'static, str>> {
        vec!["node(s) had untolerated taint(s)".into()]
    }
}

/// Whether the taint keeps pods away, and is not a mere preference.
fn forbids(taint: &Toleration) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A taint as `key=value:effect`, a toleration likewise, with `*` for any value.
    fn parse(text: &str) -> Toleration {
        let (rest, effect) = text.split_once(':').unwrap();
        let (key, value) = rest.split_once('=').unwrap();
        let operator = if value == "*" { "Exists" } else { "Equal" };
        Toleration {
            key: key.into(),
            operator: operator.into(),
            value: value.into(),
            effect: effect.into(),
        }
    }

    #[track_caller]
    fn check(taints: &[&str], tolerations: &[&str], expected: bool) {
        let mut pod = crate::fixtures::pod("p", "");
        pod.tolerations = tolerations.iter().map(|text| parse(text)).collect();
        let properties = NodeProperties {
            taints: taints.iter().map(|text| parse(text)).collect(),
            ..NodeProperties::default()
        };
        assert_eq!(
            TaintToleration.fits(&pod, &NodeInfo::new("n"), &properties),
            expected
        );
    }

    #[test]
    fn every_forbidding_taint_must_be_tolerated() {
        check(&[], &[], true);
        check(&["a=b:NoSchedule"], &[], false);
        check(&["a=b:PreferNoSchedule"], &[], true);
        check(&["a=b:NoSchedule"], &["a=b:NoSchedule"], true);
        check(&["a=b:NoSchedule"], &["a=c:NoSchedule"], false);
        check(&["a=b:NoSchedule"], &["a=*:"], true);
        check(&["a=b:NoSchedule", "c=d:NoExecute"], &["a=*:"], false);
        check(&["a=b:NoSchedule", "c=d:NoExecute"], &["=*:"], true);
    }
}
