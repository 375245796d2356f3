//! Field ownership after a create, update or patch: a manager owns the fields it changes.

use std::sync::LazyLock;

use super::field_set::FieldSet;
use super::managed_fields::{MAX_UPDATE_MANAGERS, ManagedFields, ManagedFieldsEntry, ManagerId, Operation};
use super::traversal::ReadMode;
use super::versions::{VersionConverter, VersionedComparison, reconcile_with_schemas};
use crate::shape::Shape;
use crate::tree::Tree;

/// The name of a manager without one.
const UNKNOWN: &str = "unknown";

/// Fields that no manager owns, since the server alone sets them.
pub(super) static UNMANAGED_FIELDS: LazyLock<FieldSet> = LazyLock::new(|| {
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

/// The field manager of a request.
#[derive(Clone, Copy, Debug)]
pub struct FieldManager<'a> {
    /// The field manager; empty is `unknown`.
    pub name: &'a str,
    /// The version of the request, such as `apps/v1`.
    pub api_version: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// RFC 3339 in whole seconds.
    pub now: &'a str,
    /// Fields that the kind's strategy resets, such as `status` outside its subresource. The request does not make the
    /// manager their owner.
    pub reset: &'a FieldSet,
    /// Converter to the other versions of the kind; without one, they are assumed to have the same paths as this one.
    pub converter: Option<&'a dyn VersionConverter>,
}

/// Updates `managedFields` of an object that is created, updated or patched.
///
/// Both objects have their defaults; `old` is an empty map for a create. An existing object without managers stays
/// without them until the first apply.
pub fn update(old: &Tree, new: &mut Tree, shape: &Shape, manager: &FieldManager<'_>) {
    let mut managers = ManagedFields::before_update(old, new, manager.subresource);
    let exists = old
        .str_at(&["metadata", "uid"])
        .is_some_and(|uid| !uid.is_empty());
    if !managers.is_empty() || !exists {
        own_changes(&mut managers, (old, new), shape, manager);
    }
    managers.store(new);
}

/// Makes a manager the only owner of the fields that differ between two objects.
pub(super) fn own_changes(
    managers: &mut ManagedFields,
    (old, new): (&Tree, &Tree),
    shape: &Shape,
    manager: &FieldManager<'_>,
) {
    reconcile_with_schemas(shape, managers, manager);
    let changes = VersionedComparison::of(managers, manager, shape, (old, new), ReadMode::Canonical);
    managers.remove_changed(&changes, None);
    let changed = changes.own.into_changed().difference(&UNMANAGED_FIELDS);
    if !changed.is_empty() {
        let id = manager.id(Operation::Update);
        let before = managers.take(&id).map(|entry| entry.fields);
        managers.set(ManagedFieldsEntry {
            api_version: manager.api_version.into(),
            time: Some(manager.now.into()),
            fields: changed.union(before.unwrap_or_default()),
            id,
        });
    }
    managers.cap(MAX_UPDATE_MANAGERS);
}

impl FieldManager<'_> {
    /// The id of the manager's entry.
    pub(super) fn id(&self, operation: Operation) -> ManagerId {
        let name = if self.name.is_empty() { UNKNOWN } else { self.name };
        ManagerId::new(name, operation, self.api_version, self.subresource)
    }
}
