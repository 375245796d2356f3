//! [`Replica`]: applies the changes of a cluster to the published head.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst},
    },
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{
    Config, Error, Millis, Put, Record, Revision, SealId,
    commit::publish,
    head::{Draft, Head},
    index::Index,
    remote::{RemoteChange, RemoteEntry},
    shared::{Shared, UndecodableEntry},
};

/// Writer of a replicated store's head. One task of the engine calls it.
#[derive(Debug)]
pub struct Replica {
    shared: Arc<Shared>,
    state: Mutex<ReplicaState>,
    /// Puts of this process that are under way, by the cluster's key.
    pending: Mutex<HashMap<Bytes, Vec<Arc<PendingPut>>>>,
    /// Callers that wait for a revision. Locked after `state`.
    waiting: Mutex<BTreeMap<Revision, Vec<oneshot::Sender<()>>>>,
    /// How often the contents were replaced. Changes in between may have been missed.
    fills: AtomicU64,
}

#[derive(Debug)]
struct ReplicaState {
    draft: Draft,
    /// The replica holds what the cluster held at the revision of the draft.
    filled: bool,
    /// Keys whose values in the draft could be decoded, and before could not. They are reported as undecodable until the
    /// draft is published: a reader that does not find such a key must not conclude that it is absent.
    repaired: Vec<Bytes>,
}

/// A put that was sent to the cluster. Its record takes the value and the attachment of the put, so that this process
/// does not decode what it has encoded.
#[derive(Debug)]
pub(crate) struct PendingPut {
    key: Bytes,
    encoded: Bytes,
    /// Taken by the first change with the same key and bytes: an attachment belongs to one record.
    put: Mutex<Option<Put>>,
    /// The record that took the put.
    record: Mutex<Option<Arc<Record>>>,
}

impl Replica {
    pub(crate) fn new(shared: Arc<Shared>) -> Replica {
        let draft = Draft::new(Head::clone(&shared.head()), 0);
        Replica {
            shared,
            state: Mutex::new(ReplicaState {
                draft,
                filled: false,
                repaired: Vec::new(),
            }),
            pending: Mutex::default(),
            waiting: Mutex::default(),
            fills: AtomicU64::new(0),
        }
    }

    /// The revision up to which every change was applied.
    pub fn revision(&self) -> Revision {
        self.shared.head().revision
    }

    /// The prefix of the cluster's keys that belong to this store.
    pub fn stored_prefix(&self) -> Bytes {
        self.shared.config.codec.stored_prefix()
    }

    /// The time of the store's clock.
    pub fn now(&self) -> Millis {
        (self.shared.config.now)()
    }

    /// Replaces the contents by what the cluster holds at `revision`, in any order. The first time, the history starts
    /// there; later, the differences become changes, so that watchers miss none of them. A key that changed several times
    /// in between is one change.
    pub fn fill(&self, entries: Vec<RemoteEntry>, revision: Revision) {
        let mut state = self.state.lock();
        self.fills.fetch_add(1, SeqCst);
        if !state.filled {
            let head = self.first_head(&mut state.repaired, entries, revision);
            state.draft = Draft::new(head, 0);
            state.filled = true;
            self.publish(&mut state, revision);
            return;
        }
        if revision <= state.draft.revision() {
            return;
        }
        let mut changes = self.missed_deletes(&state.draft, &entries, revision);
        let known = state.draft.revision();
        let newer = entries.into_iter().filter(|entry| entry.modified > known);
        changes.extend(newer.map(RemoteChange::Put));
        changes.sort_by_key(RemoteChange::revision);
        self.apply_all(&mut state, changes);
        self.publish(&mut state, revision);
    }

    /// Applies changes in the order of their revisions, all of each revision, and then reaches `revision`. Changes that
    /// were applied before are skipped.
    pub fn apply(&self, changes: Vec<RemoteChange>, revision: Revision) {
        let mut state = self.state.lock();
        let known = state.draft.revision();
        let fresh = changes.into_iter().filter(|change| change.revision() > known);
        self.apply_all(&mut state, fresh);
        let revision = revision.max(state.draft.revision());
        if revision > known {
            self.publish(&mut state, revision);
        }
    }

    /// Returns once the published head has reached `revision`.
    pub async fn reached(&self, revision: Revision) -> Result<(), Error> {
        let waiter = {
            let mut waiting = self.waiting.lock();
            if self.revision() >= revision {
                return Ok(());
            }
            let (sender, receiver) = oneshot::channel();
            waiting.entry(revision).or_default().push(sender);
            receiver
        };
        waiter.await.map_err(|_| Error::Closed)
    }

    pub(crate) fn fills(&self) -> u64 {
        self.fills.load(SeqCst)
    }

    /// Ends the watchers and fails the waiting callers.
    pub(crate) fn close(&self) {
        self.waiting.lock().clear();
        self.shared.changes.close();
    }

    /// Publishes a head without the history below `revision`.
    pub(crate) fn compact(&self, revision: Revision) -> Result<Arc<Head>, Error> {
        let mut state = self.state.lock();
        let head = self.shared.head_arc();
        if revision > head.revision {
            return Err(Error::Future {
                requested: revision,
                current: head.revision,
            });
        }
        if revision > head.compacted {
            state.draft.compact(revision);
            publish(&self.shared, state.draft.head().clone());
            self.shared.counters.compactions.fetch_add(1, Relaxed);
        }
        Ok(head)
    }

    /// Registers a put before it is sent.
    pub(crate) fn add_pending(&self, key: Bytes, encoded: Bytes, put: Put) -> Arc<PendingPut> {
        let pending = Arc::new(PendingPut {
            key: key.clone(),
            encoded,
            put: Mutex::new(Some(put)),
            record: Mutex::new(None),
        });
        self.pending.lock().entry(key).or_default().push(pending.clone());
        pending
    }

    pub(crate) fn remove_pending(&self, put: &Arc<PendingPut>) {
        let mut pending = self.pending.lock();
        if let Some(puts) = pending.get_mut(&put.key) {
            puts.retain(|other| !Arc::ptr_eq(other, put));
            if puts.is_empty() {
                pending.remove(&put.key);
            }
        }
    }

    /// The record of an entry: the replica's own if it has that version, else the decoded one.
    pub(crate) fn record_of(&self, entry: RemoteEntry) -> Result<Option<Arc<Record>>, Error> {
        let codec = &self.shared.config.codec;
        let Some(key) = codec.map_key(&entry.key) else {
            return Ok(None);
        };
        let head = self.shared.head();
        match head.index.find(&key) {
            Some(record) if record.modified == entry.modified => Ok(Some(record.clone())),
            _ => decode(&self.shared.config, entry).map(|record| Some(Arc::new(record))),
        }
    }

    fn first_head(&self, repaired: &mut Vec<Bytes>, entries: Vec<RemoteEntry>, revision: Revision) -> Head {
        let decoded = entries
            .into_iter()
            .filter_map(|entry| self.decode_or_report(repaired, entry));
        let mut records: Vec<_> = decoded.map(Arc::new).collect();
        records.sort_by(|a, b| a.key.cmp(&b.key));
        records.dedup_by(|a, b| a.key == b.key);
        Head {
            revision,
            compacted: revision,
            index: Index::of_sorted(records),
            ..Head::default()
        }
    }

    /// Deletes of the keys that the replica has and the cluster no longer had at `revision`.
    fn missed_deletes(
        &self,
        draft: &Draft,
        entries: &[RemoteEntry],
        revision: Revision,
    ) -> Vec<RemoteChange> {
        let codec = &self.shared.config.codec;
        let listed: HashSet<_> = entries
            .iter()
            .filter_map(|entry| codec.map_key(&entry.key))
            .collect();
        let is_listed = |key: &Bytes| codec.map_key(key).is_some_and(|key| listed.contains(&key));
        self.shared.undecodable.lock().retain(|key, _| is_listed(key));
        let gone = draft
            .head()
            .index
            .map()
            .iter()
            .filter(|record| !listed.contains(&record.key));
        let delete = |record: &Arc<Record>| {
            let key = codec.stored_key(&record.key).ok()?;
            Some(RemoteChange::Delete { key, revision })
        };
        gone.filter_map(delete).collect()
    }

    fn apply_all(&self, state: &mut ReplicaState, changes: impl IntoIterator<Item = RemoteChange>) {
        state.draft.set_time((self.shared.config.now)());
        for change in changes {
            let revision = change.revision();
            match change {
                RemoteChange::Put(entry) => self.apply_put(state, entry),
                RemoteChange::Delete { key, .. } => {
                    self.shared.undecodable.lock().remove(&key);
                    if let Some(key) = self.shared.config.codec.map_key(&key) {
                        state.draft.remove(revision, &key);
                    }
                }
            }
            state.draft.reach(revision);
        }
    }

    fn apply_put(&self, state: &mut ReplicaState, entry: RemoteEntry) {
        if let Some((pending, put)) = self.take_pending(&entry) {
            self.note_repaired(&mut state.repaired, &entry.key);
            let record = state.draft.restore(own_record(put, &entry));
            *pending.record.lock() = Some(record);
        } else if let Some(record) = self.decode_or_report(&mut state.repaired, entry) {
            state.draft.restore(record);
        }
    }

    fn note_repaired(&self, repaired: &mut Vec<Bytes>, key: &Bytes) {
        if self.shared.undecodable.lock().contains_key(key) {
            repaired.push(key.clone());
        }
    }

    /// The put of this process that wrote `entry`, if there is one.
    fn take_pending(&self, entry: &RemoteEntry) -> Option<(Arc<PendingPut>, Put)> {
        let pending = self.pending.lock();
        let puts = pending.get(&entry.key)?;
        let same = puts.iter().filter(|put| put.encoded == entry.value);
        same.into_iter().find_map(|pending| {
            let put = pending.put.lock().take()?;
            Some((pending.clone(), put))
        })
    }

    /// The record of an entry; none if the key is no part of the map or the value cannot be decoded.
    fn decode_or_report(&self, repaired: &mut Vec<Bytes>, entry: RemoteEntry) -> Option<Record> {
        self.shared.config.codec.map_key(&entry.key)?;
        match decode(&self.shared.config, entry.clone()) {
            Ok(record) => {
                self.note_repaired(repaired, &entry.key);
                Some(record)
            }
            Err(error) => {
                tracing::error!(%error, "a stored value cannot be decoded; its last known value is served");
                let reason = match error {
                    Error::Undecodable { reason, .. } => reason,
                    other => other.to_string(),
                };
                repaired.retain(|key| *key != entry.key);
                let mut undecodable = self.shared.undecodable.lock();
                undecodable.insert(entry.key.clone(), UndecodableEntry { entry, reason });
                None
            }
        }
    }

    /// Publishes the draft as the state at `revision`, and wakes the callers that waited for it.
    fn publish(&self, state: &mut ReplicaState, revision: Revision) {
        state.draft.reach(revision);
        state.draft.close(&self.shared.config.history);
        let replaced = publish(&self.shared, state.draft.head().clone());
        for key in state.repaired.drain(..) {
            self.shared.undecodable.lock().remove(&key);
        }
        let reached = {
            let mut waiting = self.waiting.lock();
            let later = waiting.split_off(&revision.next());
            std::mem::replace(&mut *waiting, later)
        };
        for waiter in reached.into_values().flatten() {
            waiter.send(()).ok();
        }
        drop(replaced);
    }
}

impl PendingPut {
    /// The record that the put became, once the replica has applied it.
    pub(crate) fn record(&self) -> Option<Arc<Record>> {
        self.record.lock().clone()
    }
}

/// The record of an entry: its value is opened, then decoded.
pub(super) fn decode(config: &Config, entry: RemoteEntry) -> Result<Record, Error> {
    let (codec, mut value, mut seal) = (&config.codec, entry.value, SealId::NONE);
    if let (Some(transformer), Some(key)) = (&config.transformer, codec.map_key(&entry.key)) {
        let opened = transformer.open(&key, &entry.key, value)?;
        (value, seal) = (opened.bytes, opened.seal);
    }
    let decoded = codec.decode(&entry.key, value, entry.modified)?;
    Ok(Record {
        key: decoded.key,
        value: decoded.value,
        created: entry.created,
        modified: entry.modified,
        version: entry.version,
        // The cluster deletes it, not this store's maintenance.
        expires: None,
        attachment: decoded.attachment,
        seal,
    })
}

/// The record of a put of this process, with the numbers that the cluster assigned.
fn own_record(put: Put, entry: &RemoteEntry) -> Record {
    Record {
        created: entry.created,
        version: entry.version,
        expires: None,
        ..Record::first(put, entry.modified)
    }
}
