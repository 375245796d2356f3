//! Disruption of zones: at which rate nodes that are not ready may get the taints that evict their pods. Pure.
//!
//! A zone with few unready nodes evicts at the normal rate. Where most of a zone is not ready, the zone and not its nodes
//! has probably failed, and the rate is reduced. Where no node of any zone is ready, the control plane itself is
//! probably cut off, and nothing is evicted.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::Key;

use crate::node_lifecycle::plan::NodeView;

/// The settings of the node lifecycle controller, with kube-controller-manager's defaults.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How long a node may be silent before its conditions become Unknown.
    pub grace_period: Duration,
    /// The same for a node that has never reported.
    pub startup_grace_period: Duration,
    /// How often a node whose eviction is held back is checked.
    pub monitor_period: Duration,
    /// Nodes per second whose pods are evicted.
    pub eviction_rate: f64,
    /// The same for a large zone that is partially disrupted; in a small one nothing is evicted.
    pub secondary_eviction_rate: f64,
    /// A zone with more nodes is large.
    pub large_cluster_threshold: usize,
    /// The fraction of unready nodes, at least three, from which a zone is partially disrupted.
    pub unhealthy_zone_threshold: f64,
}

/// How many nodes of a zone are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ZoneState {
    /// Not evaluated yet.
    Initial,
    Normal,
    /// Most nodes are not ready.
    PartialDisruption,
    /// No node is ready.
    FullDisruption,
}

/// What the evaluation of a change means for all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transition {
    None,
    /// No node is ready any more: evictions stop, and their taints are removed.
    EnteredFullDisruption,
    /// A node is ready again: the others have a new grace period.
    ExitedFullDisruption,
}

/// All nodes by zone, and the state of each zone.
#[derive(Debug)]
pub(super) struct Zones {
    settings: Settings,
    nodes: HashMap<Key, Member>,
    zones: BTreeMap<String, Zone>,
    /// Whether no node is ready, so that nothing is evicted.
    is_stopped: bool,
}

/// A node as a member of its zone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    zone: String,
    is_ready: bool,
    /// Whether a label excludes it from the evaluation of its zone.
    is_excluded: bool,
}

#[derive(Debug)]
struct Zone {
    /// All nodes.
    members: usize,
    /// The nodes that are not excluded.
    size: usize,
    unready: usize,
    state: ZoneState,
    limiter: RateLimiter,
}

/// A token bucket with a burst of one, as client-go's.
#[derive(Debug)]
struct RateLimiter {
    per_second: f64,
    tokens: f64,
    updated_at: Timestamp,
}

const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// The labels of a node's region and zone; the deprecated ones take precedence.
const REGION: [&str; 2] = [
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/region",
];
const ZONE: [&str; 2] = [
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/zone",
];

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            grace_period: Duration::from_secs(50),
            startup_grace_period: Duration::from_secs(60),
            monitor_period: Duration::from_secs(5),
            eviction_rate: 0.1,
            secondary_eviction_rate: 0.01,
            large_cluster_threshold: 50,
            unhealthy_zone_threshold: 0.55,
        }
    }
}

impl Settings {
    #[allow(clippy::cast_precision_loss, reason = "the number of nodes is far below 2^52")]
    fn state(&self, zone: &Zone) -> ZoneState {
        if zone.size > 0 && zone.unready == zone.size {
            return ZoneState::FullDisruption;
        }
        let share = zone.unready as f64 / zone.size as f64;
        match zone.unready > 2 && share >= self.unhealthy_zone_threshold {
            true => ZoneState::PartialDisruption,
            false => ZoneState::Normal,
        }
    }

    fn rate(&self, state: ZoneState, size: usize) -> f64 {
        match state {
            ZoneState::PartialDisruption if size > self.large_cluster_threshold => {
                self.secondary_eviction_rate
            }
            ZoneState::PartialDisruption => 0.0,
            _ => self.eviction_rate,
        }
    }
}

// === impl Zones ===

impl Zones {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            nodes: HashMap::new(),
            zones: BTreeMap::new(),
            is_stopped: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether no node is ready, so that nothing is evicted.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Adds nodes before the first evaluation, so that it sees all of them.
    pub(super) fn fill<'a>(&mut self, now: Timestamp, nodes: impl Iterator<Item = (&'a Key, &'a NodeView)>) {
        for (key, view) in nodes {
            self.insert(now, key, Member::of(view));
        }
    }

    /// Takes over the state of a node.
    pub(super) fn observe(&mut self, now: Timestamp, key: &Key, view: &NodeView) -> Transition {
        let member = Member::of(view);
        if self.nodes.get(key) == Some(&member) && self.is_evaluated(&member.zone) {
            return Transition::None;
        }
        self.insert(now, key, member);
        self.evaluate(now)
    }

    /// Takes out a node that was deleted.
    pub(super) fn remove(&mut self, now: Timestamp, key: &Key) -> Transition {
        if let Some(member) = self.nodes.remove(key) {
            self.leave(&member);
        }
        self.evaluate(now)
    }

    /// Whether a node of this zone may be evicted now; otherwise how long until it may be tried again.
    pub(super) fn try_evict(&mut self, now: Timestamp, view: &NodeView) -> Result<(), Duration> {
        let retry = self.settings.monitor_period;
        match self.zones.get_mut(&zone_of(view)) {
            Some(zone) if !self.is_stopped => zone.limiter.try_accept(now).map_err(|wait| wait.min(retry)),
            _ => Err(retry),
        }
    }

    fn is_evaluated(&self, zone: &str) -> bool {
        let zone = self.zones.get(zone);
        zone.is_some_and(|zone| zone.state != ZoneState::Initial)
    }

    fn insert(&mut self, now: Timestamp, key: &Key, member: Member) {
        let rate = self.settings.eviction_rate;
        let zone = self.zones.entry(member.zone.clone()).or_insert_with(|| Zone {
            members: 0,
            size: 0,
            unready: 0,
            state: ZoneState::Initial,
            limiter: RateLimiter::new(rate, now),
        });
        zone.members += 1;
        if !member.is_excluded {
            zone.size += 1;
            zone.unready += usize::from(!member.is_ready);
        }
        if let Some(before) = self.nodes.insert(key.clone(), member) {
            self.leave(&before);
        }
    }

    fn leave(&mut self, member: &Member) {
        let Some(zone) = self.zones.get_mut(&member.zone) else {
            return;
        };
        zone.members -= 1;
        if !member.is_excluded {
            zone.size -= 1;
            zone.unready -= usize::from(!member.is_ready);
        }
        if zone.members == 0 {
            self.zones.remove(&member.zone);
        }
    }

    fn evaluate(&mut self, now: Timestamp) -> Transition {
        let settings = self.settings;
        let counted = || self.zones.values().filter(|zone| zone.size > 0);
        let is_down =
            counted().count() > 0 && counted().all(|zone| settings.state(zone) == ZoneState::FullDisruption);
        let was_stopped = std::mem::replace(&mut self.is_stopped, is_down);
        for zone in self.zones.values_mut() {
            let state = settings.state(zone);
            if zone.state != state || (was_stopped && !is_down) {
                zone.state = state;
                zone.limiter.set_rate(settings.rate(state, zone.size), now);
            }
        }
        match (was_stopped, is_down) {
            (false, true) => Transition::EnteredFullDisruption,
            (true, false) => Transition::ExitedFullDisruption,
            _ => Transition::None,
        }
    }
}

// === impl Member ===

impl Member {
    fn of(view: &NodeView) -> Self {
        Self {
            zone: zone_of(view),
            is_ready: view.status_of("Ready") == Some("True"),
            is_excluded: view.metadata.labels.contains_key(EXCLUDED),
        }
    }
}

/// The key of a node's zone, which is unique in all regions; empty without zones.
fn zone_of(view: &NodeView) -> String {
    let labels = &view.metadata.labels;
    let find = |keys: [&str; 2]| keys.into_iter().find_map(|key| labels.get(key));
    match (find(REGION), find(ZONE)) {
        (None, None) => String::new(),
        (region, zone) => {
            let text = |label: Option<&String>| label.map(String::as_str).unwrap_or_default().to_owned();
            format!("{}:\0:{}", text(region), text(zone))
        }
    }
}

// === impl RateLimiter ===

impl RateLimiter {
    fn new(per_second: f64, now: Timestamp) -> Self {
        Self {
            per_second,
            tokens: 1.0,
            updated_at: now,
        }
    }

    /// Takes a token; otherwise how long until there is one.
    fn try_accept(&mut self, now: Timestamp) -> Result<(), Duration> {
        let passed = now.duration_since(self.updated_at).as_secs_f64().max(0.0);
        self.tokens = (self.tokens + passed * self.per_second).min(1.0);
        self.updated_at = now;
        if self.per_second <= 0.0 {
            return Err(Duration::MAX);
        }
        if self.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.tokens) / self.per_second));
        }
        self.tokens -= 1.0;
        Ok(())
    }

    /// Changes the rate. The new bucket is empty if the old one was.
    fn set_rate(&mut self, per_second: f64, now: Timestamp) {
        if self.per_second.to_bits() == per_second.to_bits() {
            return;
        }
        let has_token = self.try_accept(now).is_ok();
        *self = Self::new(per_second, now);
        self.tokens = if has_token { 1.0 } else { 0.0 };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn node(zone: &str, ready: &str) -> NodeView {
        let body = json!({
            "metadata": {"labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        serde_json::from_value(body).unwrap()
    }

    /// Zones with this many ready and unready nodes each.
    fn zones(counts: &[(&str, usize, usize)]) -> (Zones, Transition) {
        let mut zones = Zones::new(Settings::default());
        let mut transition = Transition::None;
        for (zone, ready, unready) in counts {
            let members = std::iter::repeat_n("True", *ready).chain(std::iter::repeat_n("Unknown", *unready));
            for (at, status) in members.enumerate() {
                let key = Key::new("", &format!("{zone}-{at}"));
                zones.fill(self::at(0), [(&key, &node(zone, status))].into_iter());
            }
        }
        if !zones.is_empty() {
            transition = zones.evaluate(at(0));
        }
        (zones, transition)
    }

    /// The state of each zone and its rate, or `stopped`.
    #[track_caller]
    fn check(counts: &[(&str, usize, usize)], expected: &[&str]) {
        let (zones, _) = zones(counts);
        let shown = zones.zones.values().map(|zone| match zones.is_stopped() {
            true => "stopped".to_owned(),
            false => format!("{:?} {}", zone.state, zone.limiter.per_second),
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_rate_of_a_zone_follows_its_unready_nodes() {
        check(&[("a", 3, 0)], &["Normal 0.1"]);
        check(&[("a", 1, 2)], &["Normal 0.1"]);
        check(&[("a", 2, 3)], &["PartialDisruption 0"]);
        check(&[("a", 20, 31)], &["PartialDisruption 0.01"]);
        check(&[("a", 30, 21)], &["Normal 0.1"]);
        check(&[("a", 1, 0), ("b", 0, 2)], &["Normal 0.1", "FullDisruption 0.1"]);
    }

    #[test]
    fn nothing_is_evicted_if_no_node_of_any_zone_is_ready() {
        check(&[("a", 0, 1)], &["stopped"]);
        check(&[("a", 0, 1), ("b", 0, 5)], &["stopped", "stopped"]);
    }

    #[test]
    fn full_disruption_ends_with_the_first_ready_node() {
        let (mut zones, entered) = zones(&[("a", 0, 2)]);
        assert_eq!(entered, Transition::EnteredFullDisruption);
        assert!(zones.try_evict(at(1), &node("a", "Unknown")).is_err());
        let key = Key::new("", "a-0");
        let exited = zones.observe(at(2), &key, &node("a", "True"));
        assert_eq!(exited, Transition::ExitedFullDisruption);
        assert_eq!(zones.observe(at(3), &key, &node("a", "True")), Transition::None);
        assert_eq!(zones.try_evict(at(4), &node("a", "Unknown")), Ok(()));
    }

    #[test]
    fn a_deleted_node_is_not_counted() {
        let (mut zones, _) = zones(&[("a", 1, 1)]);
        let last = zones.remove(at(1), &Key::new("", "a-0"));
        assert_eq!(last, Transition::EnteredFullDisruption);
    }

    #[test]
    fn an_excluded_node_decides_nothing() {
        let (mut zones, _) = zones(&[("a", 0, 1)]);
        let mut excluded = node("a", "True");
        excluded
            .metadata
            .labels
            .insert(EXCLUDED.to_owned(), String::new());
        assert_eq!(
            zones.observe(at(1), &Key::new("", "b"), &excluded),
            Transition::None
        );
        assert!(zones.is_stopped());
    }

    #[test]
    fn one_node_is_evicted_every_ten_seconds() {
        let (mut zones, _) = zones(&[("a", 3, 2)]);
        let unready = node("a", "Unknown");
        assert_eq!(zones.try_evict(at(1), &unready), Ok(()));
        assert_eq!(zones.try_evict(at(8), &unready), Err(Duration::from_secs(3)));
        assert_eq!(zones.try_evict(at(11), &unready), Ok(()));
    }
}
