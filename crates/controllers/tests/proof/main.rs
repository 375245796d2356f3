//! What must hold of the controllers whatever happens to them: caches that lag behind, processes that die, events that
//! come late, in another order or never, and time in which nothing is to be done.
//!
//! All of it runs on one thread with time paused, so a moment in which nobody has anything to do is known exactly.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod crash;
mod quiet;
mod shuffle;
mod soak;
mod stale;
mod village;
mod world;
