//! Ratcheting: whether the value of a rule is unchanged by an update, so that a violation is tolerated.

use setpoint_schema::custom::Schema;
use setpoint_schema::{Tree, fields};

/// The innermost value above or at a node of the object that has a counterpart in the old object. An item of a list without
/// map keys has none, so that the list as a whole must be unchanged.
#[derive(Debug, Clone, Copy)]
pub(super) struct CorrelatedAncestor<'a> {
    schema: &'a Schema,
    value: &'a Tree,
    old: &'a Tree,
    position: Position,
}

/// Where the correlated value is, seen from the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// The node is the whole object.
    Root,
    /// The node itself.
    Here,
    /// A value that contains the node.
    Above,
}

impl<'a> CorrelatedAncestor<'a> {
    pub(super) fn root(schema: &'a Schema, value: &'a Tree, old: &'a Tree) -> Self {
        Self {
            schema,
            value,
            old,
            position: Position::Root,
        }
    }

    /// The ratcheting of the value under a key. `apiVersion` and `kind` of the object have none: old and new object are
    /// converted to the same version.
    pub(super) fn key(self, key: &str, schema: &'a Schema, value: &'a Tree) -> Option<Self> {
        let is_type_meta = matches!(key, fields::API_VERSION | fields::KIND);
        match self.position {
            Position::Above => Some(self),
            Position::Root if is_type_meta => None,
            Position::Root | Position::Here => Some(self.step(schema, value, self.old.get(key))),
        }
    }

    /// The ratcheting of an item of a list; `old` is the item with the same map keys.
    pub(super) fn item(self, schema: &'a Schema, value: &'a Tree, old: Option<&'a Tree>) -> Self {
        match self.position {
            Position::Above => self,
            Position::Root | Position::Here => self.step(schema, value, old),
        }
    }

    fn step(self, schema: &'a Schema, value: &'a Tree, old: Option<&'a Tree>) -> Self {
        match old {
            Some(old) => Self {
                schema,
                value,
                old,
                position: Position::Here,
            },
            None => Self {
                position: Position::Above,
                ..self
            },
        }
    }

    pub(super) fn is_unchanged(&self) -> bool {
        self.schema.is_unchanged(self.value, self.old)
    }
}
