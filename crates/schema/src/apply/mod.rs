//! Server-side apply: who owns which field, and what a document that is applied makes of an object.
//!
//! Every object carries in `metadata.managedFields` what each of its managers owns. Two functions keep it:
//!
//! * [`update`] for a create, update or patch: the manager owns what it changed, and nobody else does any longer;
//! * [`apply`] for an applied document: it is merged into the object, the manager owns exactly what the document says,
//!   what it said before and does not say now goes unless somebody else owns it, and what would change under another
//!   owner is a conflict unless forced.
//!
//! For example, `a` applies `data: {x: 1, y: 1}`, and `b` applies `data: {x: 1, z: 1}`: both own `x`, which is fine since
//! they agree. Now `a` applies `data: {y: 2}`: `y` changes, `x` stays since `b` owns it, and nothing is a conflict. If `b`
//! applied `x: 2` before, that would be a conflict with `a` over `.data.x`; by force, `b` would be its only owner.
//!
//! Everything here is a function of documents and a shape: time is given, nothing is read or written elsewhere, and no
//! kind is named. What managers of other API versions own is told in their version, see [`Versions`].
//!
//! The behaviour is that of the reference server; the format of `fieldsV1` is told in `meta/v1`'s `FieldsV1` type.
//!
//! Start reading at `update`, then `apply_patch`; `place` says how a shape is seen, `field_set` what is owned.

mod element;
mod field_set;
mod fields_v1;

mod place;
mod view;

mod check;
mod compare;
mod merge;
mod owned;
mod remove;

mod error;
mod last_applied;
mod managers;
mod settle;
mod versions;

mod apply_patch;
mod scale;
mod update;

pub use apply_patch::{Force, apply, describe};
pub use element::{Element, NotAStep};
pub use error::{Conflict, Conflicts, Error};
pub use field_set::{FieldSet, Node};
pub use managers::{Entry, Id, MOST_UPDATE_MANAGERS, Managers, Operation, Unreadable, settle_times};
pub use scale::{SCALE_VERSION, Scaled};
pub use update::{Manager, update};
pub use versions::Versions;

#[cfg(test)]
mod tests;
