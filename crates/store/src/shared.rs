//! State shared by the commit path and all readers of one store.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::{
    Config, Error, Metrics, RemoteEntry, Revision, Snapshot, commit::ChangeNotifier, head::Head,
    log::file::snapshot_file::ResealedKeys, metrics::Counters, space::Space, tree::Tree,
};

/// The published head and what readers need besides it. Only the commit path changes the head.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) counters: Counters,
    head: ArcSwap<Head>,
    /// The first failed write. After it nothing is evaluated, written or published.
    failed: OnceLock<Arc<Error>>,
    pub(crate) space: Space,
    pub(crate) changes: ChangeNotifier,
    cursors: Mutex<Cursors>,
    /// Cache of the last maps made by undoing changes, newest last: the pages of one list read the same old revision.
    rewound_maps: Mutex<VecDeque<(Revision, Tree)>>,
    /// The keys of a cluster whose stored values cannot be decoded.
    pub(crate) undecodable: Mutex<BTreeMap<Bytes, UndecodableEntry>>,
    /// The values that the newest snapshot file has sealed otherwise than when they were written.
    pub(crate) resealed: Mutex<ResealedKeys>,
}

/// A stored value that cannot be decoded, and why.
#[derive(Clone, Debug)]
pub(crate) struct UndecodableEntry {
    pub(crate) entry: RemoteEntry,
    pub(crate) reason: String,
}

/// Delivered revision of each open watcher. A watcher owns its cell and removes it when it is dropped.
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
            space: Space::default(),
            changes: ChangeNotifier::new(),
            cursors: Mutex::default(),
            rewound_maps: Mutex::default(),
            undecodable: Mutex::default(),
            resealed: Mutex::default(),
        })
    }

    pub(crate) fn head(&self) -> arc_swap::Guard<Arc<Head>> {
        self.head.load()
    }

    pub(crate) fn head_arc(&self) -> Arc<Head> {
        self.head.load_full()
    }

    /// Fails with the first failed write, if there was one.
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        match self.failed.get() {
            Some(cause) => Err(Error::ReadOnly { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    pub(crate) fn stop_writing(&self, cause: &Error) {
        self.failed.get_or_init(|| Arc::new(cause.clone()));
    }

    /// Swaps the published head. Only the commit path's `publish` calls it.
    pub(crate) fn replace_head(&self, head: Head) -> Arc<Head> {
        self.head.swap(Arc::new(head))
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
            self.cache_rewound(revision, map.clone());
            map
        });
        Ok(Snapshot::new(revision, map))
    }

    /// Fails if a value is stored under a key of the map that cannot be decoded.
    pub(crate) fn check_decodable(&self, key: &[u8]) -> Result<(), Error> {
        let undecodable = self.undecodable.lock();
        if undecodable.is_empty() {
            return Ok(());
        }
        let stored_key = self.config.codec.stored_key(key)?;
        match undecodable.get(&stored_key) {
            Some(UndecodableEntry { reason, .. }) => Err(Error::Undecodable {
                key: stored_key,
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Fails if a value that cannot be decoded is stored under a key of this range of the map, and the map has no earlier
    /// one.
    pub(crate) fn check_range_decodable(&self, range: Range<&[u8]>) -> Result<(), Error> {
        let undecodable = self.undecodable.lock();
        if undecodable.is_empty() {
            return Ok(());
        }
        let head = self.head();
        let is_missing = |stored_key: &Bytes| {
            let key = self.config.codec.map_key(stored_key);
            key.is_some_and(|key| range.contains(&&key[..]) && head.index.find(&key).is_none())
        };
        match undecodable.iter().find(|(key, _)| is_missing(key)) {
            Some((key, UndecodableEntry { reason, .. })) => Err(Error::Undecodable {
                key: key.clone(),
                reason: reason.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Whether the stored value of a key is not sealed as it would be now.
    pub(crate) fn is_stale(&self, key: &[u8]) -> bool {
        let Some(transformer) = &self.config.transformer else {
            return false;
        };
        let current = transformer.current_seal(key);
        let head = self.head();
        let is_stale = head.index.find(key).is_some_and(|record| {
            let resealed = self.resealed.lock().get(key).copied();
            let resealed = resealed.filter(|(version, _)| *version == record.modified);
            record.seal != current || resealed.is_some_and(|(_, seal)| seal != current)
        });
        // What is stored is newer than the record, and unknown.
        is_stale || self.check_decodable(key).is_err()
    }

    /// Drops the cached maps below `compacted`, which are no longer readable.
    pub(crate) fn drop_rewound_below(&self, compacted: Revision) {
        self.rewound_maps
            .lock()
            .retain(|(revision, _)| *revision >= compacted);
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
            snapshot_files: counters.snapshot_files.load(Relaxed),
            free_bytes: self.space.free_bytes(),
            full: self.space.is_full(),
            undecodable_keys: self.undecodable.lock().len() as u64,
        }
    }

    fn count_watchers(&self, newest: Revision) -> (u64, u64) {
        let cursors = self.cursors.lock();
        let behind = |cell: &&Arc<AtomicU64>| newest.get().saturating_sub(cell.load(Relaxed));
        let slow = cursors.open.values().filter(|cell| behind(cell) > SLOW_REVISIONS);
        (cursors.open.len() as u64, slow.count() as u64)
    }

    fn find_rewound(&self, revision: Revision) -> Option<Tree> {
        let rewound = self.rewound_maps.lock();
        rewound
            .iter()
            .find(|(at, _)| *at == revision)
            .map(|(_, map)| map.clone())
    }

    fn cache_rewound(&self, revision: Revision, map: Tree) {
        let mut rewound = self.rewound_maps.lock();
        if rewound.len() == REWOUND_MAPS {
            rewound.pop_front();
        }
        rewound.push_back((revision, map));
    }
}
