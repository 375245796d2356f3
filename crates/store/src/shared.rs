//! What the writer and all readers of one store have in common.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{Config, Error, Metrics, Revision, Snapshot, head::Head, metrics::Counters, tree::Tree};

/// The published head, and the bell that rings when it changes. Only the sequencer publishes.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) counters: Counters,
    head: ArcSwap<Head>,
    /// The first failed write. After it nothing is decided, written or published any more.
    failed: OnceLock<Arc<Error>>,
    bell: watch::Sender<Bell>,
    cursors: Mutex<Cursors>,
    /// The last few maps made by undoing, newest last, because pages of one old list ask again.
    rewound: Mutex<VecDeque<(Revision, Tree)>>,
}

/// What watchers wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bell {
    pub(crate) closed: bool,
}

/// Where each open watcher stands. A watcher owns its cell and takes it out when it is dropped.
#[derive(Debug, Default)]
struct Cursors {
    next_id: u64,
    open: BTreeMap<u64, Arc<AtomicU64>>,
}

const REWOUND_MAPS: usize = 4;

/// A watcher further behind than this many revisions counts as slow.
const SLOW_REVISIONS: u64 = 1000;

impl Shared {
    pub(crate) fn new(config: Config, head: Arc<Head>) -> Arc<Shared> {
        Arc::new(Shared {
            config,
            counters: Counters::default(),
            head: ArcSwap::new(head),
            failed: OnceLock::new(),
            bell: watch::Sender::new(Bell { closed: false }),
            cursors: Mutex::default(),
            rewound: Mutex::default(),
        })
    }

    pub(crate) fn head(&self) -> arc_swap::Guard<Arc<Head>> {
        self.head.load()
    }

    pub(crate) fn head_arc(&self) -> Arc<Head> {
        self.head.load_full()
    }

    /// Whether anything can still be written; otherwise the first failure that put an end to it.
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        match self.failed.get() {
            Some(cause) => Err(Error::ReadOnly { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    pub(crate) fn stop_writing(&self, cause: &Error) {
        self.failed.get_or_init(|| Arc::new(cause.clone()));
    }

    /// Makes `head` the newest state, wakes the watchers and returns the state it replaces.
    pub(crate) fn publish(&self, head: Head) -> Arc<Head> {
        let replaced = self.head.swap(Arc::new(head));
        self.bell.send_modify(|_| {});
        replaced
    }

    /// Publishes the head of a batch, which may have compacted by itself to keep the history's cap.
    pub(crate) fn advance(&self, head: Head) -> Arc<Head> {
        let compacted = head.compacted;
        let replaced = self.publish(head);
        if compacted > replaced.compacted {
            self.forget_rewound(compacted);
        }
        replaced
    }

    /// Tells the watchers that nothing more will come.
    pub(crate) fn close(&self) {
        self.bell.send_modify(|bell| bell.closed = true);
    }

    pub(crate) fn bell(&self) -> watch::Receiver<Bell> {
        self.bell.subscribe()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let head = self.head();
        Snapshot::new(head.revision, head.index.map().clone())
    }

    pub(crate) fn snapshot_at(&self, revision: Revision) -> Result<Snapshot, Error> {
        let head = self.head();
        head.check_readable(revision)?;
        if revision == head.revision {
            return Ok(Snapshot::new(revision, head.index.map().clone()));
        }
        let known = self.find_rewound(revision);
        let map = known.unwrap_or_else(|| {
            let map = head.history.rewind(head.index.map(), revision);
            self.keep_rewound(revision, map.clone());
            map
        });
        Ok(Snapshot::new(revision, map))
    }

    /// Drops the undone maps that compaction has made unreadable.
    pub(crate) fn forget_rewound(&self, compacted: Revision) {
        self.rewound.lock().retain(|(revision, _)| *revision >= compacted);
    }

    pub(crate) fn add_cursor(&self, revision: Revision) -> (u64, Arc<AtomicU64>) {
        let cell = Arc::new(AtomicU64::new(revision.get()));
        let mut cursors = self.cursors.lock();
        cursors.next_id += 1;
        let id = cursors.next_id;
        cursors.open.insert(id, cell.clone());
        (id, cell)
    }

    pub(crate) fn remove_cursor(&self, id: u64) {
        self.cursors.lock().open.remove(&id);
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let head = self.head();
        let counters = &self.counters;
        let (watchers, slow_watchers) = self.count_watchers(head.revision);
        Metrics {
            commits: counters.commits.load(Relaxed),
            conflicts: counters.conflicts.load(Relaxed),
            syncs: counters.syncs.load(Relaxed),
            sync_micros: counters.sync_micros.read(),
            batch_txns: counters.batch_txns.read(),
            bytes_appended: counters.bytes_appended.load(Relaxed),
            log_bytes: counters.log_bytes.load(Relaxed),
            index_keys: head.index.map().len() as u64,
            index_bytes: head.index.bytes(),
            history_events: head.history.events(),
            history_bytes: head.history.bytes(),
            watchers,
            slow_watchers,
            expired: counters.expired.load(Relaxed),
            compactions: counters.compactions.load(Relaxed),
            images: counters.images.load(Relaxed),
        }
    }

    fn count_watchers(&self, newest: Revision) -> (u64, u64) {
        let cursors = self.cursors.lock();
        let behind = |cell: &&Arc<AtomicU64>| newest.get().saturating_sub(cell.load(Relaxed));
        let slow = cursors.open.values().filter(|cell| behind(cell) > SLOW_REVISIONS);
        (cursors.open.len() as u64, slow.count() as u64)
    }

    fn find_rewound(&self, revision: Revision) -> Option<Tree> {
        let rewound = self.rewound.lock();
        rewound
            .iter()
            .find(|(at, _)| *at == revision)
            .map(|(_, map)| map.clone())
    }

    fn keep_rewound(&self, revision: Revision, map: Tree) {
        let mut rewound = self.rewound.lock();
        if rewound.len() == REWOUND_MAPS {
            rewound.pop_front();
        }
        rewound.push_back((revision, map));
    }
}
