//! The API as one function: [`Serve`].
//!
//! HTTP is one way to reach it, an in-process call another; a caller cannot distinguish them. URLs and headers are
//! parsed once, by the HTTP layer, and do not appear here.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use compact_str::CompactString;
use futures_core::Stream;

use crate::audit_annotation::AuditAnnotation;
use crate::change::Event;
use crate::gvk::Gvr;
use crate::key::Key;
use crate::object::Stored;
use crate::options::{DeleteOptions, GetOptions, ListOptions, PatchType, WatchOptions, WriteOptions};
use crate::status::Status;
use crate::user::User;
use crate::verb::ApiVerb;
use crate::version::ResourceVersion;

/// The API: a request in, a response or a [`Status`] out.
///
/// The registry implements it over the store, the HTTP client over a remote server; a test may use a closure.
pub trait Serve: Send + Sync {
    /// Handles one request. Dropping the future cancels the request; a write may have been committed all the same.
    fn call(&self, request: Request) -> ServeFuture<'_>;
}

/// The future that [`Serve::call`] returns.
pub type ServeFuture<'a> = Pin<Box<dyn Future<Output = Result<Response, Status>> + Send + 'a>>;

impl<F> Serve for F
where
    F: Fn(Request) -> ServeFuture<'static> + Send + Sync,
{
    fn call(&self, request: Request) -> ServeFuture<'_> {
        self(request)
    }
}

/// One API request: the user, the target and the verb with its options and payload.
#[derive(Debug, Clone)]
pub struct Request {
    pub user: Arc<User>,
    pub target: Target,
    pub verb: Verb,
}

/// What a request points at: a resource, one object of it, or a subresource of that object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub resource: Gvr,
    /// Absent for cluster-scoped resources, and for requests across all namespaces.
    pub namespace: Option<CompactString>,
    pub name: Option<CompactString>,
    pub subresource: Option<CompactString>,
}

/// The verb of a request, with its options and payload; [`ApiVerb`] is the verb alone.
#[derive(Debug, Clone)]
pub enum Verb {
    Get(GetOptions),
    List(ListOptions),
    Watch(WatchOptions),
    Create(Payload, WriteOptions),
    Update(Payload, WriteOptions),
    Patch(PatchType, Payload, WriteOptions),
    Delete(DeleteOptions),
    DeleteCollection(DeleteOptions, ListOptions),
}

/// A request body as the caller sent it, not yet decoded.
#[derive(Debug, Clone)]
pub struct Payload {
    pub encoding: Encoding,
    pub bytes: Bytes,
}

/// The encoding of a [`Payload`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// The response to a request that succeeded.
#[derive(Debug)]
pub struct Response {
    pub body: Body,
    /// Warnings for the caller (HTTP `Warning` headers): unknown fields that were dropped, deprecated versions.
    pub warnings: Vec<String>,
    /// For the audit event of the request.
    pub audit_annotations: Vec<AuditAnnotation>,
    /// Whether the request created an object (201, not 200).
    pub created: bool,
}

/// The body of a response.
pub enum Body {
    /// One object, as it is stored.
    Object(Arc<Stored>),
    /// The JSON of an object that is not stored as such: a Scale, a TokenReview.
    Json(Bytes),
    List(List),
    Watch(Watch),
    /// A success without an object.
    Status(Box<Status>),
}

/// Objects of one resource at one revision.
#[derive(Debug, Default)]
pub struct List {
    pub items: Vec<Arc<Stored>>,
    pub resource_version: ResourceVersion,
    /// Where the next page starts; absent on the last page.
    pub continue_token: Option<String>,
    pub remaining_item_count: Option<u64>,
}

/// The events of a watch. The stream ends when the watch does.
pub type Watch = Pin<Box<dyn Stream<Item = Event> + Send>>;

// === impl Target ===

impl Target {
    /// All objects of a resource in the cluster.
    pub fn all(resource: Gvr) -> Self {
        Self {
            resource,
            namespace: None,
            name: None,
            subresource: None,
        }
    }

    /// The objects of a resource in one namespace; the empty namespace means all of the cluster.
    pub fn in_namespace(resource: Gvr, namespace: &str) -> Self {
        let namespace = (!namespace.is_empty()).then(|| namespace.into());
        Self {
            resource,
            namespace,
            name: None,
            subresource: None,
        }
    }

    /// The one object with this key.
    pub fn object(resource: Gvr, key: &Key) -> Self {
        Self {
            name: Some(key.name().into()),
            ..Self::in_namespace(resource, key.namespace())
        }
    }

    /// A subresource of the same object.
    #[must_use]
    pub fn subresource(self, subresource: &str) -> Self {
        Self {
            subresource: Some(subresource.into()),
            ..self
        }
    }

    /// The key of the target object; `None` if the target is a collection.
    pub fn key(&self) -> Option<Key> {
        let name = self.name.as_deref()?;
        Some(Key::new(self.namespace.as_deref().unwrap_or_default(), name))
    }
}

// === impl Verb ===

impl Verb {
    /// The verb without its options and payload.
    pub fn api_verb(&self) -> ApiVerb {
        match self {
            Self::Get(_) => ApiVerb::Get,
            Self::List(_) => ApiVerb::List,
            Self::Watch(_) => ApiVerb::Watch,
            Self::Create(..) => ApiVerb::Create,
            Self::Update(..) => ApiVerb::Update,
            Self::Patch(..) => ApiVerb::Patch,
            Self::Delete(_) => ApiVerb::Delete,
            Self::DeleteCollection(..) => ApiVerb::DeleteCollection,
        }
    }
}

// === impl Payload ===

impl Payload {
    /// A payload in JSON.
    pub fn json(bytes: impl Into<Bytes>) -> Self {
        Self {
            encoding: Encoding::Json,
            bytes: bytes.into(),
        }
    }
}

// === impl Response ===

impl Response {
    /// A response (200) without warnings.
    pub fn new(body: Body) -> Self {
        Self {
            body,
            warnings: Vec::new(),
            audit_annotations: Vec::new(),
            created: false,
        }
    }

    /// The object of the response, if its body is one.
    pub fn into_object(self) -> Option<Arc<Stored>> {
        match self.body {
            Body::Object(object) => Some(object),
            _ => None,
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(object) => f.debug_tuple("Object").field(object).finish(),
            Self::Json(bytes) => f.debug_tuple("Json").field(bytes).finish(),
            Self::List(list) => f.debug_tuple("List").field(list).finish(),
            Self::Watch(_) => f.write_str("Watch"),
            Self::Status(status) => f.debug_tuple("Status").field(status).finish(),
        }
    }
}
