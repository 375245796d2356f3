//! The work queue: which keys want attention, each at most once, and never two workers on one.
//!
//! Three sets say where an item stands, and these sentences always hold:
//!
//! - every item in `ready` is dirty and not processing, and is there once;
//! - an item that is processing may be dirty again; it then goes to `ready` when it is done;
//! - a dirty item is in `ready` or processing.
//!
//! For example, `add(a)`, `get() -> a`, `add(a)`, `add(a)`: the item is processing and dirty. No other worker gets it. When
//! the first is done it is ready once more, once.
//!
//! Start reading at `shared`. It takes its lock and its bells from `sync`, so that a model checker can put its own in
//! their place: `tests/queue_model` tries the queue in many orders of events.
//!
//! The rules are client-go's, `util/workqueue`. Delays are kept by the workers themselves: one of those who wait in
//! [`Queue::get`] keeps the time, so the queue needs no task of its own.

mod backoff;
mod delay;
mod metrics;
mod order;
mod shared;
mod state;
mod sync;

pub use backoff::{Limits, Rate};
pub use metrics::{Histogram, Metrics};
pub use order::{LaneOf, Priority};
pub use shared::{Options, Queue, Taken};

#[cfg(test)]
mod tests;
