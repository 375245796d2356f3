//! Where rules that look at other objects have their say in a write.

use std::fmt;
use std::sync::Arc;

use setpoint_api::{GroupResource, Key, Status, Stored, User};
use setpoint_cache::Caches;
use setpoint_kinds::{About, Draft};

use crate::registry::Registry;

/// Rules that look around before a write. They run inside the verb, on every try against the newest object.
pub trait Admit: Send + Sync {
    /// May change the draft. Runs before the kind's own rules, in creates and updates.
    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status>;

    /// May only refuse. Runs after the kind's own rules, in creates, updates and deletions.
    fn validate(&self, review: &Review<'_>) -> Result<(), Status>;
}

/// What a write is about to do.
pub struct Review<'a> {
    pub operation: Operation,
    pub user: &'a User,
    pub kind: &'a About,
    /// Empty for objects of the whole cluster.
    pub namespace: &'a str,
    /// Empty while the server has yet to make up a name.
    pub name: &'a str,
    pub subresource: Option<&'a str>,
    /// The object to be written; absent in a deletion, and where an action has a document of its own.
    pub draft: Option<&'a mut dyn Draft>,
    /// The object as it is; absent in a create.
    pub old: Option<&'a Stored>,
    pub dry_run: bool,
    pub(crate) registry: &'a Registry,
}

/// What is done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
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
        self.registry.find(resource, key).ok().flatten()
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
    fn mutate(&self, _review: &mut Review<'_>) -> Result<(), Status> {
        Ok(())
    }

    fn validate(&self, _review: &Review<'_>) -> Result<(), Status> {
        Ok(())
    }
}
