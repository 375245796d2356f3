//! Test helpers: shapes of custom kinds from their schemas, and trees from text.

use serde_json::Value;

use crate::custom::Schema;
use crate::shape::Shape;
use crate::tree::{Tree, to_tree};

/// The shape of a custom kind with a schema.
pub(super) fn kind_shape(schema: &Value) -> Shape {
    Schema::compile(&to_tree(schema).unwrap()).to_shape("custom")
}

/// A tree from JSON text.
#[track_caller]
pub(super) fn tree(text: &str) -> Tree {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
