//! Invariants of the controllers under faults: stale caches, crashed processes, watch events that are late, reordered
//! or lost; and quiescence when nothing is to be done.
//!
//! All of it runs on one thread with time paused, so quiescence is detected exactly.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod crash;
mod fixtures;
mod quiet;
mod shuffle;
mod soak;
mod stale;
mod workload;
