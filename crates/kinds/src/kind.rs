//! The door of a kind's room: [`Kind`], the same for built-in and custom kinds.

use std::fmt::Debug;

use bytes::Bytes;
use jiff::Timestamp;

use setpoint_api::table::{Cell, ColumnDefinition};
use setpoint_api::{Gvk, Gvr, Key, ResourceVersion, Stored};
use setpoint_schema::{Shape, Tree};

use crate::draft::Draft;
use crate::strategy::{Field, Names, Rules, Scope, Subresource};

/// A kind as the rest of the server sees it.
pub trait Kind: Send + Sync + Debug {
    fn about(&self) -> &About;

    /// What documents of this kind are made of.
    fn shape(&self) -> &Shape;

    /// Makes an object of a document that has been pruned to the shape.
    fn draft(&self, tree: Tree) -> Result<Box<dyn Draft>, Problem>;

    /// Makes an object of what is stored, to compare with or to change.
    fn revise(&self, object: &Stored) -> Result<Box<dyn Draft>, Problem>;

    /// Reads the header of a stored document, without decoding the rest.
    fn stored(&self, key: Key, version: ResourceVersion, json: Bytes) -> Result<Stored, Problem>;

    /// The object's row in a table.
    fn cells(&self, object: &Stored, now: Timestamp) -> Vec<Cell>;
}

/// What is known of a kind as plain data.
#[derive(Debug, Clone)]
pub struct About {
    pub gvk: Gvk,
    pub gvr: Gvr,
    /// `PodList`, for `Pod`.
    pub list_kind: String,
    pub names: Names,
    pub scope: Scope,
    pub columns: Vec<ColumnDefinition>,
    pub fields: &'static [Field],
    pub subresources: &'static [Subresource],
    pub rules: Rules,
}

/// Why a document is no object of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Problem(pub String);

// === impl About ===

impl About {
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Whether the kind takes this verb on its main resource.
    pub fn allows(&self, verb: &str) -> bool {
        self.rules.verbs.contains(&verb)
    }

    pub fn find_subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources
            .iter()
            .find(|subresource| subresource.name == name)
    }

    /// Whether a field selector may name this label; otherwise what to tell the caller.
    pub fn check_field(&self, label: &str) -> Result<(), String> {
        let plain = self.fields.is_empty();
        let known = match label {
            "metadata.name" => true,
            "metadata.namespace" => plain || self.is_namespaced(),
            label => self.fields.iter().any(|field| field.label == label),
        };
        match (known, plain) {
            (true, _) => Ok(()),
            (false, false) => Err(format!("field label not supported: {label}")),
            (false, true) => Err(format!(
                "{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )),
        }
    }
}
