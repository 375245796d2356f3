//! JSON: bytes to a tree and a tree to bytes.
//!
//! The parser is our own: it fills the tree directly, keeps duplicate keys and the order of keys, and says what is
//! wrong in the words of the reference server, which clients see. Bytes that are no UTF-8 become U+FFFD each, as there.

mod deep;
mod error;
mod indent;
mod parse;
mod repair;

use setpoint_schema::Tree;
use setpoint_schema::write::write_tree;

pub use error::Error;
pub use indent::indent;
pub use parse::{MAX_DEPTH, parse};
pub(crate) use parse::{Shallow, parse_below, parse_shallow};
pub(crate) use repair::repaired;

/// A tree as compact JSON, keys in the order they have.
pub fn write(tree: &Tree) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write_tree(tree, &mut out);
    out
}

#[cfg(test)]
mod tests;
