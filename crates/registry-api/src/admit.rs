//! Admission: the interface for rules that look at other objects before a write.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::options::{DeleteOptions, WriteOptions};
use setpoint_api::{
    ApiVerb, AuditAnnotation, GroupResource, Gvk, Key, ResourceVersion, Status, Stored, User,
};
use setpoint_cache::Caches;
use setpoint_schema::Tree;
use setpoint_strategy::{Kind, KindInfo, Kinds, RequestFacts};

use crate::reinvocation::ReinvocationContext;

/// An admission chain. It runs inside the verb, on every attempt against the newest object.
pub trait Admit: Send + Sync {
    /// May change the object. Runs before the kind's own rules, in creates and updates; in deletions and connects,
    /// where there is no object to change, right before [`Admit::validate`].
    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a>;

    /// May reject the write or add side writes, and change nothing else. Runs after the kind's own rules, in creates,
    /// updates and deletions.
    fn validate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a>;

    /// Whether a webhook or a policy may see the whole object. Managed fields of an object that is not stored are computed
    /// for them alone.
    fn shows_object(&self, _review: &Review<'_>) -> bool {
        true
    }
}

/// The pending decision of an admission chain: webhooks have to be called first.
pub type AdmitFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'a>>;

/// A pending conversion of an object to another version.
pub type ConversionFuture<'a> = Pin<Box<dyn Future<Output = Result<Tree, Status>> + Send + 'a>>;

/// A write under review by admission (upstream: `admission.Attributes`).
pub struct Review<'a> {
    pub operation: Operation,
    /// The verb of the request. It differs from the operation where an update or a patch creates the object.
    pub verb: ApiVerb,
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
    /// The old state of a subresource that has a kind of its own and is updated: the Scale of the stored object.
    pub old_body: Option<&'a Tree>,
    pub options: OperationOptions<'a>,
    pub dry_run: bool,
    pub facts: &'a RequestFacts,
    /// The request fails if it is not done by then.
    pub deadline: Timestamp,
    /// Which mutating plugins run a second time, after a later one has changed the object.
    pub reinvocation: ReinvocationContext,
    /// Further writes in the transaction of the object. If one of them has a conflict, the whole verb is retried.
    pub side_writes: Vec<SideWrite>,
    /// Warnings for the response.
    pub warnings: Vec<String>,
    /// Annotations of the request's audit event.
    pub audit_annotations: Vec<AuditAnnotation>,
    /// The other objects of the server.
    pub reader: &'a dyn ObjectReader,
}

/// The objects and kinds of the server, which plugins read besides the object under review. The caches may lag behind
/// the store; [`ObjectReader::find_object`] does not.
pub trait ObjectReader: Caches {
    /// An object, as it is in the store now.
    fn find_object(&self, resource: &GroupResource, key: &Key) -> Option<Arc<Stored>>;

    /// The numbers that are allocated to objects of a resource, as they are in the store now; absent if they were never
    /// stored.
    fn find_range(&self, _resource: &GroupResource) -> Result<Option<StoredRange>, Status> {
        Ok(None)
    }

    /// Decodes an object into a tree in normal form.
    fn decode_object(&self, resource: &GroupResource, object: &Stored) -> Option<Tree>;

    /// The kinds that are served now.
    fn served_kinds(&self) -> Arc<Kinds>;

    /// Converts an object of a custom kind, in any version of it, to the version of this kind. It waits if only a webhook
    /// can convert it.
    fn convert_object<'a>(&'a self, kind: &'a Arc<dyn Kind>, object: &'a Tree) -> ConversionFuture<'a> {
        let mut object = object.clone();
        let converted = kind.adopt_prepared(&mut object);
        Box::pin(ready(converted.map(|()| object).map_err(Status::internal)))
    }
}

/// The operation on the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// The options of the operation. A patch has those of the create or update that it performs.
#[derive(Debug, Clone, Copy)]
pub enum OperationOptions<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
    /// A connect has none.
    None,
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
    /// The range that objects of this resource have numbers of must still be the version that was read, or absent. It is
    /// replaced, or else only compared.
    Range {
        read: Option<ResourceVersion>,
        new: Option<RangeAllocation>,
    },
}

/// The numbers of a range that are allocated (upstream: `RangeAllocation`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeAllocation {
    /// The first and the last number, as text.
    pub range: String,
    /// The bitmap as one big-endian number: its lowest bit is that of the first number.
    pub data: Vec<u8>,
}

/// A stored [`RangeAllocation`], and its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRange {
    pub allocation: RangeAllocation,
    pub version: ResourceVersion,
}

impl OperationOptions<'_> {
    pub fn is_dry_run(self) -> bool {
        match self {
            Self::Write(options) => options.dry_run,
            Self::Delete(options) => options.dry_run,
            Self::None => false,
        }
    }

    /// How long the request may take, if the caller has set it.
    pub fn timeout(self) -> Option<Duration> {
        match self {
            Self::Write(options) => options.timeout,
            Self::Delete(options) => options.timeout,
            Self::None => None,
        }
    }
}

/// Admits every write: for tests, and for servers that trust their callers.
#[derive(Debug, Clone, Copy, Default)]
pub struct AdmitAll;

impl Review<'_> {
    /// The caches of the server. They may lag behind the store; see [`Review::find`].
    pub fn caches(&self) -> &dyn Caches {
        self.reader
    }

    /// Another object, as it is in the store now.
    pub fn find(&self, resource: &GroupResource, key: &Key) -> Option<Arc<Stored>> {
        self.reader.find_object(resource, key)
    }

    /// The kind of the object under review: that of the resource, or of the body of the subresource.
    pub fn object_kind(&self) -> Gvk {
        kind_of(self.kind, self.subresource)
    }

    /// The kind that a reference names.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<Arc<dyn Kind>> {
        let is_named = |one: &&Arc<dyn Kind>| {
            let gvk = &one.info().gvk;
            gvk.kind == kind && gvk.api_version() == api_version
        };
        self.reader.served_kinds().iter().find(is_named).cloned()
    }

    /// Decodes another object into a tree in normal form.
    pub fn decode(&self, resource: &GroupResource, object: &Stored) -> Option<Tree> {
        self.reader.decode_object(resource, object)
    }

    /// Decodes the stored object; none in a create.
    pub fn decode_old(&self) -> Option<Tree> {
        self.decode(&self.kind.storage.group_resource(), self.old?)
    }
}

/// The kind of the objects of a resource, or of the bodies of its subresource.
pub fn kind_of(info: &KindInfo, subresource: Option<&str>) -> Gvk {
    let subresource = subresource.and_then(|name| info.find_subresource(name));
    match subresource.map(|subresource| subresource.body_kind) {
        None | Some(("", "", "")) => info.gvk.clone(),
        Some((group, version, kind)) => Gvk::new(group, version, kind),
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
