//! [`Builtin`]: a [`Strategy`] behind the door of a [`Kind`].

use std::any::Any;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;
use setpoint_api::{Gvk, Gvr, Key, ResourceVersion, Stored};
use setpoint_schema::{Pack, Shape, Tree};

use crate::draft::Draft;
use crate::header::Reader;
use crate::kind::{About, Kind, Problem};
use crate::strategy::{Facts, Strategy};
use crate::{meta, normal};

/// A built-in kind, by its typed object.
#[derive(Debug)]
pub struct Builtin<T> {
    about: About,
    reader: Reader,
    typed: PhantomData<fn() -> T>,
}

/// A typed object on its way in.
#[derive(Debug, Clone)]
struct Typed<T>(T);

// === impl Builtin ===

impl<T: Strategy> Builtin<T> {
    pub fn new() -> Self {
        let about = About {
            gvk: Gvk::new(T::GROUP, T::VERSION, T::KIND),
            gvr: Gvr::new(T::GROUP, T::VERSION, T::NAMES.plural),
            list_kind: format!("{}List", T::KIND),
            names: T::NAMES,
            scope: T::SCOPE,
            columns: T::COLUMNS.iter().map(|column| column.definition).collect(),
            fields: T::FIELDS,
            subresources: T::SUBRESOURCES,
            rules: T::RULES,
        };
        Self {
            reader: Reader::new(&about),
            about,
            typed: PhantomData,
        }
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
        Pack::builtin()
            .shape_of(T::GROUP, T::VERSION, T::KIND)
            .expect("the pack has every built-in kind")
    }

    fn draft(&self, mut tree: Tree) -> Result<Box<dyn Draft>, Problem> {
        normal::normalise(self.shape(), &mut tree)?;
        let object: T =
            setpoint_schema::tree::from_tree(&tree).map_err(|error| Problem(error.to_string()))?;
        Ok(Box::new(Typed(object)))
    }

    fn revise(&self, object: &Stored) -> Result<Box<dyn Draft>, Problem> {
        Ok(Box::new(Typed(decode::<T>(object)?)))
    }

    fn stored(&self, key: Key, version: ResourceVersion, json: Bytes) -> Result<Stored, Problem> {
        self.reader.stored(key, version, json)
    }

    fn cells(&self, object: &Stored, now: Timestamp) -> Vec<Cell> {
        let Ok(typed) = decode::<T>(object) else {
            return T::COLUMNS.iter().map(|_| Cell::from("<unreadable>")).collect();
        };
        T::COLUMNS
            .iter()
            .map(|column| (column.cell)(&typed, now))
            .collect()
    }
}

fn decode<T: Strategy>(object: &Stored) -> Result<T, Problem> {
    sonic_rs::from_slice(object.json()).map_err(|error| Problem(error.to_string()))
}

// === impl Typed ===

impl<T: Strategy> Typed<T> {
    fn old(draft: &dyn Draft) -> &T {
        draft.typed().expect("both drafts are of one kind")
    }
}

impl<T: Strategy> Draft for Typed<T> {
    fn metadata(&self) -> &ObjectMeta {
        self.0.metadata()
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        self.0.metadata_mut()
    }

    fn default_fields(&mut self) {
        self.0.default_fields();
    }

    fn prepare_create(&mut self, facts: &Facts) {
        if T::RULES.tracks_generation {
            self.0.metadata_mut().generation = Some(1);
        }
        self.0.prepare_create(facts);
    }

    fn prepare_update(&mut self, old: &dyn Draft, facts: &Facts) {
        self.0.prepare_update(Self::old(old), facts);
    }

    fn prepare_status(&mut self, old: &dyn Draft, facts: &Facts) {
        self.0.prepare_status(Self::old(old), facts);
    }

    fn prepare_part(&mut self, name: &str, old: &dyn Draft, facts: &Facts) {
        self.0.prepare_part(name, Self::old(old), facts);
    }

    fn validate(&self, errors: &Errors<'_>) {
        meta::validate(self.metadata(), T::SCOPE, T::RULES.name, &errors.at("metadata"));
        self.0.validate(errors);
    }

    fn validate_update(&self, old: &dyn Draft, errors: &Errors<'_>) {
        let old = Self::old(old);
        self.validate(errors);
        meta::validate_update(self.metadata(), old.metadata(), &errors.at("metadata"));
        self.0.validate_update(old, errors);
    }

    fn validate_status(&self, old: &dyn Draft, errors: &Errors<'_>) {
        let old = Self::old(old);
        meta::validate(self.metadata(), T::SCOPE, T::RULES.name, &errors.at("metadata"));
        meta::validate_update(self.metadata(), old.metadata(), &errors.at("metadata"));
        self.0.validate_status(old, errors);
    }

    fn graceful_deletion(&self, asked: Option<i64>) -> Option<i64> {
        self.0.graceful_deletion(asked)
    }

    fn begin_deletion(&mut self) {
        self.0.begin_deletion();
    }

    fn is_held(&self) -> bool {
        self.0.is_held()
    }

    fn expires_after(&self, facts: &Facts) -> Option<Duration> {
        T::expires_after(facts)
    }

    fn to_tree(&self) -> Result<Tree, Problem> {
        setpoint_schema::to_tree(&self.0).map_err(|error| Problem(error.to_string()))
    }

    fn boxed_clone(&self) -> Box<dyn Draft> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        &self.0
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        &mut self.0
    }
}
