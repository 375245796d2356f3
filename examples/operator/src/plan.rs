//! What to do next, from what is there: pure, so that every rule is a row in a test.
//!
//! Each plan is a small step in the right direction. After it the world looks different, which wakes the operator again;
//! so nothing here remembers what it did before, and a crash between two steps loses nothing.

use std::cmp::Reverse;
use std::time::Duration;

use jiff::Timestamp;

/// What is there and what is wanted.
#[derive(Debug, Clone)]
pub struct World {
    pub now: Timestamp,
    /// The version that the members shall run, and how many they shall be.
    pub version: String,
    pub count: usize,
    pub members: Vec<Member>,
    /// Whether the backup before this version was taken; `None` where it has not been begun.
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
    pub leaving: bool,
    pub role: Role,
    /// How far it has followed the primary, as it says itself.
    pub position: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Primary,
    Replica,
    /// It has just come up.
    None,
}

/// What came of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Running,
    Done,
    Failed,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It takes writes no longer.
    Demote(String),
    /// It takes writes from now on.
    Promote(String),
    /// It goes and comes back with the version that is wanted.
    Restart(String),
    BackUpBefore(String),
    BackUp,
}

/// What to do now, and what to say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Step>,
    pub phase: Phase,
    /// When to look again, if nothing happens before.
    pub again: Option<Duration>,
}

/// What is going on, as it is told in the conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// All members run the version that is wanted, and one of them is the primary.
    Running,
    /// Members are missing or not ready.
    Starting,
    BackingUp,
    Upgrading,
    /// The backup before an upgrade failed: nothing is touched until somebody looks at it.
    Stuck,
}

/// Decides. A primary comes first, since without one nobody can write; then the upgrade; then the schedule.
pub fn plan(world: &World) -> Plan {
    let failover = failover(&world.members);
    if !failover.is_empty() {
        return Plan::of(failover, Phase::Starting);
    }
    let mut plan = upgrade(world);
    let (due, again) = schedule(world);
    plan.steps.extend(due.then_some(Step::BackUp));
    plan.again = again;
    plan
}

/// Whether one version is older than another.
pub fn is_older(version: &str, than: &str) -> bool {
    let numbers =
        |text: &str| -> Vec<u64> { text.split('.').map(|part| part.parse().unwrap_or(0)).collect() };
    numbers(version) < numbers(than)
}

/// Exactly one member that is up shall be the primary. The old one is demoted before the new one is promoted: for a
/// moment nobody takes writes, which is better than two that do.
fn failover(members: &[Member]) -> Vec<Step> {
    let is_primary = |member: &&Member| member.role == Role::Primary;
    let best = candidate(members.iter().filter(|member| is_primary(member)));
    let best = best.or_else(|| candidate(members.iter()));
    // Without anyone to take over, the one that has the data stays what it is.
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

/// The one that has followed the farthest loses the least; of equals, the first.
fn candidate<'a>(members: impl Iterator<Item = &'a Member>) -> Option<&'a Member> {
    let able = members.filter(|member| member.is_up());
    able.min_by_key(|member| (Reverse(member.position), member.ordinal))
}

/// One member at a time, the primary last, and none before there is a backup or while another is down.
fn upgrade(world: &World) -> Plan {
    let old: Vec<&Member> = world
        .members
        .iter()
        .filter(|member| member.version != world.version)
        .collect();
    let all_up = world.members.len() == world.count && world.members.iter().all(Member::is_up);
    if old.is_empty() {
        let phase = if all_up { Phase::Running } else { Phase::Starting };
        return Plan::of(Vec::new(), phase);
    }
    match world.backup_before {
        None => return Plan::of(vec![Step::BackUpBefore(world.version.clone())], Phase::BackingUp),
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
        None => hand_over(world, &old[0].name),
    };
    Plan::of(steps, Phase::Upgrading)
}

/// Only the primary is old: a member that is new takes over first, if there is one.
fn hand_over(world: &World, primary: &str) -> Vec<Step> {
    match candidate(world.members.iter().filter(|member| member.name != primary)) {
        Some(next) => vec![Step::Demote(primary.to_owned()), Step::Promote(next.name.clone())],
        None => vec![Step::Restart(primary.to_owned())],
    }
}

/// Whether a backup is due, and if not, in how long.
fn schedule(world: &World) -> (bool, Option<Duration>) {
    let Schedule {
        every: Some(every),
        last,
        running: false,
    } = world.schedule
    else {
        return (false, None);
    };
    let Some(last) = last else {
        return (world.members.iter().any(Member::is_up), None);
    };
    let age = world.now.duration_since(last).unsigned_abs();
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
            again: None,
        }
    }
}

// === impl Member ===

impl Member {
    pub fn is_up(&self) -> bool {
        self.ready && !self.leaving
    }
}

#[cfg(test)]
mod tests;
