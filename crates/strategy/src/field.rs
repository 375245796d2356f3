//! [`FieldRef`]: a value in an object together with its field path, its type, and the error list that reports go to.
//!
//! Validation walks an object with it. An absent field has a `FieldRef` too: it reads as empty, and can be reported
//! as required. In debug builds, naming a field that the type does not have panics, so that a misspelt name fails the
//! first test that reaches it.

use jiff::Timestamp;

use setpoint_api::Quantity;
use setpoint_api::field::{DisplayJson, Errors};
use setpoint_schema::shape::{Cardinality, Field};
use setpoint_schema::{Map, Shape, Tree};

use crate::display::RawJson;
use crate::go_dump;

static NULL: Tree = Tree::Null;

/// A value in an object, with its field path (upstream: a value and its `field.Path`).
///
/// ```
/// # use setpoint_strategy::FieldRef;
/// # use setpoint_api::field::Errors;
/// # use setpoint_schema::{Pack, Tree};
/// let mut tree = Tree::default();
/// tree.set(&["spec", "replicas"], -1);
/// let shape = Pack::builtin().shape_of("apps", "v1", "ReplicaSet").unwrap();
/// let errors = Errors::default();
/// let set = FieldRef::new(&tree, shape, &errors);
/// set.at("spec").at("replicas").not_negative();
/// assert_eq!(set.at("spec").at("minReadySeconds").int(), 0);
/// let reported: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
/// assert_eq!(reported, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]);
/// ```
#[derive(Debug, Clone)]
pub struct FieldRef<'a> {
    value: &'a Tree,
    value_type: ValueType<'a>,
    errors: Errors,
}

/// The type of the referenced value.
#[derive(Debug, Clone, Copy)]
enum ValueType<'a> {
    /// An object, whole or an item, with known fields.
    Shape(&'a Shape),
    /// Everything a field holds: one value, a list or a map; and the shape of the value, of each item or each entry.
    Field(&'a Field, Option<&'a Shape>),
    /// One item of a list or map, and its shape.
    Item(&'a Field, Option<&'a Shape>),
    /// The field of this name, of an object with this shape. It is looked up when the type is needed: most fields that
    /// rules read are absent or scalars, and their type matters only to messages.
    Member(&'a Shape, &'a str),
    /// Any JSON: raw JSON fields have no further type.
    Any,
}

// === impl FieldRef: navigation ===

impl<'a> FieldRef<'a> {
    /// The root of an object.
    pub fn new(object: &'a Tree, shape: &'a Shape, errors: &Errors) -> Self {
        Self {
            value: object,
            value_type: ValueType::Shape(shape),
            errors: errors.clone(),
        }
    }

    /// The root of an object, only to be read: errors are dropped, and field paths are not built.
    pub fn read_only(object: &'a Tree, shape: &'a Shape) -> Self {
        Self::new(object, shape, &Errors::without_paths())
    }

    /// An absent value that belongs to no object.
    pub fn absent() -> FieldRef<'static> {
        FieldRef {
            value: &NULL,
            value_type: ValueType::Any,
            errors: Errors::without_paths(),
        }
    }

    /// A field of this object.
    pub fn at(&self, name: &'a str) -> FieldRef<'a> {
        self.step(name, self.errors.at(name))
    }

    /// An entry of this map.
    pub fn key(&self, key: &str) -> FieldRef<'a> {
        self.item(self.value.get(key).unwrap_or(&NULL), self.errors.key(key))
    }

    /// The items of this list.
    pub fn items(&self) -> impl ExactSizeIterator<Item = FieldRef<'a>> + DoubleEndedIterator + use<'a> {
        let here = self.clone();
        let items = self.list().iter().enumerate();
        items.map(move |(index, value)| here.item(value, here.errors.index(index)))
    }

    /// The entries of this map. In normal form they are sorted by key.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, FieldRef<'a>)> + use<'a> {
        let here = self.clone();
        let pairs = self.map().into_iter().flat_map(Map::iter);
        pairs.map(move |(key, value)| (key, here.item(value, here.errors.key(key))))
    }

    /// The fields of this object, in the order of the shape, set or not.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, FieldRef<'a>)> + use<'a> {
        let here = self.clone();
        let members = self.shape().into_iter().flat_map(Shape::members);
        members.map(move |field| (field.name.as_str(), here.at(&field.name)))
    }

    /// The same value, reported at another field path.
    #[must_use]
    pub fn with_errors(&self, errors: Errors) -> FieldRef<'a> {
        Self {
            errors,
            ..self.clone()
        }
    }

    fn step(&self, name: &'a str, errors: Errors) -> FieldRef<'a> {
        let value = self.value.get(name).unwrap_or(&NULL);
        let value_type = match self.shape() {
            Some(shape) => {
                debug_assert!(shape.member(name).is_some(), "{} has no field {name:?}", shape.id);
                let member = ValueType::Member(shape, name);
                match value {
                    Tree::Map(_) | Tree::List(_) => member.resolved(),
                    _ => member,
                }
            }
            None => ValueType::Any,
        };
        Self {
            value,
            value_type,
            errors,
        }
    }

    fn item(&self, value: &'a Tree, errors: Errors) -> FieldRef<'a> {
        let value_type = match self.value_type.resolved() {
            ValueType::Field(field, shape) => ValueType::Item(field, shape),
            _ => ValueType::Any,
        };
        Self {
            value,
            value_type,
            errors,
        }
    }

    /// The shape of this object, if it is known.
    pub fn shape(&self) -> Option<&'a Shape> {
        match self.value_type.resolved() {
            ValueType::Shape(shape) => Some(shape),
            ValueType::Field(field, shape) if field.cardinality == Cardinality::One => shape,
            ValueType::Item(_, shape) => shape,
            _ => None,
        }
    }
}

impl ValueType<'_> {
    /// The type, looked up if it has not been.
    #[inline]
    fn resolved(self) -> Self {
        match self {
            Self::Member(shape, name) => match shape.member(name) {
                Some(field) => Self::Field(field, field.shape()),
                None => Self::Any,
            },
            known => known,
        }
    }
}

// === impl FieldRef: values ===

impl<'a> FieldRef<'a> {
    pub fn value(&self) -> &'a Tree {
        self.value
    }

    /// Whether the field is present.
    pub fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Whether the value is absent or empty.
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

    /// The string; empty if absent.
    pub fn str(&self) -> &'a str {
        self.find_str().unwrap_or_default()
    }

    pub fn find_str(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    /// The integer; zero if absent.
    pub fn int(&self) -> i64 {
        self.find_int().unwrap_or_default()
    }

    pub fn find_int(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// The boolean; false if absent.
    pub fn bool(&self) -> bool {
        self.find_bool().unwrap_or_default()
    }

    pub fn find_bool(&self) -> Option<bool> {
        self.value.as_bool()
    }

    /// The items of the list, as trees.
    pub fn list(&self) -> &'a [Tree] {
        self.value.as_list().unwrap_or_default()
    }

    /// The map itself.
    pub fn map(&self) -> Option<&'a Map> {
        self.value.as_map()
    }

    /// The strings of a list of strings.
    pub fn strs(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list().iter().filter_map(Tree::as_str)
    }

    /// The quantity. Decoding has checked types already, so an unparsable string counts as absent.
    pub fn quantity(&self) -> Option<Quantity> {
        self.find_str()?.parse().ok()
    }

    /// The timestamp.
    pub fn time(&self) -> Option<Timestamp> {
        self.find_str()?.parse().ok()
    }

    /// Whether both values are equal. Absent, null and empty differ only where the shape distinguishes them, which
    /// the normal form has already applied.
    pub fn is_same(&self, other: &FieldRef<'_>) -> bool {
        self.value.semantic_eq(other.value)
    }
}

// === impl FieldRef: errors ===

impl FieldRef<'_> {
    /// The error list at this field path: for paths that Kubernetes builds in its own way.
    pub fn errors(&self) -> &Errors {
        &self.errors
    }

    pub fn required(&self, detail: &str) {
        self.errors.required(detail);
    }

    /// Reports the value as invalid.
    pub fn invalid(&self, detail: &str) {
        self.errors.invalid(self, detail);
    }

    /// Reports the field as invalid, and shows another value in the message.
    pub fn invalid_as(&self, shown: impl DisplayJson, detail: &str) {
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

    pub fn too_long(&self, max_bytes: usize) {
        self.errors.too_long(max_bytes);
    }

    pub fn too_many(&self, max: usize) {
        self.errors.too_many(self.len(), max);
    }
}

// === impl FieldRef: common rules ===

impl FieldRef<'_> {
    /// Reports an empty field as required. Returns whether it has a value.
    pub fn require(&self) -> bool {
        if self.is_empty() {
            self.required("");
        }
        !self.is_empty()
    }

    /// Reports an absent field as required; an empty one is accepted.
    pub fn require_set(&self) {
        if !self.is_set() {
            self.required("");
        }
    }

    /// Reports a negative number.
    pub fn not_negative(&self) {
        if self.int() < 0 {
            self.invalid("must be greater than or equal to 0");
        }
    }

    /// Reports a number outside the range.
    pub fn in_range(&self, min: i64, max: i64) {
        if !(min..=max).contains(&self.int()) {
            self.invalid(&format!("must be between {min} and {max}, inclusive"));
        }
    }

    /// Reports a nonempty string that is not one of these.
    pub fn one_of(&self, supported: &[&str]) {
        if !self.str().is_empty() && !supported.contains(&self.str()) {
            self.not_supported(supported);
        }
    }

    /// Reports a string that is absent or not one of these.
    pub fn require_one_of(&self, supported: &[&str]) {
        if self.require() {
            self.one_of(supported);
        }
    }

    /// Reports a change. For fields that the API schema declares immutable, whose errors show no value.
    pub fn declarative_immutable(&self, old: &FieldRef<'_>) {
        if !self.is_same(old) {
            self.invalid_as((), "field is immutable");
        }
    }

    /// Reports a change.
    pub fn immutable(&self, old: &FieldRef<'_>) {
        if !self.is_same(old) {
            self.invalid("field is immutable");
        }
    }
}

// === impl Serialize ===

/// The value as error messages show it.
impl serde::Serialize for FieldRef<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = match self.value_type.resolved() {
            ValueType::Shape(shape) => go_dump::dump(shape, self.value),
            ValueType::Item(field, _) => go_dump::dump_item(field, self.value),
            ValueType::Field(field, _) => go_dump::dump_field(field, self.value),
            ValueType::Any | ValueType::Member(..) => go_dump::dump_raw(self.value),
        };
        RawJson::new(text).serialize(serializer)
    }
}
