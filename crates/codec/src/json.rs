//! JSON: parsing to a tree, writing from a tree.
//!
//! The parser is our own: it fills the tree directly, keeps duplicate keys and the order of keys, and its error
//! messages are kube-apiserver's, since clients see them. Each byte that is not valid UTF-8 becomes U+FFFD, as there.

mod error;
mod indent;
mod invalid_utf8;
mod order;
mod parse;
pub mod scan;
mod skip;

use setpoint_schema::Tree;
use setpoint_schema::write::write_tree;

pub use error::Error;
pub use indent::indent;
pub(crate) use invalid_utf8::replace_invalid_utf8;
pub use order::write_in_order;
pub(crate) use parse::{DepthLimitedTree, parse_at_depth, parse_depth_limited};
pub use parse::{MAX_DEPTH, parse};

/// Writes a tree as compact JSON, keys in the tree's order.
pub fn write(tree: &Tree) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write_tree(tree, &mut out);
    out
}

#[cfg(test)]
mod tests;
