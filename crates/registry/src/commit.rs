//! Committing: from an encoded object and its side writes to one transaction of the store, or one of each store.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;

use setpoint_api::{Key, ResourceVersion, Status, Stored};
use setpoint_registry_api::SideWrite;
use setpoint_schema::CanonicalJson;
use setpoint_store::{Compare, Op, Put, Record, Revision, TxnResponse};

use crate::encoded_object::{self, EncodedObject};
use crate::metrics::CommitOperation;
use crate::request_context::RequestContext;
use crate::write_txn::WriteTxn;
use crate::{error, key, side_writes};

/// The outcome of a commit.
#[derive(Debug)]
pub(crate) enum Outcome {
    Written(Arc<Stored>),
    /// Another writer has changed, created or removed the object.
    Conflict,
    /// Another writer has changed the object of a side write.
    SideWriteConflict,
}

impl RequestContext<'_> {
    /// Commits an object that must not exist yet.
    pub(crate) async fn insert(
        &self,
        key: &Key,
        encoded: EncodedObject,
        side_writes: Vec<SideWrite>,
    ) -> Result<Outcome, Status> {
        let compare = Compare::Absent {
            key: self.storage_key(key),
        };
        self.commit(key, compare, self.put(key, encoded), side_writes)
            .await
    }

    /// Commits an object that must still have this version.
    pub(crate) async fn replace(
        &self,
        key: &Key,
        version: ResourceVersion,
        encoded: EncodedObject,
        side_writes: Vec<SideWrite>,
    ) -> Result<Outcome, Status> {
        let compare = self.compare_version(key, version);
        self.commit(key, compare, self.put(key, encoded), side_writes)
            .await
    }

    /// Removes an object that must still have this version. Returns `last` with the version of the removal.
    pub(crate) async fn remove(
        &self,
        key: &Key,
        version: ResourceVersion,
        last: &Stored,
        side_writes: Vec<SideWrite>,
    ) -> Result<Outcome, Status> {
        let delete = Op::Delete {
            key: self.storage_key(key),
        };
        let mut txn = WriteTxn::new(self.backend(), self.compare_version(key, version), delete);
        side_writes::add(self, side_writes, &mut txn)?;
        match self.commit_timed(CommitOperation::Delete, txn).await {
            Ok(committed) => {
                let removed = key::version(committed.revision);
                let object = self.resource.with_version(last, removed);
                Ok(Outcome::Written(object.map_err(error::undecodable)?))
            }
            Err(failed) => self.commit_error(failed),
        }
    }

    async fn commit(
        &self,
        key: &Key,
        compare: Compare,
        put: Put,
        side_writes: Vec<SideWrite>,
    ) -> Result<Outcome, Status> {
        let operation = match compare {
            Compare::Absent { .. } => CommitOperation::Create,
            _ => CommitOperation::Update,
        };
        let mut txn = WriteTxn::new(self.backend(), compare, Op::Put(put));
        side_writes::add(self, side_writes, &mut txn)?;
        match self.commit_timed(operation, txn).await {
            Ok(committed) => {
                let record = committed.records.into_iter().next().flatten();
                let record: Arc<Record> = record.expect("a put leaves its record");
                let object = self.resource.find_or_decode(key, &record);
                Ok(Outcome::Written(object.map_err(error::undecodable)?))
            }
            Err(failed) => self.commit_error(failed),
        }
    }

    async fn commit_timed(
        &self,
        operation: CommitOperation,
        txn: WriteTxn<'_>,
    ) -> Result<TxnResponse, setpoint_store::Error> {
        let start = self.registry.clock.now();
        let committed = txn.commit().await;
        let took = self.registry.clock.now().duration_since(start);
        self.resource.commits.observe(operation, took.unsigned_abs());
        committed
    }

    /// The first compare of a transaction is that of the object, the others are those of side writes.
    fn commit_error(&self, failed: setpoint_store::Error) -> Result<Outcome, Status> {
        match failed {
            setpoint_store::Error::Precondition { index: 0, .. } => {
                self.registry.counters.conflicts.fetch_add(1, Relaxed);
                Ok(Outcome::Conflict)
            }
            setpoint_store::Error::Precondition { .. } => Ok(Outcome::SideWriteConflict),
            other => Err(error::from_store(other)),
        }
    }

    /// The object of encoded bytes that are not committed: of a dry run, or the last state before a removal.
    pub(crate) fn unstored_object(
        &self,
        key: &Key,
        written: &CanonicalJson,
        version: Option<ResourceVersion>,
    ) -> Result<Arc<Stored>, Status> {
        let object = self.resource.unstored_object(key.clone(), written, version);
        object.map_err(error::undecodable)
    }

    /// The put of an object, with its expiry.
    pub(crate) fn put(&self, key: &Key, encoded: EncodedObject) -> Put {
        let EncodedObject { written, header } = encoded;
        let ttl = self.kind.expires_after(&self.facts);
        let millis = |ttl: Duration| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        Put {
            key: self.storage_key(key),
            value: Bytes::from(written.bytes),
            stamp: written.resource_version_offset,
            expires: ttl.map(|ttl| self.registry.clock.millis().saturating_add(millis(ttl))),
            attachment: encoded_object::attachment(header, written.body_offset),
            sealed: None,
        }
    }

    pub(crate) fn compare_version(&self, key: &Key, version: ResourceVersion) -> Compare {
        Compare::Modified {
            key: self.storage_key(key),
            revision: Revision::new(version.0),
        }
    }

    pub(crate) fn storage_key(&self, key: &Key) -> Bytes {
        key::storage_key(&self.resource.prefix, key)
    }
}
