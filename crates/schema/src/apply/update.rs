//! Owners after a create, update or patch: who changes a field owns it.

use std::sync::LazyLock;

use super::field_set::FieldSet;
use super::managers::{Entry, Id, MOST_UPDATE_MANAGERS, Managers, Operation};
use super::versions::{Changes, Versions, settle};
use super::view::Reading;
use crate::shape::Shape;
use crate::tree::Tree;

/// The manager that gave no name.
const UNKNOWN: &str = "unknown";

/// What nobody owns, since the server alone decides it.
pub(super) static STRIPPED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_fields([
        ["apiVersion"].as_slice(),
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// Who writes, and through what.
#[derive(Clone, Copy, Debug)]
pub struct Manager<'a> {
    /// The field manager; empty is `unknown`.
    pub name: &'a str,
    /// The version of the request, such as `apps/v1`.
    pub api_version: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// RFC 3339 in whole seconds.
    pub now: &'a str,
    /// What this kind resets whatever the request says, such as `status` outside its subresource. Nobody comes to own
    /// it by this request.
    pub reset: &'a FieldSet,
    /// The other versions of the kind; without, they are taken to have the same paths as this one.
    pub versions: Option<&'a dyn Versions>,
}

/// Writes the owners into an object that is created, updated or patched.
///
/// Both documents have their defaults; `old` is an empty map for a create. An existing object without managers stays
/// without them, until somebody applies.
pub fn update(old: &Tree, new: &mut Tree, shape: &Shape, manager: &Manager<'_>) {
    let mut managers = Managers::before_update(old, new, manager.subresource);
    let exists = old
        .str_at(&["metadata", "uid"])
        .is_some_and(|uid| !uid.is_empty());
    if !managers.is_empty() || !exists {
        own_changes(&mut managers, (old, new), shape, manager);
    }
    managers.store(new);
}

/// Gives a manager what differs between two documents, and takes it from everyone else.
pub(super) fn own_changes(
    managers: &mut Managers,
    (old, new): (&Tree, &Tree),
    shape: &Shape,
    manager: &Manager<'_>,
) {
    settle(shape, managers, manager);
    let changes = Changes::of(managers, manager, shape, (old, new), Reading::Canonical);
    managers.lose(&changes, None);
    let taken = changes.own.into_set().difference(&STRIPPED);
    if !taken.is_empty() {
        let id = manager.id(Operation::Update);
        let before = managers.take(&id).map(|entry| entry.fields);
        managers.set(Entry {
            api_version: manager.api_version.into(),
            time: Some(manager.now.into()),
            fields: taken.union(before.unwrap_or_default()),
            id,
        });
    }
    managers.cap(MOST_UPDATE_MANAGERS);
}

impl Manager<'_> {
    /// By what the manager's entry is known.
    pub(super) fn id(&self, operation: Operation) -> Id {
        let name = if self.name.is_empty() { UNKNOWN } else { self.name };
        Id::new(name, operation, self.api_version, self.subresource)
    }
}
