//! The plan: from the observed state to the next steps. Pure, so that every rule is a row in a test.
//!
//! Each plan is a small step towards the desired state. Its changes enqueue the database again; so no state is kept between
//! plans, and a crash between two steps loses nothing.

use std::cmp::Reverse;
use std::time::Duration;

use jiff::Timestamp;

/// The observed and the desired state.
#[derive(Debug, Clone)]
pub struct ObservedState {
    pub now: Timestamp,
    /// The desired version and number of members.
    pub version: String,
    pub count: usize,
    pub members: Vec<Member>,
    /// The outcome of the backup before this version; `None` if it was not started.
    pub backup_before: Option<Outcome>,
    pub schedule: Schedule,
}

/// When the last backup was taken, and when the next is due.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    pub every: Option<Duration>,
    pub last: Option<Timestamp>,
    /// Whether one is under way.
    pub running: bool,
}

/// One pod of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub ordinal: i32,
    pub version: String,
    pub ready: bool,
    /// It is being deleted.
    pub terminating: bool,
    pub role: Role,
    /// Its replication position, as it reports it.
    pub position: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Primary,
    Replica,
    /// It has just started.
    None,
}

/// The outcome of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Running,
    Done,
    Failed,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The member becomes a replica.
    Demote(String),
    /// The member becomes the primary.
    Promote(String),
    /// The member is deleted, and recreated with the desired version.
    Restart(String),
    BackUpBefore(String),
    BackUp,
}

/// The next steps, and the phase to report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Step>,
    pub phase: Phase,
    /// When to reconcile again, if no event comes before.
    pub requeue_after: Option<Duration>,
}

/// The phase, as reported in the conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// All members run the desired version, and one of them is the primary.
    Running,
    /// Members are missing or not ready.
    Starting,
    BackingUp,
    Upgrading,
    /// The backup before an upgrade failed: nothing is changed until a user intervenes.
    Stuck,
}

/// The plan. A primary comes first, since without one there are no writes; then the upgrade; then the backup schedule.
pub fn plan(observed: &ObservedState) -> Plan {
    let failover = failover(&observed.members);
    if !failover.is_empty() {
        return Plan::of(failover, Phase::Starting);
    }
    let mut plan = upgrade(observed);
    let (due, requeue_after) = schedule(observed);
    plan.steps.extend(due.then_some(Step::BackUp));
    plan.requeue_after = requeue_after;
    plan
}

/// Whether one version is older than another.
pub fn is_older(version: &str, than: &str) -> bool {
    let numbers =
        |text: &str| -> Vec<u64> { text.split('.').map(|part| part.parse().unwrap_or(0)).collect() };
    numbers(version) < numbers(than)
}

/// Exactly one available member must be the primary. The old one is demoted before the new one is promoted: a short time
/// without writes is better than two primaries.
fn failover(members: &[Member]) -> Vec<Step> {
    let is_primary = |member: &&Member| member.role == Role::Primary;
    let best = candidate(members.iter().filter(|member| is_primary(member)));
    let best = best.or_else(|| candidate(members.iter()));
    // Without an available member, the primary stays: it has the data.
    let Some(best) = best else {
        return Vec::new();
    };
    let others = members
        .iter()
        .filter(is_primary)
        .filter(|member| member.name != best.name);
    let mut steps: Vec<Step> = others.map(|member| Step::Demote(member.name.clone())).collect();
    if best.role != Role::Primary {
        steps.push(Step::Promote(best.name.clone()));
    }
    steps
}

/// The available member with the highest replication position, which loses the least data; of equals, the first.
fn candidate<'a>(members: impl Iterator<Item = &'a Member>) -> Option<&'a Member> {
    let able = members.filter(|member| member.is_available());
    able.min_by_key(|member| (Reverse(member.position), member.ordinal))
}

/// One member at a time, the primary last, and none before there is a backup or while another is down.
fn upgrade(observed: &ObservedState) -> Plan {
    let old: Vec<&Member> = observed
        .members
        .iter()
        .filter(|member| member.version != observed.version)
        .collect();
    let all_up =
        observed.members.len() == observed.count && observed.members.iter().all(Member::is_available);
    if old.is_empty() {
        let phase = if all_up { Phase::Running } else { Phase::Starting };
        return Plan::of(Vec::new(), phase);
    }
    match observed.backup_before {
        None => {
            return Plan::of(
                vec![Step::BackUpBefore(observed.version.clone())],
                Phase::BackingUp,
            );
        }
        Some(Outcome::Running) => return Plan::of(Vec::new(), Phase::BackingUp),
        Some(Outcome::Failed) => return Plan::of(Vec::new(), Phase::Stuck),
        Some(Outcome::Done) => {}
    }
    if !all_up {
        return Plan::of(Vec::new(), Phase::Upgrading);
    }
    let replicas = old.iter().filter(|member| member.role != Role::Primary);
    let steps = match replicas.max_by_key(|member| member.ordinal) {
        Some(replica) => vec![Step::Restart(replica.name.clone())],
        None => hand_over(observed, &old[0].name),
    };
    Plan::of(steps, Phase::Upgrading)
}

/// Only the primary is old: a member that is new takes over first, if there is one.
fn hand_over(observed: &ObservedState, primary: &str) -> Vec<Step> {
    match candidate(observed.members.iter().filter(|member| member.name != primary)) {
        Some(next) => vec![Step::Demote(primary.to_owned()), Step::Promote(next.name.clone())],
        None => vec![Step::Restart(primary.to_owned())],
    }
}

/// Whether a backup is due, and if not, in how long.
fn schedule(observed: &ObservedState) -> (bool, Option<Duration>) {
    let Schedule {
        every: Some(every),
        last,
        running: false,
    } = observed.schedule
    else {
        return (false, None);
    };
    let Some(last) = last else {
        return (observed.members.iter().any(Member::is_available), None);
    };
    let age = observed.now.duration_since(last).unsigned_abs();
    match every.checked_sub(age).filter(|rest| !rest.is_zero()) {
        Some(rest) => (false, Some(rest)),
        None => (true, None),
    }
}

// === impl Plan ===

impl Plan {
    fn of(steps: Vec<Step>, phase: Phase) -> Self {
        Self {
            steps,
            phase,
            requeue_after: None,
        }
    }
}

// === impl Member ===

impl Member {
    pub fn is_available(&self) -> bool {
        self.ready && !self.terminating
    }
}

#[cfg(test)]
mod tests;
