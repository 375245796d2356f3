//! [`Kind`]: the interface of built-in and custom kinds to the rest of the server.

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
use setpoint_api::{ApiVerb, Gvk, Gvr, Key, ResourceVersion, Stored};
use setpoint_codec::strict::{self, DecodeError, DecodedObject};
use setpoint_schema::{CanonicalJson, Shape, Tree};

use crate::strategy::{Action, RequestFacts, Rules, Scope, Subresource, SubresourceKind};

/// One version of a kind, as the rest of the server sees it.
///
/// An object in a request is a [`Tree`]. [`Kind::prepare_input`] normalises and converts it; from then on it is in
/// normal form and in the storage version, and so is every tree that the other functions take.
pub trait Kind: Send + Sync + Debug {
    fn info(&self) -> &KindInfo;

    /// The shape of objects in this version.
    fn shape(&self) -> &Shape;

    /// The shape of objects in the storage version.
    fn stored_shape(&self) -> &Shape;

    /// The kind in the storage version, which error messages of validation name.
    fn stored_kind(&self) -> &Gvk {
        &self.info().gvk
    }

    /// Decodes a request body in this version; fields that the shape does not have are dropped.
    fn decode(
        &self,
        bytes: &[u8],
        encoding: Encoding,
        validation: FieldValidation,
    ) -> Result<DecodedObject, DecodeError> {
        strict::decode(bytes, encoding, self.shape(), validation)
    }

    /// Applies the same checks to a decoded tree, such as the result of a patch.
    fn conform(&self, tree: Tree, validation: FieldValidation) -> Result<DecodedObject, DecodeError> {
        strict::conform_tree(tree, self.shape(), validation)
    }

    /// Encodes an object for the store.
    fn write(&self, object: &Tree) -> CanonicalJson {
        setpoint_schema::write(self.stored_shape(), object, self.info().rules.empty)
    }

    /// Prepares an object of this version that has been pruned to the shape: normalises it, sets defaults, and
    /// converts it to the storage version.
    fn prepare_input(&self, tree: &mut Tree) -> Result<(), InvalidObject>;

    /// Prepares the result of server-side apply. Nulls stay where a custom schema distinguishes them from absent
    /// fields.
    fn prepare_applied(&self, tree: &mut Tree) -> Result<(), InvalidObject> {
        self.prepare_input(tree)
    }

    /// Sets defaults that depend on the request, in an object from [`Kind::prepare_input`].
    fn default_for_request(&self, _tree: &mut Tree, _facts: &RequestFacts) {}

    /// Decodes a stored object, to compare with or to change.
    fn decode_stored(&self, object: &Stored) -> Result<Tree, InvalidObject>;

    /// A tree of the storage version converted to this version; `None` if the versions are the same.
    fn tree_to_request_version(&self, _object: &Tree) -> Option<Tree> {
        None
    }

    fn prepare_create(&self, object: &mut Tree, facts: &RequestFacts);

    /// Prepares the new object of an update.
    fn prepare_update(&self, object: &mut Tree, update: &UpdateContext<'_>);

    /// Completes a valid new object before validating admission.
    fn finish_create(&self, _object: &mut Tree) {}

    /// Changes a stored object as the body of an action subresource requests, such as a binding.
    fn apply_action(&self, _object: &mut Tree, _action: Action, _body: &Tree, _facts: &RequestFacts) {}

    /// Validates metadata, then the object; for some kinds the other way round.
    fn validate(&self, object: &Tree, facts: &RequestFacts, errors: &Errors);

    /// Includes the rules of [`Kind::validate`], unless the update is of the status.
    fn validate_update(&self, object: &Tree, update: &UpdateContext<'_>, errors: &Errors);

    /// Warnings about a valid object.
    fn warnings(&self, object: &Tree, old: Option<&Tree>) -> Vec<String>;

    fn deletion(&self) -> &dyn Deletion;

    /// How long the object lives after its last write; `None` for ever.
    fn expires_after(&self, facts: &RequestFacts) -> Option<Duration>;

    /// The header of an object that is about to be stored, without its resource version: equal to the one that
    /// [`Kind::stored`] reads from the bytes. `None` if it can only be read from the bytes.
    fn header_of(&self, _key: &Key, _object: &Tree) -> Option<Header> {
        None
    }

    /// Reads the header of a stored object, without decoding the rest.
    fn stored(&self, key: Key, version: ResourceVersion, json: Bytes) -> Result<Stored, InvalidObject>;

    /// Whether a stored object may differ in this version.
    fn converts(&self) -> bool {
        false
    }

    /// A stored object converted to this version.
    fn to_request_version(&self, object: &Arc<Stored>) -> Result<Arc<Stored>, InvalidObject> {
        Ok(object.clone())
    }

    /// The name and the schema for OpenAPI, without the metadata, if it is not that of the shape.
    fn openapi_schema(&self) -> Option<(String, Value)> {
        None
    }

    /// The table row of an object in this version.
    fn cells(&self, object: &Stored, now: Timestamp) -> Vec<Cell>;
}

/// What the rules of an update compare the new object with.
#[derive(Debug, Clone, Copy)]
pub struct UpdateContext<'a> {
    pub old: &'a Tree,
    /// The subresource of the request; `None` for the main resource.
    pub subresource: Option<SubresourceKind>,
    pub facts: &'a RequestFacts,
}

/// How objects of a kind are deleted.
pub trait Deletion {
    /// The grace period in seconds, given the requested one; `None` if the kind has no graceful deletion.
    fn grace_period(&self, object: &Tree, requested: Option<i64>) -> Option<i64>;

    /// Changes the object, besides its metadata, when its deletion begins.
    fn begin(&self, object: &mut Tree);

    /// Whether something other than `metadata.finalizers` keeps an object that is being deleted.
    fn is_held(&self, object: &Tree) -> bool;
}

/// The metadata of a kind: names, scope, columns, subresources.
#[derive(Debug, Clone)]
pub struct KindInfo {
    pub gvk: Gvk,
    pub gvr: Gvr,
    /// The resource, in the storage version, under which objects are stored.
    pub storage: Gvr,
    /// `PodList`, for `Pod`.
    pub list_kind: String,
    pub names: ResourceNames,
    pub scope: Scope,
    pub columns: Vec<ColumnDefinition>,
    pub fields: Vec<SelectableField>,
    pub subresources: Vec<Subresource>,
    pub scale: Option<ScalePaths>,
    pub rules: Rules,
    /// Whether a CRD defines the kind: it has no strategic merge patch, and its list items have `kind` and
    /// `apiVersion`.
    pub is_custom: bool,
    /// The warning to every caller that uses this version, if it is deprecated.
    pub deprecation_warning: Option<String>,
}

/// The names of a kind's resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceNames {
    pub plural: String,
    pub singular: String,
    pub short: Vec<String>,
    pub categories: Vec<String>,
}

/// A selectable field: its label, and the paths of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectableField {
    pub label: String,
    /// The first path that has a value wins.
    pub paths: Vec<Vec<String>>,
    /// The value if no path has one.
    pub absent: &'static str,
    /// The label in the storage version.
    pub stored_as: String,
}

/// The paths that the scale subresource reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    pub replicas: Vec<String>,
    pub status_replicas: Vec<String>,
    /// The path of a label selector, as an object or as text.
    pub selector: Option<Vec<String>>,
}

/// Why a tree or stored bytes are not an object of their kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidObject(pub String);

// === impl About ===

impl KindInfo {
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Whether this version is the storage version.
    pub fn is_storage_version(&self) -> bool {
        self.rules.stored && self.storage == self.gvr
    }

    /// Whether the main resource supports this verb.
    pub fn allows(&self, verb: ApiVerb) -> bool {
        self.rules.verbs.contains(verb)
    }

    /// Whether objects of the kind can be read. Reviews and bindings can only be created.
    pub fn has_items(&self) -> bool {
        self.rules.verbs.iter().any(|verb| verb != ApiVerb::Create)
    }

    pub fn find_subresource(&self, name: &str) -> Option<Subresource> {
        let mut subresources = self.subresources.iter();
        subresources.find(|subresource| subresource.name == name).copied()
    }

    pub fn has_status(&self) -> bool {
        self.subresources.iter().any(Subresource::is_status)
    }

    /// The label of a selectable field in the storage version.
    pub fn stored_label<'a>(&'a self, label: &'a str) -> &'a str {
        let field = self.fields.iter().find(|field| field.label == label);
        field.map_or(label, |field| &field.stored_as)
    }

    /// Checks that a field selector may use this label; otherwise the error message.
    pub fn check_field(&self, label: &str) -> Result<(), String> {
        let plain = self.fields.is_empty() && !self.is_custom;
        let known = match label {
            "metadata.name" => true,
            "metadata.namespace" => plain || self.is_namespaced(),
            label => self.fields.iter().any(|field| field.label == label),
        };
        match (known, plain) {
            (true, _) => Ok(()),
            (false, false) => Err(self
                .rules
                .bad_field_label_message
                .replace("{quoted}", &format!("{label:?}"))
                .replace("{label}", label)),
            (false, true) => Err(format!(
                "{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            )),
        }
    }
}
