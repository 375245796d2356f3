//! The door of a kind's room: [`Kind`], the same for built-in and custom kinds.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use setpoint_api::call::Encoding;
use setpoint_api::field::Errors;
use setpoint_api::object::Header;
use setpoint_api::options::FieldValidation;
use setpoint_api::table::{Cell, ColumnDefinition};
use setpoint_api::{Gvk, Gvr, Key, ResourceVersion, Stored};
use setpoint_codec::strict::{self, DecodeError, Decoded};
use setpoint_schema::{Shape, Tree, Written};

use crate::strategy::{Facts, Part, Rules, Scope, Subresource};

/// A kind in one version, as the rest of the server sees it.
///
/// A document on its way into the store is a [`Tree`]. [`Kind::take_in`] takes it in; from then on it is in normal form
/// and of the version that is stored, and so is every tree that the other functions take.
pub trait Kind: Send + Sync + Debug {
    fn about(&self) -> &About;

    /// What documents of this version are made of.
    fn shape(&self) -> &Shape;

    /// What documents at rest are made of.
    fn stored_shape(&self) -> &Shape;

    /// What the kind is called where it is stored, which is what refusals by its rules say.
    fn stored_kind(&self) -> &Gvk {
        &self.about().gvk
    }

    /// Reads a body as a document of this version: what the shape does not know is dropped.
    fn decode(
        &self,
        bytes: &[u8],
        encoding: Encoding,
        validation: FieldValidation,
    ) -> Result<Decoded, DecodeError> {
        strict::decode(bytes, encoding, self.shape(), validation)
    }

    /// Holds a tree that is already read to the shape: what a patch has made, for instance.
    fn conform(&self, tree: Tree, validation: FieldValidation) -> Result<Decoded, DecodeError> {
        strict::conform_tree(tree, self.shape(), validation)
    }

    /// The bytes of an object at rest.
    fn write(&self, object: &Tree) -> Written {
        setpoint_schema::write(self.stored_shape(), object, self.about().rules.empty)
    }

    /// Takes in a document of this version that has been pruned to the shape: normal form, defaults, stored version.
    fn take_in(&self, tree: &mut Tree) -> Result<(), Problem>;

    /// Takes in what server-side apply has made of an object. Where a null is not the same as nothing, it stays.
    fn take_in_applied(&self, tree: &mut Tree) -> Result<(), Problem> {
        self.take_in(tree)
    }

    /// Fills in what depends on the facts of the request, in a document that was taken in.
    fn fill_in(&self, _tree: &mut Tree, _facts: &Facts) {}

    /// Makes a document of what is stored, to compare with or to change.
    fn revise(&self, object: &Stored) -> Result<Tree, Problem>;

    /// A document of the stored version as one of this version, if they are not the same.
    fn served(&self, _object: &Tree) -> Option<Tree> {
        None
    }

    fn prepare_create(&self, object: &mut Tree, facts: &Facts);

    /// Prepares an update of the object, or of the part that has the name.
    fn prepare_update(&self, object: &mut Tree, old: &Tree, part: Option<(Part, &str)>, facts: &Facts);

    /// Completes a new object that is fine, before admission looks at it.
    fn finish_create(&self, _object: &mut Tree) {}

    /// Metadata first, then the kind's own rules; some kinds have it the other way round.
    fn validate(&self, object: &Tree, errors: &Errors);

    /// Includes what [`Kind::validate`] finds, unless the update is one of the status.
    fn validate_update(&self, object: &Tree, old: &Tree, part: Option<(Part, &str)>, errors: &Errors);

    /// What a caller should know about a document that is fine.
    fn warnings(&self, object: &Tree, old: Option<&Tree>) -> Vec<String>;

    fn deletion(&self) -> &dyn Deletion;

    /// How long the object lives after its last write; `None` is for ever.
    fn expires_after(&self, facts: &Facts) -> Option<Duration>;

    /// The header of an object that is about to be stored, but for its version: the one that [`Kind::stored`] will read
    /// from its bytes. `None` if the bytes have to tell.
    fn header_of(&self, _key: &Key, _object: &Tree) -> Option<Header> {
        None
    }

    /// Reads the header of a stored document, without decoding the rest.
    fn stored(&self, key: Key, version: ResourceVersion, json: Bytes) -> Result<Stored, Problem>;

    /// Whether a stored object may look different in this version.
    fn converts(&self) -> bool {
        false
    }

    /// A stored object in this version.
    fn present(&self, object: &Arc<Stored>) -> Result<Arc<Stored>, Problem> {
        Ok(object.clone())
    }

    /// The name and the schema that tools are told of, where that is not what the shape says; the metadata, which every
    /// object has, aside.
    fn published(&self) -> Option<(String, Value)> {
        None
    }

    /// The row in a table of an object in this version.
    fn cells(&self, object: &Stored, now: Timestamp) -> Vec<Cell>;
}

/// How objects of a kind go.
pub trait Deletion {
    /// How many seconds the object stays after it was asked to go; `None` if the kind knows no grace.
    fn grace(&self, object: &Tree, asked: Option<i64>) -> Option<i64>;

    /// What changes in the object, besides its metadata, once its deletion has begun.
    fn begin(&self, object: &mut Tree);

    /// Whether something other than finalizers in the metadata still holds an object that is being deleted.
    fn is_held(&self, object: &Tree) -> bool;
}

/// What is known of a kind as plain data.
#[derive(Debug, Clone)]
pub struct About {
    pub gvk: Gvk,
    pub gvr: Gvr,
    /// The resource, in the version that is stored, that keeps its objects.
    pub home: Gvr,
    /// `PodList`, for `Pod`.
    pub list_kind: String,
    pub names: Named,
    pub scope: Scope,
    pub columns: Vec<ColumnDefinition>,
    pub fields: Vec<Selectable>,
    pub subresources: Vec<Subresource>,
    pub scale: Option<Scale>,
    pub rules: Rules,
    /// Whether a definition made it: such a kind knows no strategic merge, and its lists name the kind of each item.
    pub defined: bool,
    /// What to tell whoever uses this version, if it is on its way out.
    pub deprecation: Option<String>,
}

/// What a kind is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    pub plural: String,
    pub singular: String,
    pub short: Vec<String>,
    pub categories: Vec<String>,
}

/// A selectable field: its label, and where in the document its value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selectable {
    pub label: String,
    /// The first path that has a value wins.
    pub paths: Vec<Vec<String>>,
    /// What the field is where no path has a value.
    pub absent: &'static str,
    /// What the stored version calls it.
    pub stored_as: String,
}

/// Where the numbers of a Scale are in the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scale {
    pub replicas: Vec<String>,
    pub status_replicas: Vec<String>,
    /// A label selector as an object, or as text.
    pub selector: Option<Vec<String>>,
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

    /// Whether objects are kept in this very version: of a kind with several, the one that others are made of.
    pub fn is_home(&self) -> bool {
        self.rules.stored && self.home == self.gvr
    }

    /// Whether the kind takes this verb on its main resource.
    pub fn allows(&self, verb: &str) -> bool {
        self.rules.verbs.contains(&verb)
    }

    /// Whether there are objects of the kind to be found. Reviews and bindings are only ever sent.
    pub fn has_items(&self) -> bool {
        self.rules.verbs.iter().any(|verb| *verb != "create")
    }

    pub fn find_subresource(&self, name: &str) -> Option<Subresource> {
        let mut subresources = self.subresources.iter();
        subresources.find(|subresource| subresource.name == name).copied()
    }

    /// What the stored version calls a selectable field.
    pub fn stored_label<'a>(&'a self, label: &'a str) -> &'a str {
        let field = self.fields.iter().find(|field| field.label == label);
        field.map_or(label, |field| &field.stored_as)
    }

    /// Whether a field selector may name this label; otherwise what to tell the caller.
    pub fn check_field(&self, label: &str) -> Result<(), String> {
        let plain = self.fields.is_empty() && !self.defined;
        let known = match label {
            "metadata.name" => true,
            "metadata.namespace" => plain || self.is_namespaced(),
            label => self.fields.iter().any(|field| field.label == label),
        };
        match (known, plain) {
            (true, _) => Ok(()),
            (false, false) => Err(self
                .rules
                .unselectable
                .replace("{quoted}", &format!("{label:?}"))
                .replace("{label}", label)),
            (false, true) => Err(format!(
                "{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )),
        }
    }
}
