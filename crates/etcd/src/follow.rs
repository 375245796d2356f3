//! List and watch: the requests that keep the replica up to date.
//!
//! The watch is on all keys of etcd, not only on those of the store. So each revision is seen as an event, and the replica
//! reaches every revision that a linearizable read returns. A watch on the prefix would have to rely on progress
//! notifications for that, which etcd before 3.4.31 and 3.5.13 may send ahead of the events they promise
//! (<https://github.com/etcd-io/etcd/issues/15220>).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use setpoint_grpc::{Code, MessageStream, Status};
use setpoint_store::{Error, RemoteChange, RemoteEntry, RemoteFailure, Replica, Revision};

use crate::{
    client::Client,
    compaction, failure,
    health::Health,
    proto::{Event, KeyValue, RangeRequest, RangeResponse, WatchCreateRequest, WatchRequest, WatchResponse},
    txn,
};

/// Brings the changes of the cluster to the replica.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) client: Arc<Client>,
    pub(crate) replica: Arc<Replica>,
    pub(crate) health: Arc<Health>,
}

/// How a watch ended.
#[derive(Debug)]
enum WatchEnd {
    /// The events after the replica's revision are compacted; the keys have to be listed again.
    Compacted,
    /// It can be continued where it ended.
    Broken(Status),
}

/// Keys of one page, as long as their values fit into one message.
const PAGE_KEYS: i64 = 1000;

/// How many revisions the history goes back at the start, if etcd has them.
const REPLAYED_REVISIONS: i64 = 5000;

/// A progress message is logged each time this many keys were listed.
const LOG_KEYS: usize = 50_000;

/// The pause before another attempt: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The key that means "from the first key" or "to the last key".
const UNBOUNDED: Bytes = Bytes::from_static(&[0]);

impl Follower {
    /// Fills the replica for the first time, however often it takes. It is filled as of an older revision, and the watch
    /// brings what changed since: so watches of clients continue after a restart. Returns the revision to catch up with.
    pub(crate) async fn start(&self) -> Revision {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.fill_from_the_past().await {
                Ok(newest) => {
                    // The server is ready as soon as it serves, and not after the next probe.
                    self.health.recover();
                    return newest;
                }
                Err(status) => self.report(&status, "etcd was not listed"),
            }
            wait(&mut pause).await;
        }
    }

    /// Lists the keys again and fills the replica, however often it takes.
    async fn refill(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.list(0).await {
                Ok((entries, revision)) => return self.replica.fill(entries, revision),
                Err(status) => self.report(&status, "etcd was not listed"),
            }
            wait(&mut pause).await;
        }
    }

    async fn fill_from_the_past(&self) -> Result<Revision, Status> {
        let request = RangeRequest {
            key: Bytes::from_static(compaction::COMPACT_REV_KEY),
            ..RangeRequest::default()
        };
        let response: RangeResponse = self
            .client
            .read("etcdserverpb.KV/Range", &request, self.client.timeout)
            .await?;
        let newest = response.header.map_or(0, |header| header.revision);
        let compacted = response.kvs.first().map_or(1, compacted_revision);
        let past = compacted.max(newest - REPLAYED_REVISIONS);
        let (entries, revision) = match self.list(past).await {
            // Something else compacts this etcd.
            Err(status) if status.code == Code::OUT_OF_RANGE => self.list(0).await?,
            listed => listed?,
        };
        self.replica.fill(entries, revision);
        Ok(txn::revision(newest))
    }

    /// Reports a failure, once until etcd serves again, and moves on to the next member.
    fn report(&self, status: &Status, what: &str) {
        let error = failure::text(status);
        match self.health.check() {
            Ok(()) => tracing::warn!(error, "{what}"),
            Err(_) => tracing::debug!(error, "{what}"),
        }
        self.health.fail(&failure::of_read(status));
        self.client.use_next();
    }

    /// Why the replica could not be filled in time.
    pub(crate) fn start_error(&self) -> Error {
        let failure = self.health.check().err();
        failure.unwrap_or_else(|| Error::Remote {
            failure: RemoteFailure::Unavailable,
            message: "etcd was not listed in time".to_owned(),
        })
    }

    /// Follows the cluster for ever.
    pub(crate) async fn run(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let before = self.replica.revision();
            match self.watch().await {
                WatchEnd::Compacted => {
                    tracing::warn!(
                        revision = %self.replica.revision(),
                        "the watch of etcd fell behind a compaction; the keys are listed again"
                    );
                    self.refill().await;
                }
                WatchEnd::Broken(status) => self.report(&status, "the watch of etcd broke"),
            }
            if self.replica.revision() > before {
                pause = FIRST_PAUSE;
            }
            wait(&mut pause).await;
        }
    }

    /// All keys of the store at a revision, or at the newest one if it is zero, page by page. Returns the revision, too.
    async fn list(&self, mut revision: i64) -> Result<(Vec<RemoteEntry>, Revision), Status> {
        let prefix = self.replica.stored_prefix();
        let range_end = prefix_end(&prefix);
        let mut start = match prefix.is_empty() {
            true => UNBOUNDED,
            false => prefix,
        };
        let mut limit = PAGE_KEYS;
        let mut entries: Vec<RemoteEntry> = Vec::new();
        loop {
            let request = RangeRequest {
                key: start,
                range_end: range_end.clone(),
                limit,
                revision,
                ..RangeRequest::default()
            };
            let page = self
                .client
                .read::<_, RangeResponse>("etcdserverpb.KV/Range", &request, LIST_TIMEOUT)
                .await;
            let page = match page {
                // The values of the page are too large for one message.
                Err(status) if status.code == Code::INTERNAL && limit > 1 => {
                    limit = (limit / 4).max(1);
                    start = request.key;
                    continue;
                }
                page => page?,
            };
            if revision == 0 {
                revision = page.header.map_or(0, |header| header.revision);
            }
            let listed = entries.len();
            entries.extend(page.kvs.into_iter().map(txn::entry));
            if entries.len() / LOG_KEYS > listed / LOG_KEYS {
                tracing::info!(keys = entries.len(), "etcd is being listed");
            }
            match entries.last() {
                Some(last) if page.more => start = [&last.key[..], &[0]].concat().into(),
                _ => return Ok((entries, txn::revision(revision))),
            }
        }
    }

    /// Applies the events of one watch until it ends.
    async fn watch(&self) -> WatchEnd {
        let request = WatchRequest {
            create: Some(WatchCreateRequest {
                key: UNBOUNDED,
                range_end: UNBOUNDED,
                start_revision: txn::number(self.replica.revision().next()),
                fragment: true,
            }),
        };
        match self.client.watch(&request).await {
            Ok((_sender, mut stream)) => self.apply_events(&mut stream).await,
            Err(status) => WatchEnd::Broken(status),
        }
    }

    async fn apply_events(&self, stream: &mut MessageStream) -> WatchEnd {
        let mut changes = Vec::new();
        loop {
            let response = match stream.next_message::<WatchResponse>().await {
                Ok(Some(response)) => response,
                Ok(None) => return WatchEnd::Broken(Status::new(Code::UNAVAILABLE, "the watch ended")),
                Err(status) => return WatchEnd::Broken(status),
            };
            if response.canceled {
                return match response.compact_revision {
                    0 => WatchEnd::Broken(Status::new(Code::UNAVAILABLE, response.cancel_reason)),
                    _ => WatchEnd::Compacted,
                };
            }
            changes.extend(response.events.into_iter().filter_map(change));
            let complete = match response.fragment {
                true => take_complete(&mut changes),
                false => std::mem::take(&mut changes),
            };
            if let Some(last) = complete.last().map(RemoteChange::revision) {
                self.replica.apply(complete, last);
            }
        }
    }
}

/// The revision that the servers have compacted to, as `kv` records it.
fn compacted_revision(kv: &KeyValue) -> i64 {
    let text = std::str::from_utf8(&kv.value).unwrap_or_default();
    text.parse::<i64>().unwrap_or_default().max(1)
}

/// Takes the changes of all revisions but the last, whose other changes may be in the next fragment. After a reconnect etcd
/// sends up to a thousand revisions as the fragments of one response; they are not held until its end.
fn take_complete(changes: &mut Vec<RemoteChange>) -> Vec<RemoteChange> {
    let last = changes.last().map(RemoteChange::revision);
    let is_before = |change: &RemoteChange| Some(change.revision()) < last;
    let rest = changes.split_off(changes.partition_point(is_before));
    std::mem::replace(changes, rest)
}

/// How long a page may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

fn change(event: Event) -> Option<RemoteChange> {
    let kv: KeyValue = event.kv?;
    Some(match event.event_type {
        0 => RemoteChange::Put(txn::entry(kv)),
        _ => RemoteChange::Delete {
            revision: txn::revision(kv.mod_revision),
            key: kv.key,
        },
    })
}

/// The end of the range of keys with a prefix.
pub(crate) fn prefix_end(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while end.last() == Some(&u8::MAX) {
        end.pop();
    }
    match end.last_mut() {
        Some(last) => {
            *last += 1;
            end.into()
        }
        None => UNBOUNDED,
    }
}

async fn wait(pause: &mut Duration) {
    tokio::time::sleep(*pause).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_complete(revisions: &[u64], complete: &[u64], rest: &[u64]) {
        let delete = |revision: &u64| RemoteChange::Delete {
            key: Bytes::new(),
            revision: Revision::new(*revision),
        };
        let mut changes: Vec<_> = revisions.iter().map(delete).collect();
        let taken = take_complete(&mut changes);
        let revisions = |changes: &[RemoteChange]| -> Vec<u64> {
            changes.iter().map(|change| change.revision().get()).collect()
        };
        assert_eq!(
            (revisions(&taken), revisions(&changes)),
            (complete.to_vec(), rest.to_vec())
        );
    }

    /// OC11
    #[test]
    fn a_fragment_ends_the_revisions_before_its_last_one() {
        check_complete(&[4, 5, 5, 6, 7, 7], &[4, 5, 5, 6], &[7, 7]);
        check_complete(&[7, 7], &[], &[7, 7]);
        check_complete(&[], &[], &[]);
    }

    #[test]
    fn a_prefix_ends_before_the_next_key_without_it() {
        for (prefix, end) in [
            (&b"/a/"[..], &b"/a0"[..]),
            (b"a\xff", b"b"),
            (b"", b"\0"),
            (b"\xff", b"\0"),
        ] {
            assert_eq!(prefix_end(prefix), end);
        }
    }
}
