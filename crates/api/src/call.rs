//! The API as one function: [`Serve`].
//!
//! HTTP is one way to reach it, a local call another; a caller cannot tell which. What a request says is parsed at the
//! edge, once: no URL and no header gets this far.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use compact_str::CompactString;
use futures_core::Stream;

use crate::change::Event;
use crate::gvk::Gvr;
use crate::key::Key;
use crate::object::Stored;
use crate::options::{DeleteOptions, GetOptions, ListOptions, PatchType, WatchOptions, WriteOptions};
use crate::status::Status;
use crate::user::User;
use crate::version::ResourceVersion;

/// The API: a request in, an answer or a [`Status`] out.
///
/// The registry serves it from the store, the HTTP client from another server; a test may serve it from a closure.
pub trait Serve: Send + Sync {
    /// Answers one request. Dropping the reply gives the request up; a write may have happened all the same.
    fn call(&self, request: Request) -> Reply<'_>;
}

/// The answer to come of a [`Serve::call`].
pub type Reply<'a> = Pin<Box<dyn Future<Output = Result<Response, Status>> + Send + 'a>>;

impl<F> Serve for F
where
    F: Fn(Request) -> Reply<'static> + Send + Sync,
{
    fn call(&self, request: Request) -> Reply<'_> {
        self(request)
    }
}

/// One request: who asks, about what, and what to do with it.
#[derive(Debug, Clone)]
pub struct Request {
    pub user: Arc<User>,
    pub target: Target,
    pub verb: Verb,
}

/// What a request points at: a resource, one object of it, or a part of that object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub resource: Gvr,
    /// Absent for resources of the whole cluster, and for all namespaces at once.
    pub namespace: Option<CompactString>,
    pub name: Option<CompactString>,
    pub subresource: Option<CompactString>,
}

/// What to do with the target.
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

/// A document on its way in, as the caller wrote it.
#[derive(Debug, Clone)]
pub struct Payload {
    pub encoding: Encoding,
    pub bytes: Bytes,
}

/// How a [`Payload`] is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// What came of a request that was carried out.
#[derive(Debug)]
pub struct Response {
    pub body: Body,
    /// Sentences for the caller that are no errors: unknown fields dropped, deprecated versions.
    pub warnings: Vec<String>,
    /// Whether the request made a new object (201, not 200).
    pub created: bool,
}

/// The body of an answer.
pub enum Body {
    /// One object as it is stored.
    Object(Arc<Stored>),
    /// A document that is not stored as such, in JSON: a scale, a review.
    Document(Bytes),
    List(List),
    Watch(Watch),
    /// A success that has no object to show.
    Status(Box<Status>),
}

/// Objects of one resource at one revision.
#[derive(Debug, Default)]
pub struct List {
    pub items: Vec<Arc<Stored>>,
    pub resource_version: ResourceVersion,
    /// Where the next page starts; absent on the last.
    pub continue_token: Option<String>,
    pub remaining: Option<u64>,
}

/// Events to come. The stream ends when the watch does.
pub type Watch = Pin<Box<dyn Stream<Item = Event> + Send>>;

// === impl Target ===

impl Target {
    /// All objects of a resource in the whole cluster.
    pub fn all(resource: Gvr) -> Self {
        Self {
            resource,
            namespace: None,
            name: None,
            subresource: None,
        }
    }

    /// The objects of a resource in one namespace; the empty namespace is the whole cluster.
    pub fn within(resource: Gvr, namespace: &str) -> Self {
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
            ..Self::within(resource, key.namespace())
        }
    }

    /// The same object's subresource.
    #[must_use]
    pub fn subresource(self, subresource: &str) -> Self {
        Self {
            subresource: Some(subresource.into()),
            ..self
        }
    }

    /// The key of the object pointed at, if it is one object.
    pub fn key(&self) -> Option<Key> {
        let name = self.name.as_deref()?;
        Some(Key::new(self.namespace.as_deref().unwrap_or_default(), name))
    }
}

// === impl Verb ===

impl Verb {
    /// The verb as access rules and metrics spell it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Get(_) => "get",
            Self::List(_) => "list",
            Self::Watch(_) => "watch",
            Self::Create(..) => "create",
            Self::Update(..) => "update",
            Self::Patch(..) => "patch",
            Self::Delete(_) => "delete",
            Self::DeleteCollection(..) => "deletecollection",
        }
    }
}

// === impl Payload ===

impl Payload {
    /// A JSON document.
    pub fn json(bytes: impl Into<Bytes>) -> Self {
        Self {
            encoding: Encoding::Json,
            bytes: bytes.into(),
        }
    }
}

// === impl Response ===

impl Response {
    /// An answer with nothing else to say.
    pub fn of(body: Body) -> Self {
        Self {
            body,
            warnings: Vec::new(),
            created: false,
        }
    }

    /// The object in it, where the request was for one.
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
            Self::Document(bytes) => f.debug_tuple("Document").field(bytes).finish(),
            Self::List(list) => f.debug_tuple("List").field(list).finish(),
            Self::Watch(_) => f.write_str("Watch"),
            Self::Status(status) => f.debug_tuple("Status").field(status).finish(),
        }
    }
}
