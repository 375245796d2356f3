//! Patches: how a client changes a part of an object without sending the whole.
//!
//! Three kinds, each a pure function of a document and a patch: [`apply_json`] carries out a list of operations (RFC
//! 6902), [`apply_merge`] lays one document over another (RFC 7386), and [`apply_strategic`] does the same with the
//! shape's knowledge of which lists are merged and by which key. Server-side apply is not here.
//!
//! A patch is only read, since the caller applies it again when the object has changed meanwhile. When a function
//! returns an error, the document may be half changed and must be thrown away. What the patch adds beyond the shape
//! is left in the document: dropping and naming it is the pruner's work, as for any other document.
//!
//! The details follow the reference server, also where it leaves the standards: replacing an absent key sets it, array
//! indexes may be negative, a merge patch drops nulls inside lists of objects.
//!
//! Start reading at [`merge`], then [`json`], then [`strategic`].

mod convert;
mod copy;
mod error;
mod go_text;
mod json;
mod merge;
mod pointer;
mod strategic;
mod strict;

pub use error::Error;
pub use go_text::{go_text, go_type};
pub use json::{MOST_COPIED_BYTES, MOST_OPERATIONS};
pub use strict::{json_problems, merge_problems};

use crate::shape::Shape;
use crate::tree::Tree;

/// Carries out the operations of a JSON patch in order.
///
/// The maps that were walked through end with their keys sorted: a document written as it then stands has the text
/// that the reference server quotes when the patched document is refused.
pub fn apply_json(tree: &mut Tree, patch: &Tree) -> Result<(), Error> {
    json::apply(tree, patch)
}

/// Lays a merge patch over a document: null deletes, maps are merged, everything else is replaced.
///
/// Merged maps end with their keys sorted, for the same reason as in [`apply_json`].
pub fn apply_merge(tree: &mut Tree, patch: &Tree) -> Result<(), Error> {
    merge::apply(tree, patch)
}

/// Lays a strategic merge patch over a document of a built-in kind.
///
/// The document must be as the server wrote it: of its shape, without nulls or keys given twice.
pub fn apply_strategic(tree: &mut Tree, patch: &Tree, shape: &Shape) -> Result<(), Error> {
    strategic::apply(tree, patch, shape)?;
    convert::check(shape, tree).map_err(|why| Error::Mistyped {
        patch: go_text(patch),
        why,
    })
}

#[cfg(test)]
mod tests;
