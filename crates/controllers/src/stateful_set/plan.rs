//! Decides what to do about a StatefulSet. Pure.
//!
//! Pods are created in the order of their ordinals and deleted in reverse, one after the other, unless the pod
//! management policy is Parallel.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use setpoint_values::int_or_percent::RoundingMode;

use crate::int_or_percent;
use crate::pods::{Phase, Pod, available_in};

/// A pod of the set.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) ordinal: i32,
    pub(crate) pod: Pod,
    /// The name of its revision.
    pub(crate) revision: String,
}

/// The names of the current and the update revision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Revisions<'a> {
    pub(crate) current: &'a str,
    pub(crate) update: &'a str,
}

/// An action on one pod.
#[derive(Debug)]
pub(crate) enum Action<'a> {
    /// Create the pod of this ordinal, of the update or of the current revision.
    Create {
        ordinal: i32,
        is_new: bool,
    },
    /// The pod is pending: its claims may be missing.
    EnsureClaims(&'a Member),
    Delete(&'a Member),
}

/// What to do about a set now.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) actions: Vec<Action<'a>>,
    pub(crate) status: StatefulSetStatus,
    /// When a ready pod becomes available without any event.
    pub(crate) recheck: Option<Duration>,
}

/// The ordinals and the policy of a set.
#[derive(Debug, Clone, Copy)]
struct Shape {
    now: Timestamp,
    start: i32,
    end: i32,
    min_ready_seconds: i64,
    in_order: bool,
}

/// Plans for a set with these pods.
pub(crate) fn plan<'a>(
    now: Timestamp,
    set: &StatefulSet,
    members: &'a [Member],
    revisions: Revisions<'_>,
) -> Plan<'a> {
    let spec = set.spec.clone();
    let start = spec.ordinals.as_ref().and_then(|own| own.start).unwrap_or(0);
    let shape = Shape {
        now,
        start,
        end: start + spec.replicas.unwrap_or(1),
        min_ready_seconds: i64::from(spec.min_ready_seconds.unwrap_or(0)),
        in_order: spec.pod_management_policy.as_deref() != Some("Parallel"),
    };
    let waits = members
        .iter()
        .filter_map(|member| available_in(now, &member.pod, shape.min_ready_seconds));
    let mut plan = Plan {
        actions: Vec::new(),
        status: status(shape, set, members, revisions),
        recheck: waits.filter(|wait| !wait.is_zero()).min(),
    };
    if set.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let is_settled =
        shape.process_replicas(set, members, &mut plan) && shape.process_condemned(members, &mut plan);
    if is_settled {
        shape.update(set, members, revisions.update, &mut plan);
    }
    plan
}

/// The lowest ordinal that is updated to the newest template.
fn partition(set: &StatefulSet) -> i32 {
    let strategy = set.spec.update_strategy.as_ref();
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    rolling.and_then(|rolling| rolling.partition).unwrap_or(0)
}

fn is_rolling(set: &StatefulSet) -> bool {
    let strategy = set.spec.update_strategy.as_ref();
    strategy
        .and_then(|strategy| strategy.type_.as_deref())
        .unwrap_or("RollingUpdate")
        == "RollingUpdate"
}

impl Shape {
    fn is_desired(self, ordinal: i32) -> bool {
        (self.start..self.end).contains(&ordinal)
    }

    fn is_ready(self, member: &Member) -> bool {
        let pod = &member.pod;
        pod.view().phase == Phase::Running && pod.view().is_ready()
    }

    fn is_available(self, member: &Member) -> bool {
        let wait = available_in(self.now, &member.pod, self.min_ready_seconds);
        self.is_ready(member) && wait.is_some_and(|wait| wait.is_zero())
    }

    /// Makes sure that every ordinal has its pod; false if the order requires to wait.
    fn process_replicas<'a>(self, set: &StatefulSet, members: &'a [Member], plan: &mut Plan<'a>) -> bool {
        let mut is_settled = true;
        for ordinal in self.start..self.end {
            let member = members.iter().find(|member| member.ordinal == ordinal);
            let is_done = self.process_replica(set, ordinal, member, plan);
            is_settled &= is_done;
            if !is_done && self.in_order {
                return false;
            }
        }
        is_settled || !self.in_order
    }

    /// Whether the pod of this ordinal exists and is available.
    fn process_replica<'a>(
        self,
        set: &StatefulSet,
        ordinal: i32,
        member: Option<&'a Member>,
        plan: &mut Plan<'a>,
    ) -> bool {
        let Some(member) = member else {
            let is_new = !(is_rolling(set) && ordinal < self.start + partition(set));
            plan.actions.push(Action::Create { ordinal, is_new });
            return false;
        };
        if member.pod.is_finished() {
            if !member.pod.is_deleting() {
                plan.actions.push(Action::Delete(member));
            }
            return false;
        }
        if member.pod.view().phase == Phase::Pending {
            plan.actions.push(Action::EnsureClaims(member));
        }
        !member.pod.is_deleting() && self.is_available(member)
    }

    /// Deletes the pods whose ordinals are not desired, the highest first; false if the order requires to wait.
    fn process_condemned<'a>(self, members: &'a [Member], plan: &mut Plan<'a>) -> bool {
        let mut condemned: Vec<&Member> = members
            .iter()
            .filter(|member| !self.is_desired(member.ordinal))
            .collect();
        condemned.sort_by_key(|member| std::cmp::Reverse(member.ordinal));
        // The lowest unready pod blocks no other: it is the next to be deleted or recreated.
        let broken = condemned
            .iter()
            .rev()
            .find(|member| !self.is_available(member))
            .map(|member| member.ordinal);
        for member in &condemned {
            let is_terminating = member.pod.is_deleting();
            let holds_up = !self.is_available(member) && broken != Some(member.ordinal);
            if self.in_order && (is_terminating || holds_up) {
                return false;
            }
            if !is_terminating {
                plan.actions.push(Action::Delete(member));
            }
            if self.in_order {
                return false;
            }
        }
        true
    }

    /// Deletes pods of an older revision, the highest ordinal first, as far as `maxUnavailable` allows.
    fn update<'a>(self, set: &StatefulSet, members: &'a [Member], newest: &str, plan: &mut Plan<'a>) {
        if !is_rolling(set) {
            return;
        }
        let mut budget = max_unavailable(set);
        let lowest = self.start + partition(set);
        for ordinal in (lowest..self.end).rev() {
            let Some(member) = members.iter().find(|member| member.ordinal == ordinal) else {
                budget -= 1;
                continue;
            };
            if budget <= 0 {
                return;
            }
            let is_old = member.revision != newest;
            if is_old && !member.pod.is_deleting() {
                plan.actions.push(Action::Delete(member));
                budget -= 1;
            } else if is_old || !self.is_available(member) {
                budget -= 1;
            }
        }
    }
}

/// How many pods may be unavailable during an update.
fn max_unavailable(set: &StatefulSet) -> i32 {
    let spec = &set.spec;
    let rolling = spec
        .update_strategy
        .as_ref()
        .and_then(|strategy| strategy.rolling_update.as_ref());
    let most = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    let replicas = spec.replicas.unwrap_or(1);
    int_or_percent::scaled_value(most, replicas, RoundingMode::Down).max(1)
}

fn status(
    shape: Shape,
    set: &StatefulSet,
    members: &[Member],
    revisions: Revisions<'_>,
) -> StatefulSetStatus {
    let old = set.status.clone().unwrap_or_default();
    let count = |test: &dyn Fn(&Member) -> bool| {
        let count = members.iter().filter(|member| test(member)).count();
        i32::try_from(count).unwrap_or(i32::MAX)
    };
    let some = |count: i32| (count != 0).then_some(count);
    let of = |member: &Member, name: &str| !member.pod.is_deleting() && member.revision == name;
    let mut status = StatefulSetStatus {
        replicas: count(&|_| true),
        ready_replicas: some(count(&|member| shape.is_ready(member))),
        available_replicas: Some(count(&|member| shape.is_available(member))),
        current_replicas: some(count(&|member| of(member, revisions.current))),
        updated_replicas: some(count(&|member| of(member, revisions.update))),
        current_revision: Some(revisions.current.to_owned()),
        update_revision: Some(revisions.update.to_owned()),
        observed_generation: set.metadata.generation,
        collision_count: Some(old.collision_count.unwrap_or(0)),
        conditions: old.conditions,
    };
    let desired = shape.end - shape.start;
    let all = [
        Some(status.replicas),
        status.ready_replicas,
        status.updated_replicas,
    ];
    if is_rolling(set) && all.into_iter().all(|count| count.unwrap_or(0) == desired) {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
    status
}

#[cfg(test)]
mod tests;
