//! One request on its way through a verb: who asks, about what, and the steps that several verbs share.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use parking_lot::Mutex;

use setpoint_api::field::Errors;
use setpoint_api::options::FieldValidation;
use setpoint_api::{GroupResource, Key, Payload, ResourceVersion, Status, Stored, Target, User};
use setpoint_codec::strict::{self, Decoded};
use setpoint_kinds::{About, Facts, Kind, Problem, meta};
use setpoint_schema::{Shape, Tree, Written};
use setpoint_store::{Compare, Op, Put, Record, Revision, Txn};

use crate::admit::{Companion, Operation, Review};
use crate::companions;
use crate::owners::{self, Moment};
use crate::ready::{self, Ready};
use crate::registry::Registry;
use crate::table::{Resource, Served};
use crate::{error, key};

/// A request about one resource.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) registry: &'a Registry,
    /// The kind in the version of the request.
    pub(crate) kind: Arc<dyn Kind>,
    /// Where its objects are.
    pub(crate) resource: Arc<Resource>,
    /// The resource as the request names it.
    pub(crate) name: GroupResource,
    pub(crate) user: Arc<User>,
    pub(crate) target: Target,
    pub(crate) facts: Facts,
    /// What there was to say about the document, should it be refused.
    said: Mutex<Vec<String>>,
}

/// A document that was read, and what there is to say about it.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) object: Tree,
    pub(crate) warnings: Vec<String>,
}

/// What admission adds to a write.
#[derive(Debug, Default)]
pub(crate) struct Along {
    /// The write is only tried.
    pub(crate) dry_run: bool,
    pub(crate) companions: Vec<Companion>,
    pub(crate) warnings: Vec<String>,
}

/// What came of an attempt to write.
#[derive(Debug)]
pub(crate) enum Outcome {
    Written(Arc<Stored>),
    /// Someone else was faster: the object is no longer what it was.
    Overtaken,
    /// Someone else was faster with something that was to be written along.
    CompanionOvertaken,
}

impl<'a> Call<'a> {
    pub(crate) fn new(registry: &'a Registry, served: Served, user: Arc<User>, target: Target) -> Self {
        let facts = Facts {
            now: registry.clock.now(),
            user: user.clone(),
            event_ttl: registry.event_ttl,
        };
        Self {
            registry,
            name: served.kind.about().gvr.group_resource(),
            kind: served.kind,
            resource: served.resource,
            user,
            target,
            facts,
            said: Mutex::default(),
        }
    }

    /// Remembers what there is to say about a document, should it be refused later.
    pub(crate) fn say(&self, warnings: &[String]) {
        *self.said.lock() = warnings.to_vec();
    }

    /// What there was to say.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().clone()
    }

    pub(crate) fn about(&self) -> &About {
        self.kind.about()
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
        match self.about().rules.called_absent {
            "" => Status::not_found(&self.name, key.name()),
            word => Status::not_found(&GroupResource::new(&self.name.group, word), key.name()),
        }
    }

    pub(crate) fn find(&self, key: &Key) -> Result<Option<Arc<Stored>>, Status> {
        self.registry.find(&self.resource, key)
    }

    /// Reads a document of this resource's kind, with its defaults.
    pub(crate) fn decode(&self, payload: &Payload, validation: FieldValidation) -> Result<Incoming, Status> {
        let decoded = self.kind.decode(&payload.bytes, payload.encoding, validation);
        let decoded = decoded.map_err(|error| Status::bad_request(error.to_string()))?;
        let (mut object, mut warnings) = (decoded.tree, decoded.warnings);
        self.say(&warnings);
        self.take_in(&mut object)
            .map_err(|problem| self.unreadable_document(&problem))?;
        if let Some(told) = owners::dedup(&mut object, Moment::Sent) {
            warnings.push(told);
            self.say(&warnings);
        }
        Ok(Incoming { object, warnings })
    }

    /// Takes in a document. A list of owners that is given but empty says that they are to be forgotten, so it stays; in
    /// an object of a kind that a definition made it says nothing.
    pub(crate) fn take_in(&self, object: &mut Tree) -> Result<(), Problem> {
        let owners = meta::find(object, "managedFields").and_then(Tree::as_list);
        let forget = !self.about().defined && owners.is_some_and(<[Tree]>::is_empty);
        self.kind.take_in(object)?;
        self.kind.fill_in(object, &self.facts);
        if forget {
            meta::set(object, "managedFields", Vec::new());
        }
        Ok(())
    }

    /// The document of a stored object in the version of the request, as it is written.
    pub(crate) fn presented(&self, object: &Arc<Stored>) -> Result<Tree, Status> {
        let tree = match self.kind.converts() {
            false => setpoint_codec::json::parse(object.json()),
            true => {
                let object = self.kind.present(object);
                setpoint_codec::json::parse(object.map_err(error::unreadable)?.json())
            }
        };
        tree.map_err(Status::internal)
    }

    /// Reads a document of any shape.
    pub(crate) fn read(
        &self,
        payload: &Payload,
        shape: &Shape,
        validation: FieldValidation,
    ) -> Result<Decoded, Status> {
        let decoded = strict::decode(&payload.bytes, payload.encoding, shape, validation);
        let decoded = decoded.map_err(|error| Status::bad_request(error.to_string()))?;
        self.say(&decoded.warnings);
        Ok(decoded)
    }

    /// What is stored is not what the caller takes it for.
    pub(crate) fn invalid_object(&self, key: &Key, why: &str) -> Status {
        let place = key::told(self.about());
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {place}{key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
        );
        Status::conflict(&self.name, key.name(), &why)
    }

    /// The name of the document must be that of the URL: a write changes an object, it does not make it another one.
    pub(crate) fn settle_name(&self, object: &Tree) -> Result<(), Status> {
        let wanted = self.target.name.as_deref().unwrap_or_default();
        match meta::name(object) {
            "" => Err(Status::bad_request(format!(
                "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
            ))),
            name if name != wanted => Err(Status::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({wanted})"
            ))),
            _ => Ok(()),
        }
    }

    /// The namespace of the document must be that of the URL, or absent.
    pub(crate) fn settle_namespace(&self, object: &mut Tree) -> Result<(), Status> {
        if !self.about().is_namespaced() {
            meta::clear(object, "namespace");
            return Ok(());
        }
        let own = meta::str(object, "namespace");
        if !own.is_empty() && own != self.namespace() {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if own.is_empty() {
            meta::set(object, "namespace", self.namespace());
        }
        Ok(())
    }

    /// Runs a check of the kind and turns what it found into one answer. Only once something is found does it matter
    /// where, so the rules are asked again then.
    pub(crate) fn check(&self, name: &str, rules: impl Fn(&Errors)) -> Result<(), Status> {
        let errors = Errors::unplaced();
        rules(&errors);
        if errors.is_empty() {
            return Ok(());
        }
        let errors = Errors::default();
        rules(&errors);
        Err(Status::invalid(self.kind.stored_kind(), name, &errors.into_vec()))
    }

    pub(crate) async fn mutate(
        &self,
        operation: Operation,
        object: &mut Tree,
        old: Option<&Stored>,
        along: &mut Along,
    ) -> Result<(), Status> {
        let name = meta::name(object).to_owned();
        let mut review = self.review(operation, &name, old, along.dry_run);
        review.object = Some(object);
        self.registry.admit.mutate(&mut review).await?;
        along.take(review);
        Ok(())
    }

    pub(crate) async fn admit(
        &self,
        operation: Operation,
        object: Option<&mut Tree>,
        old: Option<&Stored>,
        along: &mut Along,
    ) -> Result<(), Status> {
        let own = object.as_ref().map(|object| meta::name(object).to_owned());
        let old_name = || old.map(|old| old.key().name().to_owned());
        let name = own.or_else(old_name).unwrap_or_default();
        let mut review = self.review(operation, &name, old, along.dry_run);
        review.object = object;
        self.registry.admit.validate(&mut review).await?;
        along.take(review);
        Ok(())
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
            object: None,
            old,
            dry_run,
            facts: &self.facts,
            companions: Vec::new(),
            warnings: Vec::new(),
            registry: self.registry,
        }
    }

    /// Writes an object that must not be there yet.
    pub(crate) async fn insert(&self, key: &Key, ready: Ready, along: Along) -> Result<Outcome, Status> {
        let compare = Compare::Absent {
            key: self.stored_at(key),
        };
        self.commit(key, compare, self.put(key, ready), along).await
    }

    /// Writes an object that must be at this version still.
    pub(crate) async fn replace(
        &self,
        key: &Key,
        version: ResourceVersion,
        ready: Ready,
        along: Along,
    ) -> Result<Outcome, Status> {
        let compare = self.unchanged(key, version);
        self.commit(key, compare, self.put(key, ready), along).await
    }

    /// Removes an object that must be at this version still; what is answered is `last`, with the removal's version.
    pub(crate) async fn remove(
        &self,
        key: &Key,
        version: ResourceVersion,
        last: &Stored,
        along: Along,
    ) -> Result<Outcome, Status> {
        let delete = Op::Delete {
            key: self.stored_at(key),
        };
        let mut txn = Txn {
            compares: vec![self.unchanged(key, version)],
            ops: vec![delete],
        };
        companions::add(self, along.companions, &mut txn)?;
        match self.registry.store.commit(txn).await {
            Ok(committed) => {
                let removed = key::version(committed.revision);
                let object = self.resource.restamped(last, removed);
                Ok(Outcome::Written(object.map_err(error::unreadable)?))
            }
            Err(failed) => self.overtaken(failed),
        }
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

    async fn commit(&self, key: &Key, compare: Compare, put: Put, along: Along) -> Result<Outcome, Status> {
        let mut txn = Txn {
            compares: vec![compare],
            ops: vec![Op::Put(put)],
        };
        companions::add(self, along.companions, &mut txn)?;
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
            setpoint_store::Error::Precondition { index: 0, .. } => {
                self.registry.counters.conflicts.fetch_add(1, Relaxed);
                Ok(Outcome::Overtaken)
            }
            setpoint_store::Error::Precondition { .. } => Ok(Outcome::CompanionOvertaken),
            other => Err(error::status(other)),
        }
    }

    /// The write of an object, with the time it lives.
    pub(crate) fn put(&self, key: &Key, ready: Ready) -> Put {
        let Ready { written, header } = ready;
        let lives = self.kind.expires_after(&self.facts);
        let millis = |lives: std::time::Duration| u64::try_from(lives.as_millis()).unwrap_or(u64::MAX);
        Put {
            key: self.stored_at(key),
            value: Bytes::from(written.bytes),
            stamp: written.stamp,
            expires: lives.map(|lives| self.registry.clock.millis().saturating_add(millis(lives))),
            memo: ready::memo(header, written.body_at),
        }
    }

    pub(crate) fn unchanged(&self, key: &Key, version: ResourceVersion) -> Compare {
        Compare::Modified {
            key: self.stored_at(key),
            revision: Revision::new(version.0),
        }
    }

    pub(crate) fn stored_at(&self, key: &Key) -> Bytes {
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

// === impl Along ===

impl Along {
    pub(crate) fn new(dry_run: bool) -> Self {
        Self {
            dry_run,
            ..Self::default()
        }
    }

    fn take(&mut self, review: Review<'_>) {
        self.companions.extend(review.companions);
        for warning in review.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }
}
