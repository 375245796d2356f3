//! One request on its way through a verb: who asks, about what, and the steps that several verbs share.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;

use setpoint_api::field::Errors;
use setpoint_api::options::FieldValidation;
use setpoint_api::{Key, Payload, ResourceVersion, Status, Stored, Target, User};
use setpoint_codec::strict::{self, Decoded};
use setpoint_kinds::{About, Draft, Facts, Problem};
use setpoint_schema::{Shape, Written};
use setpoint_store::{Compare, Op, Put, Record, Revision, Txn};

use crate::admit::{Operation, Review};
use crate::registry::{Registry, Resource};
use crate::{error, key};

/// A request about one resource.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) resource: &'a Resource,
    pub(crate) user: Arc<User>,
    pub(crate) target: Target,
    pub(crate) facts: Facts,
}

/// A document that was read, and what there is to say about it.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) draft: Box<dyn Draft>,
    pub(crate) warnings: Vec<String>,
}

/// What came of an attempt to write.
#[derive(Debug)]
pub(crate) enum Outcome {
    Written(Arc<Stored>),
    /// Someone else was faster: the compare did not hold.
    Overtaken,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        registry: &'a Registry,
        resource: &'a Resource,
        user: Arc<User>,
        target: Target,
    ) -> Self {
        let facts = Facts {
            now: registry.clock.now(),
            user: user.clone(),
            event_ttl: registry.event_ttl,
        };
        Self {
            registry,
            resource,
            user,
            target,
            facts,
        }
    }

    pub(crate) fn about(&self) -> &'a About {
        self.resource.kind.about()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.target.namespace.as_deref().unwrap_or_default()
    }

    /// The key of the object the request points at.
    pub(crate) fn key(&self) -> Result<Key, Status> {
        let name = self.target.name.as_deref();
        let name = name.ok_or_else(|| Status::bad_request("name must be provided"))?;
        if self.about().is_namespaced() && self.namespace().is_empty() {
            return Err(Status::bad_request(
                "an empty namespace may not be set when a resource name is provided",
            ));
        }
        Ok(Key::new(self.namespace(), name))
    }

    pub(crate) fn not_found(&self, key: &Key) -> Status {
        Status::not_found(&self.resource.name, key.name())
    }

    pub(crate) fn find(&self, key: &Key) -> Result<Option<Arc<Stored>>, Status> {
        self.registry.find(self.resource, key)
    }

    /// Reads a document of this resource's kind, with its defaults.
    pub(crate) fn decode(&self, payload: &Payload, validation: FieldValidation) -> Result<Incoming, Status> {
        let kind = &self.resource.kind;
        let decoded = self.read(payload, kind.shape(), validation)?;
        let mut draft = kind
            .draft(decoded.tree)
            .map_err(|problem| self.unreadable_document(&problem))?;
        draft.default_fields();
        Ok(Incoming {
            draft,
            warnings: decoded.warnings,
        })
    }

    /// Reads a document of any shape.
    pub(crate) fn read(
        &self,
        payload: &Payload,
        shape: &Shape,
        validation: FieldValidation,
    ) -> Result<Decoded, Status> {
        strict::decode(&payload.bytes, payload.encoding, shape, validation)
            .map_err(|error| Status::bad_request(error.to_string()))
    }

    /// The namespace of the document must be that of the URL, or absent.
    pub(crate) fn settle_namespace(&self, draft: &mut dyn Draft) -> Result<(), Status> {
        let meta = draft.metadata_mut();
        if !self.about().is_namespaced() {
            meta.namespace = None;
            return Ok(());
        }
        let own = meta.namespace.as_deref().unwrap_or_default();
        if !own.is_empty() && own != self.namespace() {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        meta.namespace = self.target.namespace.as_deref().map(str::to_owned);
        Ok(())
    }

    /// Runs a check of the kind and turns what it found into one answer.
    pub(crate) fn check(&self, name: &str, rules: impl FnOnce(&Errors<'_>)) -> Result<(), Status> {
        let errors = Errors::default();
        rules(&errors);
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(&self.about().gvk, name, &errors.into_vec()))
    }

    pub(crate) fn mutate(
        &self,
        operation: Operation,
        draft: &mut dyn Draft,
        old: Option<&Stored>,
        dry_run: bool,
    ) -> Result<(), Status> {
        let name = draft.name().to_owned();
        let mut review = self.review(operation, &name, old, dry_run);
        review.draft = Some(draft);
        self.registry.admit.mutate(&mut review)
    }

    pub(crate) fn admit(
        &self,
        operation: Operation,
        draft: Option<&mut dyn Draft>,
        old: Option<&Stored>,
        dry_run: bool,
    ) -> Result<(), Status> {
        let draft_name = draft.as_ref().map(|draft| draft.name().to_owned());
        let old_name = || old.map(|old| old.key().name().to_owned());
        let name = draft_name.or_else(old_name).unwrap_or_default();
        let mut review = self.review(operation, &name, old, dry_run);
        review.draft = draft;
        self.registry.admit.validate(&review)
    }

    fn review<'b>(
        &'b self,
        operation: Operation,
        name: &'b str,
        old: Option<&'b Stored>,
        dry_run: bool,
    ) -> Review<'b> {
        Review {
            operation,
            user: &self.user,
            kind: self.about(),
            namespace: self.namespace(),
            name,
            subresource: self.target.subresource.as_deref(),
            draft: None,
            old,
            dry_run,
            registry: self.registry,
        }
    }

    /// Writes an object that must not be there yet.
    pub(crate) async fn insert(
        &self,
        key: &Key,
        written: Written,
        draft: &dyn Draft,
    ) -> Result<Outcome, Status> {
        let compare = Compare::Absent {
            key: self.stored_at(key),
        };
        self.commit(key, compare, self.put(key, written, draft)).await
    }

    /// Writes an object that must be at this version still.
    pub(crate) async fn replace(
        &self,
        key: &Key,
        version: ResourceVersion,
        written: Written,
        draft: &dyn Draft,
    ) -> Result<Outcome, Status> {
        let compare = self.unchanged(key, version);
        self.commit(key, compare, self.put(key, written, draft)).await
    }

    /// Removes an object that must be at this version still; what is answered is `last`, with the removal's version.
    pub(crate) async fn remove(
        &self,
        key: &Key,
        version: ResourceVersion,
        last: &Stored,
    ) -> Result<Outcome, Status> {
        let delete = Op::Delete {
            key: self.stored_at(key),
        };
        let txn = Txn {
            compares: vec![self.unchanged(key, version)],
            ops: vec![delete],
        };
        match self.registry.store.commit(txn).await {
            Ok(committed) => {
                let removed = key::version(committed.revision);
                let object = self.resource.restamped(last, removed);
                Ok(Outcome::Written(object.map_err(error::unreadable)?))
            }
            Err(failed) => self.overtaken(failed),
        }
    }

    /// The bytes of an object. The draft passed the kind's rules, so a failure is a fault of this side.
    pub(crate) fn write(&self, draft: &dyn Draft) -> Result<Written, Status> {
        self.resource.write(draft).map_err(error::unreadable)
    }

    /// The answer of a write that is only tried.
    pub(crate) fn unstored(
        &self,
        key: Key,
        written: &Written,
        version: Option<ResourceVersion>,
    ) -> Result<Arc<Stored>, Status> {
        self.resource
            .unstored(key, written, version)
            .map_err(error::unreadable)
    }

    async fn commit(&self, key: &Key, compare: Compare, put: Put) -> Result<Outcome, Status> {
        let txn = Txn {
            compares: vec![compare],
            ops: vec![Op::Put(put)],
        };
        match self.registry.store.commit(txn).await {
            Ok(committed) => {
                let record = committed.records.into_iter().next().flatten();
                let record: Arc<Record> = record.expect("a put leaves its record");
                let object = self.resource.shared(key, &record);
                Ok(Outcome::Written(object.map_err(error::unreadable)?))
            }
            Err(failed) => self.overtaken(failed),
        }
    }

    fn overtaken(&self, failed: setpoint_store::Error) -> Result<Outcome, Status> {
        match failed {
            setpoint_store::Error::Precondition { .. } => {
                self.registry.counters.conflicts.fetch_add(1, Relaxed);
                Ok(Outcome::Overtaken)
            }
            other => Err(error::status(other)),
        }
    }

    /// The write of an object, with the time it lives.
    pub(crate) fn put(&self, key: &Key, written: Written, draft: &dyn Draft) -> Put {
        let lives = draft.expires_after(&self.facts);
        let millis = |lives: std::time::Duration| u64::try_from(lives.as_millis()).unwrap_or(u64::MAX);
        Put {
            key: self.stored_at(key),
            value: Bytes::from(written.bytes),
            stamp: written.stamp,
            expires: lives.map(|lives| self.registry.clock.millis().saturating_add(millis(lives))),
        }
    }

    fn unchanged(&self, key: &Key, version: ResourceVersion) -> Compare {
        Compare::Modified {
            key: self.stored_at(key),
            revision: Revision::new(version.0),
        }
    }

    fn stored_at(&self, key: &Key) -> Bytes {
        key::of(&self.resource.prefix, key)
    }

    fn unreadable_document(&self, problem: &Problem) -> Status {
        let gvk = &self.about().gvk;
        Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: {problem}",
            gvk.version,
            kind = gvk.kind
        ))
    }
}
