//! Admission: the interface for rules that look at other objects before a write.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use setpoint_api::{GroupResource, Key, Status, Stored, User};
use setpoint_cache::Caches;
use setpoint_schema::Tree;
use setpoint_strategy::{Kind, KindInfo, RequestFacts, meta};

use crate::registry::Registry;
use crate::request_context::RequestContext;

/// An admission chain. It runs inside the verb, on every attempt against the newest object.
pub trait Admit: Send + Sync {
    /// May change the object. Runs before the kind's own rules, in creates and updates.
    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a>;

    /// May reject the write or add side writes, and change nothing else. Runs after the kind's own rules, in creates,
    /// updates and deletions.
    fn validate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a>;
}

/// The pending decision of an admission chain: webhooks have to be called first.
pub type AdmitFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'a>>;

/// A write under review by admission (upstream: `admission.Attributes`).
pub struct Review<'a> {
    pub operation: Operation,
    pub user: &'a Arc<User>,
    pub kind: &'a KindInfo,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Empty until the server has generated a name.
    pub name: &'a str,
    pub subresource: Option<&'a str>,
    /// The object to be written, in the storage version; absent in a deletion. For a connect, its options.
    pub object: Option<&'a mut Tree>,
    /// The stored object; absent in a create.
    pub old: Option<&'a Stored>,
    pub dry_run: bool,
    pub facts: &'a RequestFacts,
    /// Further writes in the transaction of the object. If one of them has a conflict, the whole verb is retried.
    pub side_writes: Vec<SideWrite>,
    /// Warnings for the response.
    pub warnings: Vec<String>,
    pub(crate) registry: &'a Registry,
}

/// The operation on the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// A write of another object in the same transaction. Its own kind's rules prepare it; admission does not run on it.
#[derive(Debug, Clone)]
pub enum SideWrite {
    Create {
        resource: GroupResource,
        object: Tree,
    },
    /// The object must still be the version that was read.
    Update {
        resource: GroupResource,
        old: Arc<Stored>,
        object: Tree,
    },
    Delete {
        resource: GroupResource,
        old: Arc<Stored>,
    },
    /// The object is only compared: the write relies on its being unchanged.
    Unchanged {
        resource: GroupResource,
        old: Arc<Stored>,
    },
}

/// Admits every write: for tests, and for servers that trust their callers.
#[derive(Debug, Clone, Copy, Default)]
pub struct AdmitAll;

/// What admission adds to a write.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdmissionEffects {
    pub(crate) side_writes: Vec<SideWrite>,
    pub(crate) warnings: Vec<String>,
}

impl Review<'_> {
    /// The caches of the server. They may lag behind the store; see [`Review::find`].
    pub fn caches(&self) -> &dyn Caches {
        self.registry
    }

    /// Another object, as it is in the store now.
    pub fn find(&self, resource: &GroupResource, key: &Key) -> Option<Arc<Stored>> {
        let resource = self.registry.find_resource(resource)?;
        self.registry.find(&resource, key).ok().flatten()
    }

    /// The kind that a reference names.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<Arc<dyn Kind>> {
        let is_named = |one: &&Arc<dyn Kind>| {
            let gvk = &one.info().gvk;
            gvk.kind == kind && gvk.api_version() == api_version
        };
        self.registry.kinds().iter().find(is_named).cloned()
    }

    /// Decodes another object into a tree in normal form.
    pub fn decode(&self, resource: &GroupResource, object: &Stored) -> Option<Tree> {
        let resource = self.registry.find_resource(resource)?;
        resource.kind.decode_stored(object).ok()
    }

    /// Decodes the stored object; none in a create.
    pub fn decode_old(&self) -> Option<Tree> {
        self.decode(&self.kind.storage.group_resource(), self.old?)
    }
}

impl fmt::Debug for Review<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Review")
            .field("operation", &self.operation)
            .field("resource", &self.kind.gvr)
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("subresource", &self.subresource)
            .finish_non_exhaustive()
    }
}

impl Admit for AdmitAll {
    fn mutate<'a>(&'a self, _review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(async { Ok(()) })
    }

    fn validate<'a>(&'a self, _review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(async { Ok(()) })
    }
}

// === impl RequestContext ===

impl RequestContext<'_> {
    /// Runs mutating admission.
    pub(crate) async fn mutate(
        &self,
        operation: Operation,
        object: &mut Tree,
        old: Option<&Stored>,
        dry_run: bool,
    ) -> Result<AdmissionEffects, Status> {
        let name = meta::name(object).to_owned();
        let mut review = self.review(operation, &name, old, dry_run);
        review.object = Some(object);
        self.registry.admit.mutate(&mut review).await?;
        Ok(AdmissionEffects::of(review))
    }

    /// Runs validating admission.
    pub(crate) async fn admit(
        &self,
        operation: Operation,
        object: Option<&mut Tree>,
        old: Option<&Stored>,
        dry_run: bool,
    ) -> Result<AdmissionEffects, Status> {
        let own = object.as_ref().map(|object| meta::name(object).to_owned());
        let old_name = || old.map(|old| old.key().name().to_owned());
        let name = own.or_else(old_name).unwrap_or_default();
        let mut review = self.review(operation, &name, old, dry_run);
        review.object = object;
        self.registry.admit.validate(&mut review).await?;
        Ok(AdmissionEffects::of(review))
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
            kind: self.kind_info(),
            namespace: self.namespace(),
            name,
            subresource: self.target.subresource.as_deref(),
            object: None,
            old,
            dry_run,
            facts: &self.facts,
            side_writes: Vec::new(),
            warnings: Vec::new(),
            registry: self.registry,
        }
    }
}

// === impl AdmissionEffects ===

impl AdmissionEffects {
    fn of(review: Review<'_>) -> Self {
        let effects = Self {
            side_writes: review.side_writes,
            warnings: Vec::new(),
        };
        effects.with_warnings(review.warnings)
    }

    /// The effects of mutating admission and those of validating admission.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.side_writes.extend(other.side_writes);
        self.with_warnings(other.warnings)
    }

    /// Adds warnings, each once.
    fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        for warning in warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        self
    }
}
