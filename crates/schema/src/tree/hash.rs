//! Hashing of trees, so that large lists are matched by key in linear time.

use std::hash::{Hash, Hasher};

use super::{Map, Tree};

/// Equality is exact: an integer does not equal a float, and the order of keys matters. No number in JSON is NaN, the
/// only value that does not equal itself.
impl Eq for Tree {}

impl Eq for Map {}

impl Hash for Tree {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Tree::Null => {}
            Tree::Bool(value) => value.hash(state),
            Tree::Int(number) => number.hash(state),
            // Both zeros are equal.
            Tree::Float(number) => (number + 0.0).to_bits().hash(state),
            Tree::Str(text) => text.hash(state),
            Tree::List(items) => items.hash(state),
            Tree::Map(map) => map.hash(state),
        }
    }
}

impl Hash for Map {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pairs().hash(state);
    }
}
