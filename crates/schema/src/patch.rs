//! The patch types of the API: JSON Patch, merge patch and strategic merge patch.
//!
//! Each is a pure function of an object and a patch: [`apply_json`] executes a list of operations (RFC 6902),
//! [`apply_merge`] merges the patch into the object (RFC 7386), and [`apply_strategic`] does the same with the shape's
//! rules for which lists are merged and by which key. Server-side apply is in [`crate::apply`].
//!
//! A patch is only read, since the caller applies it again if the update conflicts. When a function returns an error, the
//! object may be half changed and must be discarded. Unknown fields that the patch adds stay in the object: the caller
//! prunes the patched object, as it does any other.
//!
//! The details follow the reference server, also where it deviates from the RFCs: replacing an absent key sets it, array
//! indexes may be negative, a merge patch drops nulls inside lists of objects.
//!
//! Start reading at [`merge`], then [`json`], then [`strategic`].

mod copy;
mod error;
mod from_unstructured;
mod go_text;
mod json;
mod merge;
mod pointer;
mod strategic;
mod strict;

pub use error::Error;
pub use go_text::{go_text, go_type};
pub use json::{MAX_COPIED_BYTES, MAX_OPERATIONS};
pub use strict::{json_strict_errors, merge_strict_errors};

use crate::shape::Shape;
use crate::tree::Tree;

/// Executes the operations of a JSON Patch in order.
///
/// The maps on the operations' paths end with their keys sorted: the patched object then serializes to the text that
/// the reference server quotes when it rejects the object.
pub fn apply_json(tree: &mut Tree, patch: &Tree) -> Result<(), Error> {
    json::apply(tree, patch)
}

/// Applies a merge patch to an object: null deletes, maps are merged, everything else is replaced.
///
/// Merged maps end with their keys sorted, for the same reason as in [`apply_json`].
pub fn apply_merge(tree: &mut Tree, patch: &Tree) -> Result<(), Error> {
    merge::apply(tree, patch)
}

/// Applies a strategic merge patch to an object of a built-in kind.
///
/// The object must be as the server wrote it: of its shape, without nulls or duplicate keys.
pub fn apply_strategic(tree: &mut Tree, patch: &Tree, shape: &Shape) -> Result<(), Error> {
    strategic::apply(tree, patch, shape)?;
    from_unstructured::check(shape, tree).map_err(Error::TypeMismatch)
}

/// Converts the numbers of a merged object to the types of their fields, as [`apply_strategic`] does. The caller reports
/// values of other wrong types when it prunes the object.
pub fn convert_numbers(shape: &Shape, tree: &mut Tree) {
    let _ = from_unstructured::check(shape, tree);
}

/// The text of a strategic merge patch in an error of the object that it was merged into.
pub fn quoted_strategic(original: &Tree, patch: &Tree, shape: &Shape) -> String {
    go_text(&strategic::quoted(original, patch, shape))
}

#[cfg(test)]
mod tests;
