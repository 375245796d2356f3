//! [`At`]: a place in a document. What stands there, and where a report about it goes.
//!
//! The rules of a kind walk a document with it. What is absent is a place too: it reads as nothing, and can be
//! reported as missing. In debug builds a step to a field that the shape does not have panics, so that a misspelt
//! name fails the first test that comes by.

use jiff::Timestamp;

use setpoint_api::Quantity;
use setpoint_api::field::{Errors, Shown};
use setpoint_schema::shape::{Card, Field};
use setpoint_schema::{Map, Shape, Tree};

use crate::shared::internal;
use crate::shared::shown::Json;

static NULL: Tree = Tree::Null;

/// A place in a document.
///
/// ```
/// # use setpoint_kinds::At;
/// # use setpoint_api::field::Errors;
/// # use setpoint_schema::{Pack, Tree};
/// let mut tree = Tree::default();
/// tree.set(&["spec", "replicas"], -1);
/// let shape = Pack::builtin().shape_of("apps", "v1", "ReplicaSet").unwrap();
/// let errors = Errors::default();
/// let set = At::new(&tree, shape, &errors);
/// set.at("spec").at("replicas").not_negative();
/// assert_eq!(set.at("spec").at("minReadySeconds").int(), 0);
/// let found: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
/// assert_eq!(found, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]);
/// ```
#[derive(Debug, Clone)]
pub struct At<'a> {
    value: &'a Tree,
    holds: Holds<'a>,
    errors: Errors,
}

/// What may stand at a place.
#[derive(Debug, Clone, Copy)]
enum Holds<'a> {
    /// A document, or an item, of known fields.
    Shape(&'a Shape),
    /// All that a field holds: one value, a list or a map.
    Field(&'a Field),
    /// One item of a list or map.
    Item(&'a Field),
    /// Anything: below raw JSON nothing is known.
    Any,
}

// === impl At: where ===

impl<'a> At<'a> {
    /// The whole document.
    pub fn new(document: &'a Tree, shape: &'a Shape, errors: &Errors) -> Self {
        Self {
            value: document,
            holds: Holds::Shape(shape),
            errors: errors.clone(),
        }
    }

    /// The whole document, only to be read: there is no one to report to, and places have no paths.
    pub fn reading(document: &'a Tree, shape: &'a Shape) -> Self {
        Self::new(document, shape, &Errors::unplaced())
    }

    /// A place in no document: nothing stands there.
    pub fn absent() -> At<'static> {
        At {
            value: &NULL,
            holds: Holds::Any,
            errors: Errors::unplaced(),
        }
    }

    /// A field of the object that stands here.
    pub fn at(&self, name: &str) -> At<'a> {
        self.step(name, self.errors.at(name))
    }

    /// An entry of the map that stands here.
    pub fn key(&self, key: &str) -> At<'a> {
        self.item(self.value.get(key).unwrap_or(&NULL), self.errors.key(key))
    }

    /// The items of the list that stands here.
    pub fn items(&self) -> impl ExactSizeIterator<Item = At<'a>> + DoubleEndedIterator + use<'a> {
        let here = self.clone();
        let items = self.list().iter().enumerate();
        items.map(move |(index, value)| here.item(value, here.errors.index(index)))
    }

    /// The entries of the map that stands here. In normal form they are in the order of their keys.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, At<'a>)> + use<'a> {
        let here = self.clone();
        let pairs = self.map().into_iter().flat_map(Map::iter);
        pairs.map(move |(key, value)| (key, here.item(value, here.errors.key(key))))
    }

    /// The fields of the object that stands here, in the order of the shape, set or not.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, At<'a>)> + use<'a> {
        let here = self.clone();
        let members = self.shape().into_iter().flat_map(Shape::members);
        members.map(move |field| (field.name.as_str(), here.at(&field.name)))
    }

    /// The same value, reported under another place.
    #[must_use]
    pub fn reported_at(&self, errors: Errors) -> At<'a> {
        Self {
            errors,
            ..self.clone()
        }
    }

    fn step(&self, name: &str, errors: Errors) -> At<'a> {
        let holds = match self.shape() {
            Some(shape) => {
                let member = shape.member(name);
                debug_assert!(member.is_some(), "{} has no field {name:?}", shape.id);
                member.map_or(Holds::Any, Holds::Field)
            }
            None => Holds::Any,
        };
        Self {
            value: self.value.get(name).unwrap_or(&NULL),
            holds,
            errors,
        }
    }

    fn item(&self, value: &'a Tree, errors: Errors) -> At<'a> {
        let holds = match self.holds {
            Holds::Field(field) => Holds::Item(field),
            _ => Holds::Any,
        };
        Self { value, holds, errors }
    }

    /// What the object here is made of, if that is known.
    pub fn shape(&self) -> Option<&'a Shape> {
        match self.holds {
            Holds::Shape(shape) => Some(shape),
            Holds::Field(field) if field.card == Card::One => field.shape(),
            Holds::Item(field) => field.shape(),
            _ => None,
        }
    }
}

// === impl At: what ===

impl<'a> At<'a> {
    pub fn value(&self) -> &'a Tree {
        self.value
    }

    /// Whether anything stands here.
    pub fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Whether there is nothing here, or nothing in it.
    pub fn is_empty(&self) -> bool {
        match self.value {
            Tree::Null => true,
            Tree::Str(text) => text.is_empty(),
            Tree::List(items) => items.is_empty(),
            Tree::Map(map) => map.is_empty(),
            _ => false,
        }
    }

    /// How many items or entries there are.
    pub fn len(&self) -> usize {
        match self.value {
            Tree::List(items) => items.len(),
            Tree::Map(map) => map.len(),
            _ => 0,
        }
    }

    /// The text; empty if there is none.
    pub fn str(&self) -> &'a str {
        self.find_str().unwrap_or_default()
    }

    pub fn find_str(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    /// The number; zero if there is none.
    pub fn int(&self) -> i64 {
        self.find_int().unwrap_or_default()
    }

    pub fn find_int(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// Whether it says yes.
    pub fn bool(&self) -> bool {
        self.find_bool().unwrap_or_default()
    }

    pub fn find_bool(&self) -> Option<bool> {
        self.value.as_bool()
    }

    /// The items of the list, as they are.
    pub fn list(&self) -> &'a [Tree] {
        self.value.as_list().unwrap_or_default()
    }

    /// The map itself.
    pub fn map(&self) -> Option<&'a Map> {
        self.value.as_map()
    }

    /// The texts of a list of texts.
    pub fn strs(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list().iter().filter_map(Tree::as_str)
    }

    /// The amount. Documents are checked for their types first, so a text that is none counts as absent.
    pub fn quantity(&self) -> Option<Quantity> {
        self.find_str()?.parse().ok()
    }

    /// The moment.
    pub fn time(&self) -> Option<Timestamp> {
        self.find_str()?.parse().ok()
    }

    /// Whether the same stands there. Absent, null and empty are told apart only where the shape tells them apart, which
    /// the normal form of documents has settled.
    pub fn is_same(&self, other: &At<'_>) -> bool {
        self.value.means_same(other.value)
    }
}

// === impl At: reports ===

impl At<'_> {
    /// Where reports about this place go: for paths that Kubernetes words in its own way.
    pub fn errors(&self) -> &Errors {
        &self.errors
    }

    pub fn required(&self, detail: &str) {
        self.errors.required(detail);
    }

    /// Reports what stands here as wrong.
    pub fn invalid(&self, detail: &str) {
        self.errors.invalid(self, detail);
    }

    /// Reports it as wrong, and shows another value in its stead.
    pub fn invalid_as(&self, shown: impl Shown, detail: &str) {
        self.errors.invalid(shown, detail);
    }

    pub fn not_supported(&self, supported: &[&str]) {
        self.errors.not_supported(self, supported);
    }

    pub fn duplicate(&self) {
        self.errors.duplicate(self);
    }

    pub fn not_found(&self) {
        self.errors.not_found(self);
    }

    pub fn forbidden(&self, detail: &str) {
        self.errors.forbidden(detail);
    }

    pub fn too_long(&self, most_bytes: usize) {
        self.errors.too_long(most_bytes);
    }

    pub fn too_many(&self, most: usize) {
        self.errors.too_many(self.len(), most);
    }
}

// === impl At: rules that many kinds have ===

impl At<'_> {
    /// Something must stand here. Whether it does.
    pub fn require(&self) -> bool {
        if self.is_empty() {
            self.required("");
        }
        !self.is_empty()
    }

    /// Something must be said here, be it nothing.
    pub fn require_set(&self) {
        if !self.is_set() {
            self.required("");
        }
    }

    /// A number below zero is reported.
    pub fn not_negative(&self) {
        if self.int() < 0 {
            self.invalid("must be greater than or equal to 0");
        }
    }

    /// A number outside is reported.
    pub fn within(&self, least: i64, most: i64) {
        if !(least..=most).contains(&self.int()) {
            self.invalid(&format!("must be between {least} and {most}, inclusive"));
        }
    }

    /// A text that is there must be one of these.
    pub fn one_of(&self, supported: &[&str]) {
        if !self.str().is_empty() && !supported.contains(&self.str()) {
            self.not_supported(supported);
        }
    }

    /// A text must be there, and be one of these.
    pub fn require_one_of(&self, supported: &[&str]) {
        if self.require() {
            self.one_of(supported);
        }
    }

    /// What stands here must be what stood there before. The shape itself says so, and reports of that show no value.
    pub fn declared_immutable(&self, old: &At<'_>) {
        if !self.is_same(old) {
            self.invalid_as((), "field is immutable");
        }
    }

    /// What stands here must be what stood there before.
    pub fn immutable(&self, old: &At<'_>) {
        if !self.is_same(old) {
            self.invalid("field is immutable");
        }
    }
}

// === impl Serialize ===

/// What stands at a place, as messages show it.
impl serde::Serialize for At<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = match self.holds {
            Holds::Shape(shape) => internal::text(shape, self.value),
            Holds::Item(field) => internal::item(field, self.value),
            Holds::Field(field) => internal::field(field, self.value),
            Holds::Any => internal::raw(self.value),
        };
        Json::new(text).serialize(serializer)
    }
}
