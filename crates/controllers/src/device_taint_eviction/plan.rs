//! Which device taints evict the pods that use a claim, and when. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;

use crate::api_time;

/// The effect that evicts pods.
pub(super) const NO_EXECUTE: &str = "NoExecute";

/// The devices and the consumers of a ResourceClaim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Claim {
    pub(super) status: ClaimStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClaimStatus {
    allocation: Allocation,
    pub(super) reserved_for: Vec<Consumer>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Allocation {
    devices: AllocatedDevices,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct AllocatedDevices {
    results: Vec<AllocatedDevice>,
}

/// A device allocated to a claim, with the claim's tolerations.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct AllocatedDevice {
    pub(super) driver: String,
    pub(super) pool: String,
    device: String,
    tolerations: Vec<Toleration>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Toleration {
    key: String,
    operator: String,
    value: String,
    effect: String,
    toleration_seconds: Option<i64>,
}

/// A consumer of a claim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Consumer {
    pub(super) api_group: String,
    pub(super) resource: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// A ResourceSlice: some of the devices of a pool.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Slice {
    pub(super) spec: SliceSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct SliceSpec {
    pub(super) driver: String,
    pub(super) pool: Pool,
    devices: Vec<Device>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pool {
    pub(super) name: String,
    generation: i64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Device {
    name: String,
    taints: Vec<Taint>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Taint {
    key: String,
    value: String,
    pub(super) effect: String,
    time_added: Option<Timestamp>,
}

/// A DeviceTaintRule.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Rule {
    pub(super) metadata: RuleMeta,
    pub(super) spec: RuleSpec,
    pub(super) status: RuleStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct RuleMeta {
    pub(super) uid: String,
    pub(super) generation: i64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RuleSpec {
    device_selector: Option<Selector>,
    pub(super) taint: Taint,
}

/// Selects devices; an absent field matches any.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Selector {
    driver: Option<String>,
    pool: Option<String>,
    device: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct RuleStatus {
    pub(super) conditions: Vec<Condition>,
}

/// The progress condition of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) type_: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) observed_generation: i64,
    pub(super) last_transition_time: Option<Timestamp>,
}

/// When pods are evicted, and the rules (by uid) among the reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Eviction {
    pub(super) when: Timestamp,
    pub(super) rules: BTreeSet<String>,
}

/// What a rule affects: pods and their namespaces, published and allocated devices, and the pods it has evicted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) pods: usize,
    pub(super) namespaces: usize,
    pub(super) published: usize,
    pub(super) allocated: usize,
    pub(super) evicted: u64,
}

// === impl Claim ===

impl Claim {
    pub(super) fn devices(&self) -> &[AllocatedDevice] {
        &self.status.allocation.devices.results
    }

    /// Whether the pod of this uid may use it.
    pub(super) fn is_reserved_for(&self, uid: &str) -> bool {
        self.pods().any(|consumer| consumer.uid == uid)
    }

    /// The pods that may use it.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Consumer> {
        let is_pod = |one: &&Consumer| one.api_group.is_empty() && one.resource == "pods";
        self.status.reserved_for.iter().filter(is_pod)
    }

    /// When the consumers of the claim are evicted, by the published taints of its devices and by rules.
    pub(super) fn eviction(
        &self,
        slices: impl Fn(&AllocatedDevice) -> Vec<Arc<Slice>>,
        rules: &[Arc<Rule>],
    ) -> Option<Eviction> {
        let mut evictions = Vec::new();
        for device in self.devices() {
            let slices = slices(device);
            let own = published(&slices).flat_map(|slice| &slice.spec.devices);
            let own = own
                .filter(|own| own.name == device.device)
                .flat_map(|own| &own.taints);
            let own = own.map(|taint| (taint, None));
            let ruled = rules.iter().filter(|rule| rule.applies_to(device));
            let ruled = ruled.map(|rule| (&rule.spec.taint, Some(rule.metadata.uid.clone())));
            for (taint, rule) in own.chain(ruled).filter(|(taint, _)| taint.effect == NO_EXECUTE) {
                let rules = rule.into_iter().collect();
                evictions.extend(device.tolerated_until(taint).map(|when| Eviction { when, rules }));
            }
        }
        evictions.into_iter().reduce(Eviction::and)
    }
}

/// The slices of the newest pool generation; older ones are obsolete.
fn published(slices: &[Arc<Slice>]) -> impl Iterator<Item = &Slice> {
    let newest = slices.iter().map(|slice| slice.spec.pool.generation).max();
    let slices = slices.iter().map(|slice| &**slice);
    slices.filter(move |slice| Some(slice.spec.pool.generation) == newest)
}

/// How many published devices a rule selects among all slices of one pool.
pub(super) fn devices_of(rule: &Rule, slices: &[Arc<Slice>]) -> usize {
    let count = |slice: &Slice| {
        let SliceSpec {
            driver,
            pool,
            devices,
        } = &slice.spec;
        let is_it = |device: &&Device| rule.selects(driver, &pool.name, &device.name);
        devices.iter().filter(is_it).count()
    };
    published(slices).map(count).sum()
}

// === impl AllocatedDevice ===

impl AllocatedDevice {
    /// Until when the taint is tolerated; `None` if forever.
    fn tolerated_until(&self, taint: &Taint) -> Option<Timestamp> {
        let added = taint.time_added.unwrap_or(Timestamp::MIN);
        let mut shortest = None;
        for toleration in self.tolerations.iter().filter(|own| own.tolerates(taint)) {
            let seconds = toleration.toleration_seconds?.max(0);
            shortest = Some(shortest.map_or(seconds, |own: i64| own.min(seconds)));
        }
        Some(api_time::add_seconds(added, shortest.unwrap_or(0)))
    }
}

impl Toleration {
    fn tolerates(&self, taint: &Taint) -> bool {
        let same_value = || self.operator == "Exists" || self.value == taint.value;
        self.effect == NO_EXECUTE && (self.key.is_empty() || self.key == taint.key) && same_value()
    }
}

// === impl Rule ===

impl Rule {
    pub(super) fn applies_to(&self, device: &AllocatedDevice) -> bool {
        self.selects(&device.driver, &device.pool, &device.device)
    }

    /// A rule without a selector selects no device.
    fn selects(&self, driver: &str, pool: &str, device: &str) -> bool {
        let is = |own: &Option<String>, other: &str| own.as_deref().is_none_or(|own| own == other);
        let selector = self.spec.device_selector.as_ref();
        selector.is_some_and(|own| is(&own.driver, driver) && is(&own.pool, pool) && is(&own.device, device))
    }

    /// The same rule with the NoExecute effect, to simulate it.
    pub(super) fn with_no_execute_effect(&self) -> Self {
        let mut rule = self.clone();
        NO_EXECUTE.clone_into(&mut rule.spec.taint.effect);
        rule
    }

    /// Status, reason and message of the rule's progress condition.
    pub(super) fn progress(&self, counts: Counts) -> (&'static str, &'static str, String) {
        let (status, reason, mut message) = match self.spec.taint.effect.as_str() {
            NO_EXECUTE if counts.pods > 0 => ("True", "PodsPendingEviction", counts.pending()),
            NO_EXECUTE if counts.evicted > 0 => ("False", "Completed", String::new()),
            NO_EXECUTE => ("False", "NotStarted", String::new()),
            "None" => ("False", "NoEffect", counts.simulated()),
            _ => {
                let message = "Eviction only happens for the NoExecute effect.";
                ("False", "OtherEffect", message.to_owned())
            }
        };
        if counts.evicted > 0 {
            let gap = if message.is_empty() { "" } else { " " };
            let pods = several(counts.evicted, "pod", "pods");
            message.push_str(&format!("{gap}{pods} evicted since starting the controller."));
        }
        (status, reason, message)
    }
}

// === impl Counts ===

impl Counts {
    fn pending(self) -> String {
        let pods = several(self.pods, "pod needs", "pods need");
        let namespaces = several(self.namespaces, "namespace", "different namespaces");
        format!("{pods} to be evicted in {namespaces}.")
    }

    fn simulated(self) -> String {
        let published = several(self.published, "published device", "published devices");
        let allocated = several(self.allocated, "allocated device", "allocated devices");
        let pods = several(self.pods, "pod", "pods");
        let namespaces = several(self.namespaces, "namespace", "different namespaces");
        format!(
            "{published} selected. {allocated} selected. {pods} would be evicted in {namespaces} if the effect was \
             NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        )
    }
}

fn several(count: impl TryInto<u64>, one: &str, many: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{count} {}", if count == 1 { one } else { many })
}

// === impl Eviction ===

impl Eviction {
    /// Combines two evictions: the earlier time, the reasons of both.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.when = self.when.min(other.when);
        self.rules.extend(other.rules);
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> String {
        Timestamp::from_second(second).unwrap().to_string()
    }

    fn taint(second: i64) -> Value {
        json!({"key": "broken", "value": "very", "effect": "NoExecute", "timeAdded": at(second)})
    }

    fn slice(generation: i64, taints: Value) -> Slice {
        let devices = json!([{"name": "gpu-0", "taints": taints}]);
        let pool = json!({"name": "n1", "generation": generation});
        let spec = json!({"driver": "example.com", "pool": pool, "devices": devices});
        serde_json::from_value(json!({"spec": spec})).unwrap()
    }

    fn rule(selector: Value, second: i64) -> Rule {
        let spec = json!({"deviceSelector": selector, "taint": taint(second)});
        serde_json::from_value(json!({"metadata": {"uid": "r1"}, "spec": spec})).unwrap()
    }

    /// When the consumers of `gpu-0` of pool `n1` with these tolerations are evicted.
    #[track_caller]
    fn check(tolerations: Value, slices: &[Slice], rules: &[Rule], expected: Option<i64>) {
        let device =
            json!({"driver": "example.com", "pool": "n1", "device": "gpu-0", "tolerations": tolerations});
        let status = json!({"allocation": {"devices": {"results": [device]}}});
        let claim: Claim = serde_json::from_value(json!({"status": status})).unwrap();
        let rules: Vec<Arc<Rule>> = rules.iter().cloned().map(Arc::new).collect();
        let eviction = claim.eviction(|_| slices.iter().cloned().map(Arc::new).collect(), &rules);
        assert_eq!(eviction.map(|own| own.when.as_second()), expected);
    }

    #[test]
    fn a_taint_of_the_newest_generation_evicts_at_once() {
        check(json!([]), &[], &[], None);
        check(json!([]), &[slice(1, json!([taint(100)]))], &[], Some(100));
        check(
            json!([]),
            &[slice(1, json!([taint(100)])), slice(2, json!([]))],
            &[],
            None,
        );
        let other = json!([{"key": "broken", "effect": "NoSchedule", "timeAdded": at(100)}]);
        check(json!([]), &[slice(1, other)], &[], None);
    }

    #[test]
    fn toleration_seconds_evict_after_the_shortest() {
        let row = |tolerations: Value, expected| {
            check(tolerations, &[slice(1, json!([taint(100)]))], &[], expected)
        };
        let bearing = |operator: &str, value: &str, seconds: Value| json!({"key": "broken", "operator": operator, "value": value, "effect": "NoExecute", "tolerationSeconds": seconds});
        row(json!([bearing("Exists", "", json!(60))]), Some(160));
        row(
            json!([
                bearing("Exists", "", json!(60)),
                bearing("Equal", "very", json!(5))
            ]),
            Some(105),
        );
        row(json!([bearing("Equal", "little", json!(60))]), Some(100));
        row(
            json!([
                bearing("Exists", "", Value::Null),
                bearing("Exists", "", json!(5))
            ]),
            None,
        );
        row(json!([{"operator": "Exists", "effect": "NoExecute"}]), None);
        // As upstream has it, a toleration without an effect does not tolerate NoExecute.
        row(json!([{"operator": "Exists"}]), Some(100));
    }

    #[test]
    fn a_rule_applies_to_the_devices_it_selects() {
        let row = |selector: Value, expected| check(json!([]), &[], &[rule(selector, 50)], expected);
        row(json!({}), Some(50));
        row(
            json!({"driver": "example.com", "pool": "n1", "device": "gpu-0"}),
            Some(50),
        );
        row(json!({"pool": "n2"}), None);
        row(json!({"device": "gpu-1"}), None);
        row(Value::Null, None);
        let both = [slice(1, json!([taint(100)]))];
        check(json!([]), &both, &[rule(json!({}), 50)], Some(50));
    }

    #[track_caller]
    fn check_progress(effect: &str, counts: Counts, reason: &str, message: &str) {
        let mut rule = rule(json!({}), 0);
        effect.clone_into(&mut rule.spec.taint.effect);
        let (_, reported, words) = rule.progress(counts);
        assert_eq!((reported, words.as_str()), (reason, message));
    }

    #[test]
    fn a_rule_reports_its_progress() {
        let counts = |pods, namespaces, evicted| Counts {
            pods,
            namespaces,
            evicted,
            ..Counts::default()
        };
        check_progress("NoExecute", counts(0, 0, 0), "NotStarted", "");
        let reported = "1 pod needs to be evicted in 1 namespace.";
        check_progress("NoExecute", counts(1, 1, 0), "PodsPendingEviction", reported);
        let reported = "3 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller.";
        check_progress("NoExecute", counts(3, 2, 1), "PodsPendingEviction", reported);
        let reported = "2 pods evicted since starting the controller.";
        check_progress("NoExecute", counts(0, 0, 2), "Completed", reported);
        let reported = "Eviction only happens for the NoExecute effect.";
        check_progress("NoSchedule", counts(0, 0, 0), "OtherEffect", reported);
        let reported = "0 published devices selected. 0 allocated devices selected. 1 pod would be evicted in 1 namespace if \
                    the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule \
                    to trigger an update.";
        check_progress("None", counts(1, 1, 0), "NoEffect", reported);
    }
}
