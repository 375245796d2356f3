//! [`ConvertedKind`]: a served version of a kind that is not the storage version, defined by its conversion to that
//! (upstream: hub and spoke).
//!
//! All versions share one object, one uid and one resourceVersion. A request's object is converted once and then
//! follows the rules of the storage version; responses are converted from it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;
use setpoint_api::{Gvk, Key, ResourceVersion, Stored};
use setpoint_schema::{Shape, Tree, fields};

use crate::builtin::{BuiltinKind, kind_info, validate_metadata};
use crate::field::FieldRef;
use crate::header::HeaderReader;
use crate::kind::{
    Convert, Decode, Deletion, Describe, InvalidObject, KindInfo, Present, Storage, UpdateContext,
    WriteStrategy,
};
use crate::strategy::{Action, RequestFacts, Strategy};
use crate::{meta, normal_form};

/// The conversion of a version to and from the storage version.
pub trait VersionConversion: Strategy {
    /// The storage version.
    type Hub: Strategy;

    /// Converts an object of this version, in normal form and with its defaults, to the storage version.
    fn to_hub(tree: &mut Tree);

    /// Converts an object of the storage version to this version.
    fn from_hub(tree: &mut Tree);

    /// Validates an object that was sent in this version and has been converted: by default by the rules of the
    /// storage version.
    fn validate_hub(object: &FieldRef<'_>, facts: &RequestFacts) {
        validate_metadata::<Self::Hub>(object);
        Self::Hub::validate(object, facts);
    }

    /// Validates an update that was sent in this version: by default by the rules of the storage version.
    fn validate_hub_update(object: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        validate_metadata::<Self::Hub>(object);
        meta::validate_update(&object.at(fields::METADATA), &old.at(fields::METADATA));
        Self::Hub::validate_for_update(object, old, facts);
        Self::Hub::validate_update(object, old, facts);
    }
}

/// A version of a kind that is served and not stored.
#[derive(Debug)]
pub struct ConvertedKind<V: VersionConversion> {
    info: KindInfo,
    reader: HeaderReader,
    served: BuiltinKind<V>,
    hub: BuiltinKind<V::Hub>,
}

impl<V: VersionConversion> ConvertedKind<V> {
    pub fn new() -> Self {
        let info = KindInfo {
            storage: kind_info::<V::Hub>().storage,
            ..kind_info::<V>()
        };
        Self {
            reader: HeaderReader::new(&info),
            info,
            served: BuiltinKind::new(),
            hub: BuiltinKind::new(),
        }
    }
}

impl<V: VersionConversion> ConvertedKind<V> {
    /// The JSON of an object of the storage version in this version.
    fn write_from_hub(&self, mut tree: Tree) -> Result<Vec<u8>, InvalidObject> {
        V::from_hub(&mut tree);
        name_kind(&mut tree, &self.info);
        normal_form::normalise(self.shape(), &mut tree)?;
        let mut json = Vec::new();
        setpoint_schema::write_into(self.shape(), &tree, &mut json);
        Ok(json)
    }
}

impl<V: VersionConversion> Default for ConvertedKind<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: VersionConversion> Describe for ConvertedKind<V> {
    fn info(&self) -> &KindInfo {
        &self.info
    }

    fn shape(&self) -> &Shape {
        self.served.shape()
    }

    fn stored_shape(&self) -> &Shape {
        self.hub.stored_shape()
    }

    fn stored_kind(&self) -> &Gvk {
        self.hub.stored_kind()
    }
}

impl<V: VersionConversion> Decode for ConvertedKind<V> {
    fn prepare_input(&self, tree: &mut Tree) -> Result<(), InvalidObject> {
        self.served.prepare_input(tree)?;
        V::to_hub(tree);
        name_kind(tree, self.hub.info());
        self.hub.prepare_input(tree)
    }
}

impl<V: VersionConversion> Storage for ConvertedKind<V> {
    fn decode_stored(&self, object: &Stored) -> Result<Tree, InvalidObject> {
        self.hub.decode_stored(object)
    }

    fn stored(&self, key: Key, version: ResourceVersion, json: Bytes) -> Result<Stored, InvalidObject> {
        self.hub.stored(key, version, json)
    }

    fn expires_after(&self, facts: &RequestFacts) -> Option<Duration> {
        self.hub.expires_after(facts)
    }
}

impl<V: VersionConversion> Convert for ConvertedKind<V> {
    fn tree_to_request_version(&self, object: &Tree) -> Option<Tree> {
        let mut tree = object.clone();
        V::from_hub(&mut tree);
        name_kind(&mut tree, &self.info);
        Some(tree)
    }

    fn write_in_version(&self, object: &Tree) -> Result<Vec<u8>, InvalidObject> {
        self.write_from_hub(object.clone())
    }

    fn converts(&self) -> bool {
        true
    }

    fn to_request_version(&self, object: &Arc<Stored>) -> Result<Arc<Stored>, InvalidObject> {
        let json = self.write_from_hub(self.hub.decode_stored(object)?)?;
        let key = object.key().clone();
        let stored = self
            .reader
            .stored(key, object.resource_version(), Bytes::from(json));
        stored.map(Arc::new)
    }
}

impl<V: VersionConversion> WriteStrategy for ConvertedKind<V> {
    fn default_for_request(&self, tree: &mut Tree, facts: &RequestFacts) {
        self.hub.default_for_request(tree, facts);
    }

    fn prepare_create(&self, object: &mut Tree, facts: &RequestFacts) {
        self.hub.prepare_create(object, facts);
    }

    fn finish_create(&self, object: &mut Tree) {
        self.hub.finish_create(object);
    }

    fn apply_action(&self, object: &mut Tree, action: Action, body: &Tree, facts: &RequestFacts) {
        self.hub.apply_action(object, action, body, facts);
    }

    fn prepare_update(&self, object: &mut Tree, update: &UpdateContext<'_>) {
        self.hub.prepare_update(object, update);
    }

    fn validate(&self, object: &Tree, facts: &RequestFacts, errors: &Errors) {
        V::validate_hub(&FieldRef::new(object, self.stored_shape(), errors), facts);
    }

    fn validate_update(&self, object: &Tree, update: &UpdateContext<'_>, errors: &Errors) {
        if update.subresource.is_some() {
            return self.hub.validate_update(object, update, errors);
        }
        let shape = self.stored_shape();
        V::validate_hub_update(
            &FieldRef::new(object, shape, errors),
            &FieldRef::read_only(update.old, shape),
            update.facts,
        );
    }

    fn warnings(&self, object: &Tree, old: Option<&Tree>) -> Vec<String> {
        self.hub.warnings(object, old)
    }
}

impl<V: VersionConversion> Deletion for ConvertedKind<V> {
    fn grace_period(&self, object: &Tree, requested: Option<i64>) -> Option<i64> {
        self.hub.grace_period(object, requested)
    }

    fn begin_deletion(&self, object: &mut Tree) {
        self.hub.begin_deletion(object);
    }

    fn is_held(&self, object: &Tree) -> bool {
        self.hub.is_held(object)
    }
}

impl<V: VersionConversion> Present for ConvertedKind<V> {
    fn cells(&self, object: &Stored, now: Timestamp) -> Vec<Cell> {
        self.served.cells(object, now)
    }
}

fn name_kind(tree: &mut Tree, info: &KindInfo) {
    tree.set(&[fields::API_VERSION], info.gvk.api_version());
    tree.set(&[fields::KIND], info.gvk.kind.as_str());
}
