//! [`Builtin`]: a [`Strategy`] behind the door of a [`Kind`].

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

use setpoint_api::field::Errors;
use setpoint_api::object::Header;
use setpoint_api::table::Cell;
use setpoint_api::{Gvk, Gvr, Key, ResourceVersion, Stored};
use setpoint_schema::{Pack, Shape, Tree, Written};

use crate::at::At;
use crate::header::Reader;
use crate::kind::{About, Deletion, Kind, Named, Problem, Scale, Selectable};
use crate::strategy::{Facts, Field, Names, Part, Strategy};
use crate::{meta, normal};

/// A built-in kind in the version that is stored.
#[derive(Debug)]
pub struct Builtin<T> {
    about: About,
    reader: Reader,
    rules: PhantomData<fn() -> T>,
}

// === impl Builtin ===

impl<T: Strategy> Builtin<T> {
    pub fn new() -> Self {
        let about = about::<T>();
        Self {
            reader: Reader::new(&about),
            about,
            rules: PhantomData,
        }
    }
}

/// What a strategy says of its kind as plain data.
pub(crate) fn about<T: Strategy>() -> About {
    let (group, version, kind) = T::KIND;
    let gvr = Gvr::new(group, version, T::NAMES.plural);
    About {
        gvk: Gvk::new(group, version, kind),
        home: gvr.clone(),
        gvr,
        list_kind: format!("{kind}List"),
        names: T::NAMES.into(),
        scope: T::SCOPE,
        columns: T::COLUMNS.iter().map(|column| column.definition.into()).collect(),
        fields: T::FIELDS.iter().map(Selectable::from).collect(),
        subresources: T::SUBRESOURCES.to_vec(),
        scale: has_scale::<T>().then(Scale::of_workloads),
        rules: T::RULES,
        defined: false,
        deprecation: (!T::RULES.deprecated.is_empty()).then(|| T::RULES.deprecated.to_owned()),
    }
}

fn has_scale<T: Strategy>() -> bool {
    T::SUBRESOURCES
        .iter()
        .any(|subresource| subresource.part == Part::Scale)
}

/// The shape of a built-in kind.
pub(crate) fn shape_of((group, version, kind): (&str, &str, &str)) -> &'static Shape {
    let shape = Pack::builtin().shape_of(group, version, kind);
    shape.expect("the pack has every built-in kind")
}

/// The document of a stored object, in normal form.
pub(crate) fn revise(shape: &Shape, json: &[u8]) -> Result<Tree, Problem> {
    let tree = setpoint_codec::json::parse(json);
    let mut tree = tree.map_err(|error| Problem(error.to_string()))?;
    normal::normalise(shape, &mut tree)?;
    Ok(tree)
}

/// Reports what is wrong with the metadata of an object of this kind.
pub(crate) fn validate_metadata<T: Strategy>(object: &At<'_>) {
    let metadata = object.at("metadata");
    meta::validate(&metadata, T::SCOPE, T::RULES.name);
    if !T::RULES.plain_finalizers {
        meta::validate_finalizer_owners(&metadata);
    }
}

impl<T: Strategy> Default for Builtin<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Strategy> Kind for Builtin<T> {
    fn about(&self) -> &About {
        &self.about
    }

    fn shape(&self) -> &Shape {
        shape_of(T::KIND)
    }

    fn stored_shape(&self) -> &Shape {
        shape_of(T::KIND)
    }

    fn take_in(&self, tree: &mut Tree) -> Result<(), Problem> {
        normal::normalise(self.shape(), tree)?;
        T::default_fields(tree);
        Ok(())
    }

    fn fill_in(&self, tree: &mut Tree, facts: &Facts) {
        T::default_by_facts(tree, facts);
    }

    fn write(&self, object: &Tree) -> Written {
        let mut written = setpoint_schema::write(self.shape(), object, T::RULES.empty);
        if let Some(packed) = T::pack(&written.bytes) {
            written.bytes = packed;
        }
        written
    }

    fn revise(&self, object: &Stored) -> Result<Tree, Problem> {
        revise(self.shape(), &T::unpack(object.json())?)
    }

    fn prepare_create(&self, object: &mut Tree, facts: &Facts) {
        if T::RULES.tracks_generation {
            object.set(&["metadata", "generation"], 1);
        }
        T::prepare_create(object, facts);
    }

    fn finish_create(&self, object: &mut Tree) {
        T::finish_create(object);
    }

    fn prepare_update(&self, object: &mut Tree, old: &Tree, part: Option<(Part, &str)>, facts: &Facts) {
        match part {
            None => T::prepare_update(object, old, facts),
            Some((Part::Status, _)) => T::prepare_status(object, old, facts),
            Some((Part::Slice, name)) => T::prepare_part(object, name, old, facts),
            // An action has made its change already, and that is no wish of the object's author.
            Some((Part::Action, _)) => return,
            Some(_) => {}
        }
        if T::RULES.tracks_generation && T::asks_for_else(object, old) {
            let generation = meta::int(old, "generation");
            object.set(&["metadata", "generation"], generation + 1);
        }
    }

    fn validate(&self, object: &Tree, errors: &Errors) {
        let object = At::new(object, self.shape(), errors);
        if T::RULES.metadata_last {
            T::validate(&object);
            if errors.is_empty() {
                validate_metadata::<T>(&object);
            }
            return;
        }
        validate_metadata::<T>(&object);
        T::validate(&object);
    }

    fn validate_update(&self, object: &Tree, old: &Tree, part: Option<(Part, &str)>, errors: &Errors) {
        let object = At::new(object, self.shape(), errors);
        let old = At::reading(old, self.shape());
        validate_metadata::<T>(&object);
        meta::validate_update(&object.at("metadata"), &old.at("metadata"));
        match part {
            Some((Part::Status, _)) => T::validate_status(&object, &old),
            Some((Part::Slice, name)) => T::validate_part(&object, name, &old),
            Some(_) => T::validate_again(&object, &old),
            None => {
                T::validate_again(&object, &old);
                T::validate_update(&object, &old);
            }
        }
    }

    // Warnings name paths, but mostly there are none: then it takes no paths to find that out.
    fn warnings(&self, object: &Tree, old: Option<&Tree>) -> Vec<String> {
        let shape = self.shape();
        let old = old.map(|old| At::reading(old, shape));
        if T::warnings(&At::reading(object, shape), old.as_ref()).is_empty() {
            return Vec::new();
        }
        T::warnings(&At::new(object, shape, &Errors::default()), old.as_ref())
    }

    fn deletion(&self) -> &dyn Deletion {
        self
    }

    fn expires_after(&self, facts: &Facts) -> Option<Duration> {
        T::expires_after(facts)
    }

    fn header_of(&self, key: &Key, object: &Tree) -> Option<Header> {
        Some(self.reader.header_of(key.clone(), object, self.shape()))
    }

    fn stored(&self, key: Key, version: ResourceVersion, json: Bytes) -> Result<Stored, Problem> {
        self.reader.stored(key, version, json)
    }

    fn converts(&self) -> bool {
        T::PACKS
    }

    fn present(&self, object: &Arc<Stored>) -> Result<Arc<Stored>, Problem> {
        if !T::PACKS {
            return Ok(object.clone());
        }
        let json = T::unpack(object.json())?;
        let stored = self.stored(object.key().clone(), object.resource_version(), json);
        stored.map(Arc::new)
    }

    fn cells(&self, object: &Stored, now: Timestamp) -> Vec<Cell> {
        let Ok(tree) = setpoint_codec::json::parse(object.json()) else {
            return T::COLUMNS.iter().map(|_| Cell::from("<unreadable>")).collect();
        };
        let row = At::reading(&tree, self.shape());
        T::COLUMNS.iter().map(|column| (column.cell)(&row, now)).collect()
    }
}

impl<T: Strategy> Deletion for Builtin<T> {
    fn grace(&self, object: &Tree, asked: Option<i64>) -> Option<i64> {
        T::graceful_deletion(object, asked)
    }

    fn begin(&self, object: &mut Tree) {
        T::begin_deletion(object);
    }

    fn is_held(&self, object: &Tree) -> bool {
        T::is_held(object)
    }
}

// === impl conversions ===

impl From<Names> for Named {
    fn from(names: Names) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Self {
            plural: names.plural.to_owned(),
            singular: names.singular.to_owned(),
            short: owned(names.short),
            categories: owned(names.categories),
        }
    }
}

impl From<&Field> for Selectable {
    fn from(field: &Field) -> Self {
        let owned = |path: &&[&str]| path.iter().map(|step| (*step).to_owned()).collect();
        Self {
            label: field.label.to_owned(),
            paths: field.paths.iter().map(owned).collect(),
            absent: field.absent,
            stored_as: field.stored_as.to_owned(),
        }
    }
}

impl Scale {
    /// Where all built-in kinds have them.
    fn of_workloads() -> Self {
        let path = |steps: [&str; 2]| steps.map(str::to_owned).to_vec();
        Self {
            replicas: path(["spec", "replicas"]),
            status_replicas: path(["status", "replicas"]),
            selector: Some(path(["spec", "selector"])),
        }
    }
}
