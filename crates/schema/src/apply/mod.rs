//! Server-side apply: field ownership, and the merge of an applied configuration into the live object.
//!
//! Every object lists in `metadata.managedFields` the fields that each of its field managers owns. Two functions maintain
//! it:
//!
//! * [`update`] for a create, update or patch: the manager becomes the only owner of the fields it changed;
//! * [`apply`] for an applied configuration: it is merged into the object and the manager owns exactly the fields in it.
//!   Fields that the manager applied before and does not apply now are removed unless another manager owns them. A change
//!   of a field that another manager owns is a conflict unless forced.
//!
//! For example, `a` applies `data: {x: 1, y: 1}`, and `b` applies `data: {x: 1, z: 1}`: both own `x`, which is fine since
//! they agree. Now `a` applies `data: {y: 2}`: `y` changes, `x` stays since `b` owns it, and there is no conflict. If `b`
//! had applied `x: 2` before, that would have been a conflict with `a` over `.data.x`; by force, `b` would be its only
//! owner.
//!
//! Everything here is a pure function of objects and a shape: the time is passed in, and no kind is named. The field sets
//! of managers that wrote in other API versions are in their version, see [`VersionConverter`].
//!
//! The behaviour is that of the reference server (upstream: structured-merge-diff); the format of `fieldsV1` is documented
//! at `meta/v1`'s `FieldsV1` type.
//!
//! Start reading at `update`, then `apply_patch`; `schema_node` is the schema as ownership sees it, `field_set` the set of
//! owned paths.

mod field_set;
mod fields_v1;
mod path_element;

mod schema_node;
mod traversal;

mod check;
mod compare;
mod merge;
mod remove;
mod to_field_set;

mod error;
mod last_applied;
mod managed_fields;
mod reconcile_with_schema;
mod versions;

mod apply_patch;
mod merge_configuration;
mod new_object;
mod scale;
mod update;

pub use apply_patch::{Force, apply, describe};
pub use check::is_typed;
pub use error::{Conflict, Conflicts, Error};
pub use field_set::{FieldSet, FieldSetNode};
pub use managed_fields::{
    MAX_UPDATE_MANAGERS, ManagedFields, ManagedFieldsEntry, ManagedFieldsError, ManagerId, Operation,
    keep_timestamps_if_unchanged,
};
pub use merge_configuration::{MergeError, merge_configuration};
pub use new_object::managed_fields_of_new;
pub use path_element::{InvalidPathElement, PathElement};
pub use scale::{SCALE_VERSION, ScaleHandler};
pub use update::{FieldManager, update};
pub use versions::VersionConverter;

#[cfg(test)]
mod tests;
