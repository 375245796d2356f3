//! Conformance suite of log engines: named checks, each run on an empty store that a function creates. An engine
//! runs [`ALL`], and [`EXPIRY`] if it has a clock of its own; a failing check panics with the expected value.

mod commit;
mod fixtures;
mod read;
mod sealing;
mod time;
mod watch;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use crate::{Clock, Config, Store};
pub use sealing::Inverter;

/// Creates an empty store with the given configuration.
pub type NewStore<'a> = &'a dyn Fn(Config) -> Store;

/// One check; it panics when the engine breaks the contract.
pub type Check = fn(NewStore<'_>);

/// Every check, by name.
pub const ALL: &[(&str, Check)] = &[
    ("the first commit takes revision one", commit::first_commit),
    (
        "all operations of a transaction share a revision",
        commit::shared_revision,
    ),
    ("a put counts versions and keeps the creation", commit::versions),
    (
        "a key that is created again starts again at version one",
        commit::recreated,
    ),
    (
        "oc1: of two writers from one revision one wins",
        commit::one_writer_wins,
    ),
    ("compares hold or name the first that does not", commit::compares),
    (
        "a prefix is unchanged until one of its keys is written",
        commit::unchanged_prefix,
    ),
    (
        "a rejected transaction takes no revision",
        commit::rejected_takes_none,
    ),
    (
        "a transaction that changes nothing takes no revision",
        commit::idle_takes_none,
    ),
    ("one key may appear once in a transaction", commit::duplicate_key),
    ("a stamp puts the revision into the value", commit::stamped),
    ("a stamp outside the value is rejected", commit::stamp_outside),
    ("a transaction over the limit is rejected", commit::too_large),
    ("ranges and prefixes are ordered and exact", read::ranges),
    ("a snapshot never changes", read::snapshot_is_still),
    ("oc11: an old revision reads as it was", read::old_revisions),
    (
        "old revisions read right across checkpoints",
        read::many_old_revisions,
    ),
    ("a future revision is rejected", read::future),
    ("compaction cuts off old reads and watches", read::compaction),
    ("a watch sees every change once and in order", watch::watch_order),
    (
        "a watch from an old revision replays the past",
        watch::watch_replay,
    ),
    (
        "a watch reports progress without matching changes",
        watch::watch_progress,
    ),
    (
        "a watch keeps the changes of one revision together",
        watch::watch_whole_revisions,
    ),
    ("a waiting watch wakes on a commit", watch::watch_wakes),
    (
        "a stalled watch is cut off by compaction only",
        watch::watch_stalled,
    ),
    ("closing ends watches and rejects commits", watch::closing),
    ("maintenance compacts history that is too old", time::age),
    ("the cap on superseded bytes holds", read::byte_cap),
    ("a fork goes its own way", read::fork),
    ("oc6: revisions rise by one over all writers", commit::concurrent),
    ("metrics count what happened", commit::metrics),
];

/// The checks of an engine whose keys expire by the store's clock, and not by that of a cluster.
pub const EXPIRY: &[(&str, Check)] = &[
    ("expired keys are deleted by maintenance", time::expiry),
    (
        "a key that is written again does not expire",
        time::expiry_renewed,
    ),
];

/// The checks of an engine that stores sealed values.
pub const SEALING: &[(&str, Check)] = &[
    (
        "a value that another key sealed is stale until it is written again",
        sealing::another_key,
    ),
    (
        "a write that is rejected leaves the value stale",
        sealing::rejected_write,
    ),
    (
        "a value is stale if the key changed while it was written",
        sealing::key_changed_meanwhile,
    ),
    ("a deleted value is not stale", sealing::deleted),
    (
        "a value that cannot be sealed is not written",
        sealing::unsealable,
    ),
];

/// A clock that the test sets.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Sets the time.
    pub fn set(&self, millis: u64) {
        self.0.store(millis, SeqCst);
    }

    /// The clock for a store's configuration.
    pub fn clock(&self) -> Clock {
        let time = self.0.clone();
        Arc::new(move || time.load(SeqCst))
    }

    /// The defaults with this clock.
    pub fn config(&self) -> Config {
        Config::new(self.clock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(make: NewStore<'_>) {
        for (name, check) in ALL.iter().chain(EXPIRY) {
            println!("{name}");
            check(make);
        }
    }

    #[test]
    fn the_memory_engine_keeps_the_contract() {
        run(&Store::memory);
    }

    #[test]
    fn the_file_engine_keeps_the_contract() {
        let root = tempfile::tempdir().unwrap();
        let count = AtomicU64::new(0);
        let make = |mut config: Config| {
            config.segment_bytes = 256 << 10;
            let dir = root.path().join(count.fetch_add(1, SeqCst).to_string());
            Store::open(&dir, config).unwrap()
        };
        run(&make);
        for (name, check) in SEALING {
            println!("{name}");
            check(&make);
        }
    }

    #[test]
    fn a_fork_of_a_fresh_store_keeps_the_contract() {
        run(&|config| Store::memory(config).fork());
    }
}
