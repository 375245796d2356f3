//! [`Spoke`]: another version of a kind, told by how it turns into the stored one and back.
//!
//! All versions share one object, one uid and one resourceVersion. What comes in is converted once and then goes by the
//! rules of the stored version; what goes out is converted from it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;
use setpoint_api::{Gvk, Key, ResourceVersion, Stored};
use setpoint_schema::{Shape, Tree};

use crate::at::At;
use crate::builtin::{Builtin, about, shape_of, validate_metadata};
use crate::header::Reader;
use crate::kind::{About, Deletion, Kind, Problem};
use crate::strategy::{Facts, Part, Strategy};
use crate::{meta, normal};

/// How a version that is not stored relates to the one that is.
pub(crate) trait Version: Strategy {
    /// The version that is stored.
    type Hub: Strategy;

    /// Makes a document of this version, in normal form and with its defaults, one of the stored version.
    fn to_hub(tree: &mut Tree);

    /// Makes a stored document one of this version.
    fn from_hub(tree: &mut Tree);

    /// Reports what is wrong with a document that came in this version and is now of the stored one: by default what is
    /// wrong with any.
    fn validate_hub(object: &At<'_>) {
        validate_metadata::<Self::Hub>(object);
        Self::Hub::validate(object);
    }

    /// Reports what may not follow in a document that came in this version: by default what may not follow in any.
    fn validate_hub_update(object: &At<'_>, old: &At<'_>) {
        validate_metadata::<Self::Hub>(object);
        meta::validate_update(&object.at("metadata"), &old.at("metadata"));
        Self::Hub::validate_again(object, old);
        Self::Hub::validate_update(object, old);
    }
}

/// A version of a kind that is served and not stored.
#[derive(Debug)]
pub(crate) struct Spoke<V: Version> {
    about: About,
    reader: Reader,
    own: Builtin<V>,
    hub: Builtin<V::Hub>,
}

impl<V: Version> Spoke<V> {
    pub(crate) fn new() -> Self {
        let about = About {
            home: about::<V::Hub>().home,
            ..about::<V>()
        };
        Self {
            reader: Reader::new(&about),
            about,
            own: Builtin::new(),
            hub: Builtin::new(),
        }
    }
}

impl<V: Version> Kind for Spoke<V> {
    fn about(&self) -> &About {
        &self.about
    }

    fn shape(&self) -> &Shape {
        shape_of(V::KIND)
    }

    fn stored_shape(&self) -> &Shape {
        self.hub.stored_shape()
    }

    fn stored_kind(&self) -> &Gvk {
        self.hub.stored_kind()
    }

    fn take_in(&self, tree: &mut Tree) -> Result<(), Problem> {
        self.own.take_in(tree)?;
        V::to_hub(tree);
        name_kind(tree, self.hub.about());
        self.hub.take_in(tree)
    }

    fn fill_in(&self, tree: &mut Tree, facts: &Facts) {
        self.hub.fill_in(tree, facts);
    }

    fn revise(&self, object: &Stored) -> Result<Tree, Problem> {
        self.hub.revise(object)
    }

    fn served(&self, object: &Tree) -> Option<Tree> {
        let mut tree = object.clone();
        V::from_hub(&mut tree);
        name_kind(&mut tree, &self.about);
        Some(tree)
    }

    fn prepare_create(&self, object: &mut Tree, facts: &Facts) {
        self.hub.prepare_create(object, facts);
    }

    fn finish_create(&self, object: &mut Tree) {
        self.hub.finish_create(object);
    }

    fn prepare_update(&self, object: &mut Tree, old: &Tree, part: Option<(Part, &str)>, facts: &Facts) {
        self.hub.prepare_update(object, old, part, facts);
    }

    fn validate(&self, object: &Tree, errors: &Errors) {
        V::validate_hub(&At::new(object, self.stored_shape(), errors));
    }

    fn validate_update(&self, object: &Tree, old: &Tree, part: Option<(Part, &str)>, errors: &Errors) {
        if part.is_some() {
            return self.hub.validate_update(object, old, part, errors);
        }
        let shape = self.stored_shape();
        V::validate_hub_update(&At::new(object, shape, errors), &At::reading(old, shape));
    }

    fn warnings(&self, object: &Tree, old: Option<&Tree>) -> Vec<String> {
        self.hub.warnings(object, old)
    }

    fn deletion(&self) -> &dyn Deletion {
        self.hub.deletion()
    }

    fn expires_after(&self, facts: &Facts) -> Option<Duration> {
        self.hub.expires_after(facts)
    }

    fn stored(&self, key: Key, version: ResourceVersion, json: Bytes) -> Result<Stored, Problem> {
        self.hub.stored(key, version, json)
    }

    fn converts(&self) -> bool {
        true
    }

    fn present(&self, object: &Arc<Stored>) -> Result<Arc<Stored>, Problem> {
        let mut tree = self.hub.revise(object)?;
        V::from_hub(&mut tree);
        name_kind(&mut tree, &self.about);
        normal::normalise(self.shape(), &mut tree)?;
        let mut json = Vec::with_capacity(object.json().len());
        setpoint_schema::write_into(self.shape(), &tree, &mut json);
        let key = object.key().clone();
        let stored = self
            .reader
            .stored(key, object.resource_version(), Bytes::from(json));
        stored.map(Arc::new)
    }

    fn cells(&self, object: &Stored, now: Timestamp) -> Vec<Cell> {
        self.own.cells(object, now)
    }
}

fn name_kind(tree: &mut Tree, about: &About) {
    tree.set(&["apiVersion"], about.gvk.api_version());
    tree.set(&["kind"], about.gvk.kind.as_str());
}
