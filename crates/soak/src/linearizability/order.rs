//! The order of revisions against the order of time: every operation has a position in the sequence of revisions, between
//! those of the operations that ended before it began and those that began after it ended.
//!
//! The operations are taken in the order of time, each at the first position that its outcome allows. A later position
//! never helps an operation that follows, so one pass decides. Example: a get returned revision 17, revision 20 replaced it,
//! and the write of revision 20 was acknowledged before the get began: the get's positions are 17 to 19, the first one that
//! is left is 20, so the read was stale.

use super::history::{Action, NEVER, Operation, Outcome, Tick};
use super::timeline::Timeline;
use super::violation::{Violation, ViolationKind};

/// What happens at a tick.
#[derive(Debug, Clone, Copy)]
enum Step {
    Start(usize),
    End(usize),
    /// A watcher received an event of this revision, so the revision was committed.
    Event(u64),
}

/// The revision that everything which begins now must reach, and the operation that shows it.
#[derive(Debug, Clone, Copy)]
struct LowerBound {
    revision: u64,
    operation: Option<usize>,
}

/// The revision that everything which ended before must not exceed, and the operation that shows it.
#[derive(Debug, Clone, Copy)]
struct UpperBound {
    revision: u64,
    operation: Option<usize>,
}

/// The upper_bounds after each start of an operation, in the order of starts.
struct UpperBounds(Vec<(Tick, UpperBound)>);

/// Checks the positions of all operations.
pub(crate) fn check(timeline: &Timeline<'_>, violations: &mut Vec<Violation>) {
    let operations = &timeline.history.operations;
    let mut lower = LowerBound {
        revision: timeline.history.start,
        operation: None,
    };
    let mut positions = vec![0; operations.len()];
    let upper_bounds = UpperBounds::new(timeline);
    for (_, step) in steps(timeline) {
        match step {
            Step::Start(index) => {
                let before = violations.len();
                let range = (lower, upper_bounds.after(operations[index].end));
                positions[index] = position(timeline, index, range, violations);
                // One cause is reported once: what follows is judged from where the response was.
                if violations.len() == before {
                    check_precondition(timeline, index, violations);
                }
            }
            Step::End(index) => lower.raise(positions[index], Some(index)),
            Step::Event(revision) => lower.raise(revision, None),
        }
    }
}

fn steps(timeline: &Timeline<'_>) -> Vec<(Tick, Step)> {
    let mut steps = Vec::new();
    for (index, operation) in timeline.history.operations.iter().enumerate() {
        steps.push((operation.start, Step::Start(index)));
        if operation.end != NEVER {
            steps.push((operation.end, Step::End(index)));
        }
    }
    for watch in &timeline.history.watches {
        let events = watch.events.iter();
        steps.extend(events.map(|event| (event.received, Step::Event(event.version.revision))));
    }
    steps.sort_by_key(|(tick, _)| *tick);
    steps
}

/// The first position that the outcome of an operation allows.
fn position(
    timeline: &Timeline<'_>,
    index: usize,
    range: (LowerBound, UpperBound),
    violations: &mut Vec<Violation>,
) -> u64 {
    let (lower, _) = range;
    let operation = &timeline.history.operations[index];
    match &operation.outcome {
        Outcome::Written(version) => write_position(timeline, index, version.revision, lower, violations),
        Outcome::Deleted { uid } => match timeline.revision_of_deletion(&operation.key, uid) {
            Some(revision) => write_position(timeline, index, revision, lower, violations),
            None => {
                if timeline.is_complete {
                    let text = format!("no watch has an event of the {operation}");
                    violations.push(Violation::new(ViolationKind::LostWrite, text));
                }
                lower.revision
            }
        },
        Outcome::Unknown => {
            let written = operation
                .value()
                .and_then(|value| timeline.revision_of_value(value));
            if let Some(revision) = written {
                write_position(timeline, index, revision, lower, violations);
            }
            lower.revision
        }
        Outcome::Read(version) => {
            check_newest(timeline, operation, version.revision, lower, violations);
            lower.revision.max(version.revision)
        }
        Outcome::Listed { revision, .. } => {
            if *revision < lower.revision {
                let text = format!("the {operation} is older than {}", lower.describe(timeline));
                violations.push(Violation::new(ViolationKind::StaleRead, text));
            }
            lower.revision.max(*revision)
        }
        Outcome::Absent => state_position(timeline, operation, range, violations, |state| state.is_none()),
        Outcome::Exists => state_position(timeline, operation, range, violations, |state| state.is_some()),
        Outcome::Conflict => {
            let expected = operation.expected();
            state_position(timeline, operation, range, violations, |state| {
                expected.is_none() || state != expected
            })
        }
        Outcome::Rejected => lower.revision,
    }
}

/// The position of a write is its revision, which must be newer than everything known before it began.
fn write_position(
    timeline: &Timeline<'_>,
    index: usize,
    revision: u64,
    lower: LowerBound,
    violations: &mut Vec<Violation>,
) -> u64 {
    if revision <= lower.revision {
        let operation = &timeline.history.operations[index];
        let shown = lower.describe(timeline);
        let text = format!("the {operation} was executed at revision {revision}, not after {shown}");
        violations.push(Violation::new(ViolationKind::RevisionOrder, text));
    }
    revision.max(lower.revision)
}

/// A read must not return a version that was replaced before it began.
fn check_newest(
    timeline: &Timeline<'_>,
    operation: &Operation,
    revision: u64,
    lower: LowerBound,
    violations: &mut Vec<Violation>,
) {
    let Some((next, _)) = timeline.change_after(&operation.key, revision) else {
        return;
    };
    if next <= lower.revision {
        let replaced = timeline.describe_change(next);
        let shown = lower.describe(timeline);
        let text = format!("the {operation} was replaced by {replaced}, and it began after {shown}");
        violations.push(Violation::new(
            timeline.missing_change(next, ViolationKind::StaleRead),
            text,
        ));
    }
}

/// The first position at which the state of the key explains the response. Without all deletions this is not known.
fn state_position(
    timeline: &Timeline<'_>,
    operation: &Operation,
    (lower, upper): (LowerBound, UpperBound),
    violations: &mut Vec<Violation>,
    condition: impl Fn(Option<u64>) -> bool,
) -> u64 {
    if !timeline.is_complete {
        return lower.revision;
    }
    let first = timeline.first_position(&operation.key, lower.revision, condition);
    if let Some(position) = first.filter(|position| *position <= upper.revision) {
        return position;
    }
    let state = match timeline.change_at(&operation.key, lower.revision) {
        Some((revision, _)) => timeline.describe_change(revision),
        None => "no object".to_owned(),
    };
    let newest = timeline
        .change_at(&operation.key, u64::MAX)
        .map_or(0, |(revision, _)| revision);
    let (lower_text, upper_text) = (lower.describe(timeline), upper.describe(timeline));
    let text = format!("no state explains the {operation}: after {lower_text}{upper_text}, with {state}");
    violations.push(Violation::new(
        timeline.missing_change(newest, ViolationKind::StaleRead),
        text,
    ));
    lower.revision
}

/// A write must have found the state that it depends on.
fn check_precondition(timeline: &Timeline<'_>, index: usize, violations: &mut Vec<Violation>) {
    let operation = &timeline.history.operations[index];
    let revision = match &operation.outcome {
        Outcome::Written(version) => Some(version.revision),
        Outcome::Deleted { uid } => timeline.revision_of_deletion(&operation.key, uid),
        Outcome::Unknown => operation
            .value()
            .and_then(|value| timeline.revision_of_value(value)),
        _ => None,
    };
    let Some(revision) = revision.filter(|_| operation.is_write()) else {
        return;
    };
    let before = timeline.change_at(&operation.key, revision - 1);
    let existing = before
        .filter(|(_, change)| change.value.is_some())
        .map(|(at, _)| at);
    let state = before.map_or_else(|| "no object".to_owned(), |(at, _)| timeline.describe_change(at));
    let (is_met, kind) = match operation.action {
        // A deletion in between may be unknown.
        Action::Create { .. } => (
            existing.is_none() || !timeline.is_complete,
            ViolationKind::DuplicateCreate,
        ),
        _ if operation.expected().is_some() => (existing == operation.expected(), ViolationKind::LostUpdate),
        _ => (
            existing.is_some() || !timeline.is_complete,
            ViolationKind::LostUpdate,
        ),
    };
    if !is_met {
        let text = format!("the {operation} was executed at revision {revision}, after {state}");
        violations.push(Violation::new(kind, text));
    }
}

impl Operation {
    /// The revision that the object must have.
    pub(crate) fn expected(&self) -> Option<u64> {
        match self.action {
            Action::Update { expected, .. } | Action::Delete { expected } => expected,
            Action::Create { .. } | Action::Get | Action::List => None,
        }
    }
}

impl UpperBounds {
    fn new(timeline: &Timeline<'_>) -> Self {
        let operations = timeline.history.operations.iter().enumerate();
        let mut upper_bounds: Vec<(Tick, UpperBound)> = operations
            .map(|(index, operation)| {
                let upper = UpperBound {
                    revision: last_position_before(timeline, operation),
                    operation: Some(index),
                };
                (operation.start, upper)
            })
            .collect();
        upper_bounds.sort_by_key(|(start, _)| *start);
        let mut lowest = UpperBound {
            revision: u64::MAX,
            operation: None,
        };
        for (_, upper) in upper_bounds.iter_mut().rev() {
            if lowest.revision > upper.revision {
                lowest = *upper;
            }
            *upper = lowest;
        }
        Self(upper_bounds)
    }

    /// The bound of what ended at this tick.
    fn after(&self, end: Tick) -> UpperBound {
        let next = self.0.partition_point(|(start, _)| *start <= end);
        let unlimited = UpperBound {
            revision: u64::MAX,
            operation: None,
        };
        self.0.get(next).map_or(unlimited, |(_, upper)| *upper)
    }
}

/// The last position of anything that ended before this operation began: before its write, or where it read.
fn last_position_before(timeline: &Timeline<'_>, operation: &Operation) -> u64 {
    match &operation.outcome {
        Outcome::Written(version) => version.revision - 1,
        Outcome::Deleted { uid } => {
            let revision = timeline.revision_of_deletion(&operation.key, uid);
            revision.map_or(u64::MAX, |revision| revision - 1)
        }
        Outcome::Listed { revision, .. } => *revision,
        Outcome::Read(version) => {
            let next = timeline.change_after(&operation.key, version.revision);
            next.map_or(u64::MAX, |(next, _)| next - 1)
        }
        _ => u64::MAX,
    }
}

impl UpperBound {
    fn describe(&self, timeline: &Timeline<'_>) -> String {
        let text = |index| format!(" and before the {}", timeline.describe(index));
        self.operation.map_or_else(String::new, text)
    }
}

impl LowerBound {
    fn raise(&mut self, revision: u64, operation: Option<usize>) {
        if revision > self.revision {
            *self = Self { revision, operation };
        }
    }

    fn describe(&self, timeline: &Timeline<'_>) -> String {
        match self.operation {
            Some(index) => format!(
                "revision {}, seen by the {}",
                self.revision,
                timeline.describe(index)
            ),
            None => format!("an event of revision {}", self.revision),
        }
    }
}
