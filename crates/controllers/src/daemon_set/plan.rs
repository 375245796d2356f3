//! What to do about a DaemonSet, from what is seen: pure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::node_fit::Fit;
use crate::pods::{Phase, Pod, available_in};

/// The most pods that are created or deleted in one go.
const BURST_PODS: usize = 250;

/// How a DaemonSet wants its pods replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Whether old pods are replaced only when somebody deletes them.
    pub(crate) on_delete: bool,
    /// How many nodes may have two pods for a while.
    pub(crate) surge: usize,
    /// How many nodes may be without a pod for a while.
    pub(crate) unavailable: usize,
    pub(crate) min_ready_seconds: i64,
}

/// A pod of the set, and whether it is of the newest template.
#[derive(Debug, Clone)]
pub(crate) struct DaemonPod {
    pub(crate) pod: Pod,
    pub(crate) is_new: bool,
}

/// A node, what it says to pods of the set, and those it has.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) node: &'a str,
    pub(crate) fit: Fit,
    pub(crate) pods: Vec<&'a DaemonPod>,
}

/// What to do about a set now.
#[derive(Debug, Default)]
pub(crate) struct Plan<'a> {
    /// The nodes that get a pod.
    pub(crate) create: Vec<&'a str>,
    pub(crate) delete: Vec<&'a Pod>,
    /// Those of them that have come to their end, on these nodes.
    pub(crate) ended: Vec<(&'a Pod, &'a str)>,
    pub(crate) counts: Counts,
    /// When a pod that is ready becomes available, or a failed one may be replaced, by the passing of time.
    pub(crate) recheck: Option<Duration>,
}

/// How many nodes there are, in each sense.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) desired: i32,
    pub(crate) current: i32,
    pub(crate) misscheduled: i32,
    pub(crate) ready: i32,
    pub(crate) available: i32,
    pub(crate) updated: i32,
}

/// Decides for a set with these places. `rest` tells how long a failed pod of a node must stay before it is replaced.
pub(crate) fn plan<'a>(
    now: Timestamp,
    rules: Rules,
    places: &[Place<'a>],
    rest: impl Fn(&str) -> Option<Duration>,
) -> Plan<'a> {
    let mut plan = Plan::default();
    for place in places {
        plan.tend(now, rules, place, &rest);
    }
    if !rules.on_delete {
        match rules.surge {
            0 => plan.replace(now, rules, places),
            _ => plan.replace_with_surge(now, rules, places),
        }
    }
    plan.create.truncate(BURST_PODS);
    plan.delete.truncate(BURST_PODS);
    plan.count(now, rules, places);
    plan
}

impl<'a> Plan<'a> {
    /// Sees to it that the node has one pod, or none, as it should.
    fn tend(
        &mut self,
        now: Timestamp,
        rules: Rules,
        place: &Place<'a>,
        rest: &impl Fn(&str) -> Option<Duration>,
    ) {
        let staying = place.pods.iter().copied().filter(|own| !own.pod.is_deleting());
        if place.fit == Fit::Leave {
            self.delete.extend(staying.map(|own| &own.pod));
            return;
        }
        let (ended, mut running): (Vec<&'a DaemonPod>, Vec<&'a DaemonPod>) =
            staying.partition(|own| own.pod.is_finished());
        for own in ended {
            match rest(place.node).filter(|_| own.pod.view().phase == Phase::Failed) {
                Some(left) => self.wake_in(left),
                None => {
                    self.delete.push(&own.pod);
                    self.ended.push((&own.pod, place.node));
                }
            }
        }
        if place.pods.is_empty() && place.fit == Fit::Run {
            self.create.push(place.node);
        }
        // The oldest that is placed stays; beside it, where pods may surge, the oldest of the other template.
        running.sort_by_key(|own| {
            (
                own.pod.view().node.is_empty(),
                own.pod.view().created,
                own.pod.object().uid().to_owned(),
            )
        });
        let mut seen: Vec<bool> = Vec::new();
        for own in running {
            let is_extra = match rules.surge {
                0 => !seen.is_empty(),
                _ => seen.contains(&own.is_new),
            };
            match is_extra {
                true => self.delete.push(&own.pod),
                false => seen.push(own.is_new),
            }
            self.wake_when_available(now, rules, &own.pod);
        }
    }

    /// Deletes old pods as far as nodes may be without one; new ones come when they are gone.
    fn replace(&mut self, now: Timestamp, rules: Rules, places: &[Place<'a>]) {
        let mut unavailable = 0;
        let (mut at_once, mut in_turn) = (Vec::new(), Vec::new());
        for place in places.iter().filter(|place| place.fit != Fit::Leave) {
            if self.is_tended(place) {
                unavailable += usize::from(place.fit == Fit::Run);
                continue;
            }
            match Self::new_and_old(place) {
                (Some(new), None) => unavailable += usize::from(!is_available(now, rules, new)),
                (None, Some(old)) if !is_available(now, rules, old) => {
                    unavailable += 1;
                    at_once.push(old);
                }
                (None, Some(old)) => in_turn.push(old),
                _ => unavailable += 1,
            }
        }
        let may_go = rules.unavailable.saturating_sub(unavailable);
        self.delete
            .extend(at_once.into_iter().chain(in_turn.into_iter().take(may_go)));
    }

    /// Creates new pods beside old ones as far as they may surge, and deletes the old one when the new one works.
    fn replace_with_surge(&mut self, now: Timestamp, rules: Rules, places: &[Place<'a>]) {
        let mut surging = 0;
        let (mut at_once, mut in_turn) = (Vec::new(), Vec::new());
        for place in places.iter().filter(|place| place.fit == Fit::Run) {
            if self.is_tended(place) {
                continue;
            }
            match Self::new_and_old(place) {
                (Some(new), Some(old)) => {
                    surging += 1;
                    if is_available(now, rules, new) {
                        self.delete.push(old);
                    }
                }
                (None, Some(old)) if !is_available(now, rules, old) => at_once.push(place.node),
                (None, Some(_)) => in_turn.push(place.node),
                _ => {}
            }
        }
        let may_come = rules.surge.saturating_sub(surging);
        self.create
            .extend(at_once.into_iter().chain(in_turn.into_iter().take(may_come)));
    }

    /// Whether the place gets or loses a pod already, or has none.
    fn is_tended(&self, place: &Place<'a>) -> bool {
        let is_going = |own: &&DaemonPod| {
            let uid = own.pod.object().uid();
            self.delete.iter().any(|going| going.object().uid() == uid)
        };
        place.pods.is_empty() || place.pods.iter().any(is_going)
    }

    /// The pods of the place that stay: of the newest template and of an older one.
    fn new_and_old(place: &Place<'a>) -> (Option<&'a Pod>, Option<&'a Pod>) {
        let stays = |own: &&&'a DaemonPod| !own.pod.is_deleting();
        let find = |is_new: bool| {
            place
                .pods
                .iter()
                .filter(stays)
                .find(|own| own.is_new == is_new)
                .map(|own| &own.pod)
        };
        (find(true), find(false))
    }

    fn count(&mut self, now: Timestamp, rules: Rules, places: &[Place<'a>]) {
        for place in places {
            let mut pods: Vec<_> = place.pods.clone();
            pods.sort_by_key(|own| own.pod.view().created);
            let counts = &mut self.counts;
            if place.fit != Fit::Run {
                counts.misscheduled += i32::from(!pods.is_empty());
                continue;
            }
            counts.desired += 1;
            let Some(oldest) = pods.first() else { continue };
            counts.current += 1;
            counts.ready += i32::from(oldest.pod.view().ready_since.is_some() && !oldest.pod.is_finished());
            counts.available += i32::from(is_available(now, rules, &oldest.pod));
            counts.updated += i32::from(oldest.is_new);
        }
    }

    fn wake_when_available(&mut self, now: Timestamp, rules: Rules, pod: &Pod) {
        if let Some(left) = available_in(now, pod, rules.min_ready_seconds).filter(|left| !left.is_zero()) {
            self.wake_in(left);
        }
    }

    fn wake_in(&mut self, left: Duration) {
        self.recheck = Some(self.recheck.map_or(left, |own| own.min(left)));
    }
}

fn is_available(now: Timestamp, rules: Rules, pod: &Pod) -> bool {
    let is_ready = available_in(now, pod, rules.min_ready_seconds).is_some_and(|left| left.is_zero());
    is_ready && !pod.is_finished()
}

/// The pods of a set by the nodes they are on or meant for.
pub(crate) fn by_node(pods: &[(String, DaemonPod)]) -> BTreeMap<&str, Vec<&DaemonPod>> {
    let mut nodes: BTreeMap<&str, Vec<&DaemonPod>> = BTreeMap::new();
    for (node, pod) in pods {
        nodes.entry(node).or_default().push(pod);
    }
    nodes
}

#[cfg(test)]
mod tests;
