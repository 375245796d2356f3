//! A checker of linearizability for the histories of clients of an API server, as a pure function.
//!
//! A history has the operations of all clients on keys that did not exist before, with the order of their starts and ends, and
//! everything that watches delivered. It is judged in four ways:
//!
//! - `keys`: for each key there is an order of its operations that respects the order of time and explains every outcome, by a
//!   register whose writes have revisions. Writes without a response may take effect at any later time, or never. It does not
//!   need watches.
//! - `order`: the order of revisions is such an order for all keys together, so that a response is never older than what was
//!   known before its request. Changes that no response shows, such as deletions, are known from watches.
//! - `lists`: a list is exactly the state at its revision.
//! - `watches`: a watch delivers exactly the changes after its start, in order, each once.
//!
//! Start reading at [`check`]; `tests.rs` has a planted violation of each type.

mod history;
mod keys;
mod lists;
mod model;
mod order;
mod search;
mod timeline;
mod violation;
mod watches;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

pub(crate) use history::{
    Action, Event, EventType, History, NEVER, Operation, Outcome, Tick, Version, Watch,
};
use timeline::Timeline;
pub(crate) use violation::{Violation, ViolationKind};

/// The result of a check.
#[derive(Debug)]
pub(crate) struct Report {
    /// Those of the order of revisions come in the order of time: the first one is closest to the cause.
    pub(crate) violations: Vec<Violation>,
    /// The keys for which the search gave up: nothing is known of them but what the order of revisions shows.
    pub(crate) unfinished: Vec<String>,
    /// Whether the watches cover all revisions. If not, conclusions from deletions are left out.
    pub(crate) is_complete: bool,
}

/// Judges a history.
pub(crate) fn check(history: &History) -> Report {
    let mut violations = Vec::new();
    let timeline = Timeline::new(history, &mut violations);
    order::check(&timeline, &mut violations);
    lists::check(&timeline, &mut violations);
    watches::check(&timeline, &mut violations);
    let unfinished = keys::check(&timeline, &mut violations);
    let mut texts = HashSet::new();
    violations.retain(|violation| texts.insert(violation.to_string()));
    Report {
        violations,
        unfinished,
        is_complete: timeline.is_complete,
    }
}
