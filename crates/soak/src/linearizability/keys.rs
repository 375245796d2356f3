//! Each key alone: an order of its operations that explains their outcomes, without regard to watches.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{NEVER, Operation, Outcome};
use super::model::{Effect, State, Transition};
use super::search::{Call, Search, search};
use super::timeline::Timeline;
use super::violation::{Violation, ViolationKind};

/// The limit of a search: a key of a valid history needs about one step per operation.
const STEPS: usize = 200_000;

/// Searches an order for each key. Returns the keys for which the search gave up.
pub(crate) fn check(timeline: &Timeline<'_>, violations: &mut Vec<Violation>) -> Vec<String> {
    let mut unfinished = Vec::new();
    for (key, calls) in calls_by_key(timeline) {
        // A write that nothing shows need not have happened. Most histories do not need one.
        let mut required = calls.clone();
        required.retain(|call| call.end.is_some() || call.transition.effect.revision().is_some());
        let mut outcome = search(&required, &revisions(&required), STEPS);
        if outcome != Search::Linearizable {
            outcome = search(&calls, &revisions(&calls), STEPS);
        }
        match outcome {
            Search::Linearizable => {}
            Search::GaveUp => unfinished.push(key),
            Search::NotLinearizable { blocked, state } => {
                let blocked = calls[blocked].transition.operation;
                violations.push(explain(timeline, &key, blocked, state));
            }
        }
    }
    unfinished
}

fn explain(timeline: &Timeline<'_>, key: &str, blocked: usize, state: State) -> Violation {
    let state = match state.writer() {
        Some(writer) => format!("the object is that of the {}", timeline.describe(writer)),
        None => "the object does not exist".to_owned(),
    };
    let text = format!(
        "no order of the operations on {key} explains the {}: at its latest position, {state}",
        timeline.describe(blocked)
    );
    Violation::new(ViolationKind::NotLinearizable, text)
}

/// The known revisions of writes, ascending.
fn revisions(calls: &[Call]) -> Vec<u64> {
    let revisions = calls.iter().filter_map(|call| call.transition.effect.revision());
    let mut revisions: Vec<u64> = revisions.collect();
    revisions.sort_unstable();
    revisions
}

/// The operations on each key; a list is a read of all of them.
fn calls_by_key(timeline: &Timeline<'_>) -> BTreeMap<String, Vec<Call>> {
    let operations = &timeline.history.operations;
    let keys: BTreeSet<&String> = operations.iter().map(|operation| &operation.key).collect();
    let keys = keys.into_iter().filter(|key| !key.is_empty());
    let mut calls: BTreeMap<String, Vec<Call>> = keys.map(|key| (key.clone(), Vec::new())).collect();
    for (index, operation) in operations.iter().enumerate() {
        if let Outcome::Listed { items, .. } = &operation.outcome {
            for (key, calls) in &mut calls {
                let effect = match items.get(key) {
                    Some(version) => Effect::Present {
                        revision: version.revision,
                    },
                    None => Effect::Absent,
                };
                calls.push(call(index, operation, effect));
            }
            continue;
        }
        let revision = operation
            .value()
            .and_then(|value| timeline.revision_of_value(value));
        if let Some(effect) = Effect::of(operation, revision)
            && let Some(calls) = calls.get_mut(&operation.key)
        {
            calls.push(call(index, operation, effect));
        }
    }
    calls
}

fn call(index: usize, operation: &Operation, effect: Effect) -> Call {
    Call {
        transition: Transition {
            operation: index,
            effect,
        },
        start: operation.start,
        end: (operation.end != NEVER).then_some(operation.end),
    }
}
