//! [`RecentBindings`]: the last binding to each node, by which a scheduler learns that another one has used the node
//! meanwhile (the idea of Omega: the shared state detects the conflict).
//!
//! A Binding may name in `target.resourceVersion` the version of the pods that its node was selected by. It is rejected
//! if another binder has bound a pod to that node since: what the scheduler saw there may no longer hold. The bindings of
//! the same binder never conflict, since a scheduler counts its own pods before it binds them. A Binding without that
//! version is recorded, and accepted as by Kubernetes.
//!
//! For example, A and B have both read the pods up to version 7 and select node n:
//!
//! ```text
//! A: binds p, observed 7    committed as 8
//! A: binds q, observed 7    committed as 9, since 8 is its own
//! B: binds r, observed 7    rejected: another binder was at n after 7
//! B: reads 8 and 9, counts p and q on n, selects again
//! ```

use std::collections::HashMap;

use compact_str::CompactString;
use parking_lot::Mutex;

use setpoint_api::ResourceVersion;

/// Nodes of which the last binding is known; beyond this the older half is dropped.
const MAX_NODES: usize = 1 << 17;

/// The last binding to each node.
#[derive(Debug, Default)]
pub(crate) struct RecentBindings {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    nodes: HashMap<CompactString, NodeBindings>,
    /// Every binding after this version is known.
    complete_after: ResourceVersion,
}

#[derive(Debug, Default)]
struct NodeBindings {
    /// The binder of the last binding, and its version.
    last: Option<(CompactString, ResourceVersion)>,
    /// The version of the last binding by another binder than that.
    last_by_others: ResourceVersion,
    /// The binders whose bindings are being committed.
    pending: Vec<CompactString>,
}

/// What a scheduler has seen of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation<'a> {
    pub(super) node: &'a str,
    /// The field manager of the request.
    pub(super) binder: &'a str,
    /// The version of the pods by which the node was selected; `None` accepts any.
    pub(super) version: Option<ResourceVersion>,
}

/// The result of comparing an observation with the bindings to its node.
#[derive(Debug)]
pub(super) enum Comparison<'a> {
    /// No other binder was there.
    Current(PendingBinding<'a>),
    /// The observation is older than what is recorded: the pods on the node have to be looked at.
    Unknown(PendingBinding<'a>),
    /// Another binder was there, or is just now.
    Stale,
}

/// A binding that is being committed. If it is dropped, it failed.
#[derive(Debug)]
pub(super) struct PendingBinding<'a> {
    recent: &'a RecentBindings,
    node: CompactString,
    binder: CompactString,
}

impl RecentBindings {
    /// No binding up to this version is known.
    pub(crate) fn after(version: ResourceVersion) -> Self {
        let recent = Self::default();
        recent.state.lock().complete_after = version;
        recent
    }

    /// Compares an observation with the bindings to the node, and announces a binding unless it is stale. Of two binders
    /// that compare at the same time, one sees the other's announcement.
    pub(super) fn begin<'a>(&'a self, observation: Observation<'_>) -> Comparison<'a> {
        let Observation {
            node,
            binder,
            version,
        } = observation;
        let mut state = self.state.lock();
        let complete_after = state.complete_after;
        let bindings = state.nodes.entry(node.into()).or_default();
        if version.is_some_and(|version| bindings.is_used_by_others(binder, version)) {
            return Comparison::Stale;
        }
        bindings.pending.push(binder.into());
        let pending = PendingBinding {
            recent: self,
            node: node.into(),
            binder: binder.into(),
        };
        match version.is_some_and(|version| version < complete_after) {
            true => Comparison::Unknown(pending),
            false => Comparison::Current(pending),
        }
    }
}

impl State {
    /// Drops the older half of the nodes.
    fn trim(&mut self) {
        let mut versions: Vec<_> = self.nodes.values().map(NodeBindings::version).collect();
        let middle = versions.len() / 2;
        let (_, limit, _) = versions.select_nth_unstable(middle);
        self.complete_after = self.complete_after.max(*limit);
        let limit = self.complete_after;
        self.nodes
            .retain(|_, bindings| bindings.version() > limit || !bindings.pending.is_empty());
    }
}

impl NodeBindings {
    /// Whether another binder has bound a pod after this version, or is about to.
    fn is_used_by_others(&self, binder: &str, version: ResourceVersion) -> bool {
        let last_by_others = match &self.last {
            Some((own, _)) if own == binder => self.last_by_others,
            _ => self.version().max(self.last_by_others),
        };
        last_by_others > version || self.pending.iter().any(|other| other != binder)
    }

    /// The version of the last binding.
    fn version(&self) -> ResourceVersion {
        self.last.as_ref().map_or(ResourceVersion::ZERO, |last| last.1)
    }

    fn add(&mut self, binder: CompactString, version: ResourceVersion) {
        match &mut self.last {
            Some((last, newest)) if *last == binder => *newest = version.max(*newest),
            last => {
                let replaced = last.replace((binder, version)).map(|replaced| replaced.1);
                self.last_by_others = self.last_by_others.max(replaced.unwrap_or_default());
            }
        }
    }
}

impl PendingBinding<'_> {
    /// Records the binding with the version that it was committed as.
    pub(super) fn committed(self, version: ResourceVersion) {
        let mut state = self.recent.state.lock();
        let bindings = state.nodes.entry(self.node.clone()).or_default();
        bindings.add(self.binder.clone(), version);
        if state.nodes.len() > MAX_NODES {
            state.trim();
        }
    }
}

impl Drop for PendingBinding<'_> {
    fn drop(&mut self) {
        let mut state = self.recent.state.lock();
        let Some(bindings) = state.nodes.get_mut(&self.node) else {
            return;
        };
        if let Some(own) = bindings.pending.iter().position(|one| *one == self.binder) {
            bindings.pending.swap_remove(own);
        }
        if bindings.pending.is_empty() && bindings.last.is_none() {
            state.nodes.remove(&self.node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(binder: &str, version: u64) -> Observation<'_> {
        Observation {
            node: "n",
            binder,
            version: Some(ResourceVersion(version)),
        }
    }

    /// Bindings to one node as `binder observed committed`, the last of which has the expected result.
    #[track_caller]
    fn check(bindings: &[(&str, u64, u64)], expected: &str) {
        let recent = RecentBindings::after(ResourceVersion(2));
        let mut result = "";
        for (binder, observed, committed) in bindings {
            result = match recent.begin(observation(binder, *observed)) {
                Comparison::Stale => "stale",
                Comparison::Current(pending) => {
                    pending.committed(ResourceVersion(*committed));
                    "current"
                }
                Comparison::Unknown(pending) => {
                    pending.committed(ResourceVersion(*committed));
                    "unknown"
                }
            };
        }
        assert_eq!(result, expected, "{bindings:?}");
    }

    /// OC10
    #[test]
    fn a_binding_is_stale_once_another_binder_was_at_the_node() {
        check(&[("a", 7, 8)], "current");
        check(&[("a", 7, 8), ("a", 7, 9)], "current");
        check(&[("a", 7, 8), ("b", 7, 9)], "stale");
        check(&[("a", 7, 8), ("b", 8, 9)], "current");
        check(&[("a", 7, 8), ("b", 8, 9), ("a", 8, 10)], "stale");
        check(&[("a", 7, 8), ("b", 8, 9), ("a", 9, 10), ("b", 9, 11)], "stale");
        check(&[("a", 7, 8), ("b", 8, 9), ("b", 8, 10), ("b", 7, 11)], "stale");
        check(&[("a", 7, 8), ("b", 8, 9), ("b", 8, 10), ("b", 8, 11)], "current");
        check(&[("a", 1, 8)], "unknown");
    }

    /// OC10
    #[test]
    fn of_two_binders_at_the_same_time_one_is_stale() {
        let recent = RecentBindings::default();
        let Comparison::Current(first) = recent.begin(observation("a", 7)) else {
            panic!("no other binder was there");
        };
        assert!(matches!(recent.begin(observation("b", 7)), Comparison::Stale));
        drop(first);
        assert!(matches!(
            recent.begin(observation("b", 7)),
            Comparison::Current(_)
        ));
        assert!(recent.state.lock().nodes.is_empty());
    }

    #[test]
    fn a_binding_without_a_version_is_accepted_and_recorded() {
        let recent = RecentBindings::default();
        let Comparison::Current(pending) = recent.begin(Observation {
            version: None,
            ..observation("kube-scheduler", 0)
        }) else {
            panic!("nothing was compared");
        };
        pending.committed(ResourceVersion(8));
        assert!(matches!(recent.begin(observation("a", 7)), Comparison::Stale));
    }

    #[test]
    fn the_older_half_of_the_nodes_is_dropped_and_no_longer_known() {
        let mut state = State::default();
        for version in 1..=9 {
            let bindings = state.nodes.entry(format!("node-{version}").into()).or_default();
            bindings.add("a".into(), ResourceVersion(version));
        }
        state.trim();
        assert_eq!(state.complete_after, ResourceVersion(5));
        let mut left: Vec<_> = state.nodes.keys().map(ToString::to_string).collect();
        left.sort();
        assert_eq!(left, ["node-6", "node-7", "node-8", "node-9"]);
    }
}
