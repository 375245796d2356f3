//! [`Kind`]: the interface of built-in and custom kinds to the rest of the server, one trait per concern.

mod info;
mod webhook_conversion;

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
use setpoint_api::table::Cell;
use setpoint_api::{Gvk, Key, ResourceVersion, Stored};
use setpoint_codec::strict::{self, DecodeError, DecodedObject};
use setpoint_schema::openapi::OpenApiVersion;
use setpoint_schema::{CanonicalJson, Shape, Tree};

use crate::meta;
use crate::strategy::{Action, RequestFacts, SubresourceKind};

pub use info::{KindInfo, ResourceNames, ScalePaths, SelectableField};
pub use webhook_conversion::{ConversionWebhook, WebhookConversion};

/// One version of a kind, as the rest of the server sees it: the sum of the traits below.
pub trait Kind: Decode + Storage + Convert + WriteStrategy + Deletion + Present {}

impl<T: Decode + Storage + Convert + WriteStrategy + Deletion + Present> Kind for T {}

/// What a kind is: its names and shapes.
pub trait Describe: Send + Sync + Debug {
    fn info(&self) -> &KindInfo;

    /// The shape of objects in this version.
    fn shape(&self) -> &Shape;

    /// The shape of objects in the storage version.
    fn stored_shape(&self) -> &Shape;

    /// The kind in the storage version, which error messages of validation name.
    fn stored_kind(&self) -> &Gvk {
        &self.info().gvk
    }
}

/// From a request body to an object in the storage version.
///
/// An object in a request is a [`Tree`]. [`Decode::prepare_input`] normalises and converts it; from then on it is in
/// normal form and in the storage version, and so is every tree that the functions of the other traits take.
pub trait Decode: Describe {
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

    /// As [`Decode::conform`], for an object that mutating admission has changed. Fields of a custom object that its schema
    /// does not have stay until [`Decode::drop_unknown_fields`]: validating admission sees them, as upstream.
    fn conform_admitted(&self, tree: Tree) -> Result<DecodedObject, DecodeError> {
        self.conform(tree, FieldValidation::Ignore)
    }

    /// Drops the fields that [`Decode::conform_admitted`] leaves, before the object is stored.
    fn drop_unknown_fields(&self, _tree: &mut Tree) {}

    /// Prepares an object of this version that has been pruned to the shape: normalises it, sets defaults, and
    /// converts it to the storage version.
    fn prepare_input(&self, tree: &mut Tree) -> Result<(), InvalidObject>;

    /// Prepares the result of server-side apply. Nulls stay where a custom schema distinguishes them from absent
    /// fields.
    fn prepare_applied(&self, tree: &mut Tree) -> Result<(), InvalidObject> {
        self.prepare_input(tree)
    }
}

/// From an object to stored bytes and back.
pub trait Storage: Describe {
    /// Encodes an object for the store. Fails if it cannot be converted to the storage version.
    fn write(&self, object: &Tree) -> Result<CanonicalJson, InvalidObject> {
        let empty = self.info().rules.upstream.empty;
        Ok(setpoint_schema::write(self.stored_shape(), object, empty))
    }

    /// Encodes a new object, whose managed fields are JSON and not in the tree.
    fn write_new(&self, object: &Tree, managed_fields: &[u8]) -> Result<CanonicalJson, InvalidObject> {
        self.write(&meta::with_managed_fields(object, managed_fields)?)
    }

    /// Decodes a stored object, to compare with or to change.
    fn decode_stored(&self, object: &Stored) -> Result<Tree, InvalidObject>;

    /// The header of an object that is about to be stored, without its resource version: equal to the one that
    /// [`Storage::stored`] reads from the bytes. `None` if it can only be read from the bytes.
    fn header_of(&self, _key: &Key, _object: &Tree) -> Option<Header> {
        None
    }

    /// Reads the header of a stored object, without decoding the rest.
    fn stored(&self, key: Key, version: ResourceVersion, json: Bytes) -> Result<Stored, InvalidObject>;

    /// Converts an object to the version in which Kubernetes stores the kind in etcd, if that has other fields.
    fn convert_to_etcd(&self, _object: &mut Tree) {}

    /// Reverts [`Storage::convert_to_etcd`].
    fn convert_from_etcd(&self, _object: &mut Tree) {}

    /// How long the object lives after its last write; `None` for ever.
    fn expires_after(&self, _facts: &RequestFacts) -> Option<Duration> {
        None
    }
}

/// From the storage version to this version: by default they are the same.
pub trait Convert: Describe {
    /// A tree of the storage version converted to this version; `None` if the versions are the same.
    fn tree_to_request_version(&self, _object: &Tree) -> Option<Tree> {
        None
    }

    /// Whether a stored object may differ in this version.
    fn converts(&self) -> bool {
        false
    }

    /// The JSON of an object in this version, with its resource version: as admission webhooks get it. The object may come
    /// from any version of the kind.
    fn write_in_version(&self, object: &Tree) -> Result<Vec<u8>, InvalidObject> {
        let mut json = Vec::new();
        setpoint_schema::write_into(self.shape(), object, &mut json);
        Ok(json)
    }

    /// Converts an object that another version of the kind has prepared ([`Decode::prepare_input`]). Built-in kinds
    /// prepare all versions alike, in the storage version.
    fn adopt_prepared(&self, _object: &mut Tree) -> Result<(), InvalidObject> {
        Ok(())
    }

    /// A stored object converted to this version.
    fn to_request_version(&self, object: &Arc<Stored>) -> Result<Arc<Stored>, InvalidObject> {
        Ok(object.clone())
    }

    /// The conversion of a kind whose versions only a webhook can convert.
    fn webhook_conversion(&self) -> Option<&dyn WebhookConversion> {
        None
    }
}

/// The rules of creates and updates.
pub trait WriteStrategy: Describe {
    /// Sets defaults that depend on the request, in an object from [`Decode::prepare_input`].
    fn default_for_request(&self, _tree: &mut Tree, _facts: &RequestFacts) {}

    fn prepare_create(&self, object: &mut Tree, facts: &RequestFacts);

    /// Completes a valid new object before validating admission.
    fn finish_create(&self, _object: &mut Tree) {}

    /// Changes a stored object as the body of an action subresource requests, such as a binding.
    fn apply_action(&self, _object: &mut Tree, _action: Action, _body: &Tree, _facts: &RequestFacts) {}

    /// The stored object as the action changes it, encoded for the store, and its header without the version. `None` if the
    /// object has to be decoded for that.
    fn apply_action_encoded(
        &self,
        _object: &Stored,
        _action: Action,
        _body: &Tree,
        _facts: &RequestFacts,
    ) -> Option<(CanonicalJson, Header)> {
        None
    }

    /// Prepares the new object of an update.
    fn prepare_update(&self, object: &mut Tree, update: &UpdateContext<'_>);

    /// Validates metadata, then the object; for some kinds the other way round.
    fn validate(&self, object: &Tree, facts: &RequestFacts, errors: &Errors);

    /// Includes the rules of [`WriteStrategy::validate`], unless the update is of the status.
    fn validate_update(&self, object: &Tree, update: &UpdateContext<'_>, errors: &Errors);

    /// Warnings about a valid object.
    fn warnings(&self, object: &Tree, old: Option<&Tree>) -> Vec<String>;
}

/// The rules of deletes: by default an object is deleted at once.
pub trait Deletion: Describe {
    /// The grace period in seconds, given the requested one; `None` if the kind has no graceful deletion.
    fn grace_period(&self, _object: &Tree, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Changes the object, besides its metadata, when its deletion begins.
    fn begin_deletion(&self, _object: &mut Tree) {}

    /// Whether something other than `metadata.finalizers` keeps an object that is being deleted.
    fn is_held(&self, _object: &Tree) -> bool {
        false
    }
}

/// How objects are shown to people and to OpenAPI clients.
pub trait Present: Describe {
    /// The table row of an object in this version.
    fn cells(&self, object: &Stored, now: Timestamp) -> Vec<Cell>;

    /// The name and the schema for OpenAPI, if it is not that of the shape. It refers to the metadata of objects.
    fn openapi_schema(&self, _version: OpenApiVersion) -> Option<(String, Value)> {
        None
    }
}

/// What the rules of an update compare the new object with.
#[derive(Debug, Clone, Copy)]
pub struct UpdateContext<'a> {
    pub old: &'a Tree,
    /// The subresource of the request; `None` for the main resource.
    pub subresource: Option<SubresourceKind>,
    pub facts: &'a RequestFacts,
}

/// Why a tree or stored bytes are not an object of their kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidObject {
    /// The value is not well-formed.
    #[error("{0}")]
    Malformed(String),
    /// The object has this other version, and only a webhook can convert it: the caller has not called it. An object in
    /// the wrong version would be wrong data.
    #[error("{api_version}, Kind={kind} has not been converted by its webhook")]
    Unconverted { api_version: String, kind: String },
}
