//! [`TaintRule`]: a DeviceTaintRule, which taints devices in addition to the taints that their slices have.

use compact_str::CompactString;
use serde::Deserialize;

use super::allocated::DeviceId;
use super::objects::{DeviceRequest, ObjectView};
use crate::pod_info::Toleration;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TaintRule {
    spec: TaintRuleSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TaintRuleSpec {
    device_selector: Option<DeviceTaintSelector>,
    taint: Toleration,
}

/// Selects the devices that match all its fields; an absent one matches all devices.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DeviceTaintSelector {
    driver: Option<CompactString>,
    pool: Option<CompactString>,
    device: Option<CompactString>,
}

impl TaintRule {
    /// Whether the rule taints the device. A rule without a selector taints none.
    fn selects(&self, id: &DeviceId) -> bool {
        let Some(selector) = &self.spec.device_selector else {
            return false;
        };
        let fields = [
            (&selector.driver, &id.driver),
            (&selector.pool, &id.pool),
            (&selector.device, &id.device),
        ];
        let matches = |(wanted, own): &(&Option<CompactString>, &CompactString)| {
            wanted.as_ref().is_none_or(|wanted| wanted == *own)
        };
        fields.iter().all(matches)
    }
}

/// Whether a rule taints the device, and the request does not tolerate that.
pub(super) fn is_tainted_by_rule(
    rules: &[ObjectView<TaintRule>],
    id: &DeviceId,
    request: &DeviceRequest,
) -> bool {
    let mut rules = rules.iter().map(|rule| &rule.view);
    rules.any(|rule| request.is_kept_off_by(&rule.spec.taint) && rule.selects(id))
}
