//! The contract: what every engine must do, as a list of named checks over a function that makes an empty
//! store. An engine runs [`ALL`]; a failing check panics with what it expected.

mod commit;
mod read;
mod time;
mod watch;
mod words;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use crate::{Clock, Config, Store};

/// Makes an empty store with the given configuration.
pub type Make<'a> = &'a dyn Fn(Config) -> Store;

/// One check; it panics when the engine breaks the contract.
pub type Check = fn(Make<'_>);

/// Every check, by name.
pub const ALL: &[(&str, Check)] = &[
    ("the first commit takes revision one", commit::first_commit),
    (
        "all operations of a transaction share a revision",
        commit::shared_revision,
    ),
    ("a put counts versions and keeps the creation", commit::versions),
    ("a key that comes back starts anew", commit::recreated),
    (
        "oc1: of two writers from one revision one wins",
        commit::one_writer_wins,
    ),
    ("compares hold or name the first that does not", commit::compares),
    (
        "a refused transaction takes no revision",
        commit::refused_takes_none,
    ),
    (
        "a transaction that changes nothing takes no revision",
        commit::idle_takes_none,
    ),
    ("one key may appear once in a transaction", commit::duplicate_key),
    ("a stamp puts the revision into the value", commit::stamped),
    ("a stamp outside the value is refused", commit::stamp_outside),
    ("a transaction over the limit is refused", commit::too_large),
    ("ranges and prefixes are ordered and exact", read::ranges),
    ("a snapshot never changes", read::snapshot_is_still),
    ("oc11: an old revision reads as it was", read::old_revisions),
    (
        "old revisions read right across checkpoints",
        read::many_old_revisions,
    ),
    ("a future revision is refused", read::future),
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
    ("closing ends watches and refuses commits", watch::closing),
    ("due keys are deleted by upkeep", time::expiry),
    (
        "a key that is written again does not expire",
        time::expiry_renewed,
    ),
    ("upkeep forgets what is old", time::age),
    ("the cap on superseded bytes holds", read::byte_cap),
    ("a fork goes its own way", read::fork),
    ("oc6: revisions rise by one over all writers", commit::concurrent),
    ("metrics count what happened", commit::metrics),
];

/// A clock that a test sets.
#[derive(Clone, Debug, Default)]
pub struct SetClock(Arc<AtomicU64>);

impl SetClock {
    /// Moves to this time.
    pub fn set(&self, millis: u64) {
        self.0.store(millis, SeqCst);
    }

    /// A handle to hand in.
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

    fn run(make: Make<'_>) {
        for (name, check) in ALL {
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
        run(&|mut config| {
            config.segment_bytes = 256 << 10;
            let dir = root.path().join(count.fetch_add(1, SeqCst).to_string());
            Store::open(&dir, config).unwrap()
        });
    }

    #[test]
    fn a_fork_of_a_fresh_store_keeps_the_contract() {
        run(&|config| Store::memory(config).fork());
    }
}
