//! The work queue: keys to reconcile, each queued at most once and processed by at most one worker at a time.
//!
//! Three sets hold the state of an item, with these invariants:
//!
//! - every item in `ready` is dirty and not processing, and is there once;
//! - an item that is processing may be dirty again; it is then added to `ready` when it is done;
//! - a dirty item is in `ready` or processing.
//!
//! For example, `add(a)`, `get() -> a`, `add(a)`, `add(a)`: the item is processing and dirty. No other worker gets it. When
//! the first worker is done, the item is ready again, once.
//!
//! Start reading at `shared`. It takes its lock and its notifications from `sync`, so that a model checker can substitute
//! its own: `tests/queue_model` tests the queue under many interleavings.
//!
//! The rules are client-go's, `util/workqueue`. Delays need no task of their own: one of the workers that wait in
//! [`Queue::get`] runs the timer.

mod delay;
mod metrics;
mod rate_limiter;
mod ready;
mod shared;
mod state;
mod sync;

pub use metrics::{DURATION_BOUNDS, Metrics};
pub use rate_limiter::{Rate, RateLimits};
pub use ready::{LaneOf, Priority};
pub use shared::{ItemGuard, Options, Queue};

#[cfg(test)]
mod tests;
