//! Where rules that look at other objects have their say in a write.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use setpoint_api::{GroupResource, Key, Status, Stored, User};
use setpoint_cache::Caches;
use setpoint_kinds::{About, Facts, Kind};
use setpoint_schema::Tree;

use crate::registry::Registry;

/// Rules that look around before a write. They run inside the verb, on every try against the newest object.
pub trait Admit: Send + Sync {
    /// May change the object. Runs before the kind's own rules, in creates and updates.
    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> Verdict<'a>;

    /// May only refuse, or add what is to be written along. Runs after the kind's own rules, in creates, updates and
    /// deletions.
    fn validate<'a>(&'a self, review: &'a mut Review<'_>) -> Verdict<'a>;
}

/// What the rules come to; some have to ask elsewhere first.
pub type Verdict<'a> = Pin<Box<dyn Future<Output = Result<(), Status>> + Send + 'a>>;

/// What a write is about to do.
pub struct Review<'a> {
    pub operation: Operation,
    pub user: &'a Arc<User>,
    pub kind: &'a About,
    /// Empty for objects of the whole cluster.
    pub namespace: &'a str,
    /// Empty while the server has yet to make up a name.
    pub name: &'a str,
    pub subresource: Option<&'a str>,
    /// The object to be written, in the stored version; absent in a deletion. For a connection, its options.
    pub object: Option<&'a mut Tree>,
    /// The object as it is; absent in a create.
    pub old: Option<&'a Stored>,
    pub dry_run: bool,
    pub facts: &'a Facts,
    /// What is to be written along with the object, in the same transaction. If one of these was overtaken, the whole
    /// verb is tried again.
    pub companions: Vec<Companion>,
    /// What the caller should know although the write is fine.
    pub warnings: Vec<String>,
    pub(crate) registry: &'a Registry,
}

/// What is done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// Another object that changes in the same transaction. Its own kind's rules prepare it; nobody admits it.
#[derive(Debug, Clone)]
pub enum Companion {
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
    /// The object stays as it is: the write relies on it.
    Unchanged {
        resource: GroupResource,
        old: Arc<Stored>,
    },
}

/// No rules at all: for tests, and for servers that trust their callers.
#[derive(Debug, Clone, Copy, Default)]
pub struct AdmitAll;

impl Review<'_> {
    /// The caches of the server. They may be a moment behind; see [`Review::find`].
    pub fn caches(&self) -> &dyn Caches {
        self.registry
    }

    /// Another object, as fresh as the store has it.
    pub fn find(&self, resource: &GroupResource, key: &Key) -> Option<Arc<Stored>> {
        let resource = self.registry.find_resource(resource)?;
        self.registry.find(&resource, key).ok().flatten()
    }

    /// The kind that a reference names.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<Arc<dyn Kind>> {
        let named = |one: &&Arc<dyn Kind>| {
            let gvk = &one.about().gvk;
            gvk.kind == kind && gvk.api_version() == api_version
        };
        self.registry.kinds().iter().find(named).cloned()
    }

    /// The document of another object, in normal form.
    pub fn document(&self, resource: &GroupResource, object: &Stored) -> Option<Tree> {
        let resource = self.registry.find_resource(resource)?;
        resource.kind.revise(object).ok()
    }

    /// The document of the object as it is.
    pub fn old_document(&self) -> Option<Tree> {
        self.document(&self.kind.home.group_resource(), self.old?)
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
    fn mutate<'a>(&'a self, _review: &'a mut Review<'_>) -> Verdict<'a> {
        Box::pin(async { Ok(()) })
    }

    fn validate<'a>(&'a self, _review: &'a mut Review<'_>) -> Verdict<'a> {
        Box::pin(async { Ok(()) })
    }
}
