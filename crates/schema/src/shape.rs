//! The schema of one type: its fields, in the order the server writes them, and every rule attached to them.
//!
//! A shape has three views. [`Shape::fields`] are the declared fields. [`Shape::members`] are the keys of the JSON
//! object: `kind` and `apiVersion` first where the type has them, and the fields of inlined types at the position of the
//! inlining field. [`Shape::proto_fields`] is the protobuf message, by ascending field number.

mod index;
mod layout;
mod proto;

use std::sync::Arc;

use compact_str::CompactString;

use crate::name;
use crate::pack::{Pack, TypeId};
use crate::tree::{Key, Tree};

pub(crate) use layout::Layout;
pub use proto::ProtoField;

/// The schema of one type: a kind, or a struct within one.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// The type's name in the pack, such as `api.core.v1.Pod`.
    pub id: CompactString,
    /// Its name in published OpenAPI schemas, if it is published.
    pub openapi_name: Option<CompactString>,
    /// Its full protobuf name, if it has a protobuf form.
    pub proto_name: Option<CompactString>,
    /// Set for kinds.
    pub gvk: Option<Gvk>,
    /// The kind exists in every group and version; `gvk` is one of them.
    pub any_group: bool,
    /// `kind` and `apiVersion` come first in JSON and are not fields of the protobuf message.
    pub type_meta: bool,
    /// The JSON form is not the object of the fields, which are then the protobuf ones.
    pub special_form: Option<SpecialForm>,
    /// The type only wraps its single field: a bare list in JSON, or in a custom kind a bare list or map.
    pub wrap: bool,
    /// How server-side apply owns the struct.
    pub map_type: Option<MapType>,
    /// Objects are written unchanged: a null or a zero value is not the same as an absent field.
    pub literal: bool,
    /// Unknown fields are kept, with any JSON as their value.
    pub preserve_unknown_fields: bool,
    /// The unions of mutually exclusive fields, as published.
    pub unions: Option<Tree>,
    /// The fields in declaration order.
    pub fields: Vec<Field>,
    pub(crate) layout: Layout,
}

/// Group, version and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    pub group: CompactString,
    pub version: CompactString,
    pub kind: CompactString,
}

/// One field of a type.
#[derive(Clone, Debug)]
pub struct Field {
    /// The JSON name; for an inlined field the protobuf name, which is not in the JSON.
    pub name: CompactString,
    /// The protobuf field number, if the type has a protobuf form.
    pub number: Option<u32>,
    pub cardinality: Cardinality,
    /// The type of the value, or of each element.
    pub value_type: FieldType,
    /// Its fields are members of the parent's JSON object.
    pub inline: bool,
    /// The element is a list wrapper.
    pub wrap: bool,
    /// A Go pointer: absent differs from the zero value, which is written.
    pub ptr: bool,
    /// The JSON written when the field is unset; the key is omitted if `None`.
    pub zero: Option<Tree>,
    pub required: bool,
    /// The default when unset.
    pub default: Option<Tree>,
    pub list_type: Option<ListType>,
    pub list_keys: Vec<CompactString>,
    pub map_type: Option<MapType>,
    /// Rules that few fields have; boxed together to keep `Field` small.
    pub rules: Option<Box<FieldRules>>,
}

/// Rules of a field for patches, validation, OpenAPI and feature gates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldRules {
    /// For raw JSON: which raw type it is.
    pub raw_type: Option<CompactString>,
    /// Strategic merge patch strategies, comma separated.
    pub patch_strategy: Option<CompactString>,
    /// The key strategic merge patch matches list elements by.
    pub merge_key: Option<CompactString>,
    /// Name of the enum in [`Pack::enum_values`].
    pub enum_name: Option<CompactString>,
    /// Feature gates that must be on, comma separated.
    pub feature_gates: Option<CompactString>,
    /// The union that the field is a member of: at most one of its fields may be set.
    pub one_of: Option<CompactString>,
    /// The Go name of the declared type in type errors, where that is neither its JSON type nor its enum: `v1.ResourceList`.
    pub declared_type: Option<CompactString>,
    /// Declarative validation tags.
    pub validation_tags: Vec<CompactString>,
}

/// Whether a field holds one value, a list or a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cardinality {
    One,
    List,
    /// Values by string key.
    Map,
}

/// The type of a field's value, or of each element.
#[derive(Clone, Debug)]
pub enum FieldType {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    /// Base64 in JSON.
    Bytes,
    /// RFC 3339 in whole seconds.
    Time,
    /// RFC 3339 with six digits of fraction.
    MicroTime,
    /// Go's form, `1h2m3s`.
    Duration,
    Quantity,
    IntOrString,
    /// Any JSON, kept as given.
    RawJson,
    /// A schema or a boolean.
    SchemaOrBool(ShapeRef),
    /// A schema or a list of schemas.
    SchemaOrArray(ShapeRef),
    /// A schema or a list of strings.
    SchemaOrStrings(ShapeRef),
    Shape(ShapeRef),
}

/// Reference to another shape. Built-in types may be recursive, so they are referred to by id.
#[derive(Clone, Debug)]
pub enum ShapeRef {
    Builtin(TypeId),
    /// A shape outside the pack, as custom kinds have.
    Own(Arc<Shape>),
}

/// Types whose JSON form is not the object of their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialForm {
    Time,
    MicroTime,
    /// The protobuf message of both time types.
    Timestamp,
    Duration,
    Quantity,
    IntOrString,
    RawJson,
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrStrings,
}

/// How server-side apply merges a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    Atomic,
    Set,
    Map,
}

/// How server-side apply merges a map or a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    Atomic,
    Granular,
}

// === impl Shape ===

impl Shape {
    /// A shape outside the pack, as custom kinds have. `type_meta` is set for kinds, which have `kind` and `apiVersion`.
    pub fn new(id: &str, type_meta: bool, fields: Vec<Field>) -> Self {
        Shape {
            id: id.into(),
            type_meta,
            fields,
            ..Shape::default()
        }
        .with_layout()
    }

    /// Computes the layout once all fields are set; they must not change afterwards.
    pub(crate) fn with_layout(mut self) -> Self {
        self.layout = Layout::of(&self);
        self
    }

    /// The keys of the JSON object, in the order the server writes them.
    pub fn members(&self) -> &[Field] {
        &self.layout.members
    }

    /// The member with a JSON name. Names are case-sensitive.
    pub fn member(&self, name: &str) -> Option<&Field> {
        self.find(name).map(|at| &self.layout.members[at])
    }

    /// The index of a member in [`Shape::members`]. `guess` is tried first: keys mostly come in order.
    pub fn position(&self, name: &str, guess: usize) -> Option<usize> {
        self.position_hashed(name, name::hash(name), guess)
    }

    /// As [`Shape::position`], of a key whose hash is known.
    pub(crate) fn position_of(&self, key: &Key, guess: usize) -> Option<usize> {
        self.position_hashed(key, key.hash(), guess)
    }

    fn position_hashed(&self, name: &str, hash: u32, guess: usize) -> Option<usize> {
        let members = &self.layout.members;
        if members
            .get(guess)
            .is_some_and(|member| name::is_same(&member.name, name))
        {
            return Some(guess);
        }
        self.find_hashed(name, hash)
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.find_hashed(name, name::hash(name))
    }

    fn find_hashed(&self, name: &str, hash: u32) -> Option<usize> {
        let members = &self.layout.members;
        let is_it = |at: usize| name::is_same(&members[at].name, name);
        self.layout.index.find(hash, is_it)
    }

    /// The members sorted by name, each with its index in [`Shape::members`].
    pub(crate) fn members_by_name(&self) -> impl Iterator<Item = (usize, &Field)> {
        let indexes = self.layout.by_name.iter().map(|at| usize::from(*at));
        indexes.map(|at| (at, &self.layout.members[at]))
    }

    /// The shape at a path of JSON names, through lists and maps into their elements.
    pub fn at(&self, path: &[&str]) -> Option<&Shape> {
        path.iter()
            .try_fold(self, |shape, name| shape.member(name)?.shape())
    }

    /// The inlined types that a member of the JSON object comes from, outermost first; empty for a declared field.
    pub(crate) fn inlining_path(&self, member: &str) -> Vec<&str> {
        for inlined in self.fields.iter().filter_map(inlined) {
            if inlined.member(member).is_some() {
                let mut through = vec![inlined.type_name()];
                through.extend(inlined.inlining_path(member));
                return through;
            }
        }
        Vec::new()
    }

    /// The last part of the type's name, such as `ObjectMeta`.
    pub fn type_name(&self) -> &str {
        self.id.rsplit('.').next().unwrap_or(&self.id)
    }

    /// The last two parts of the type's name, such as `v1.ObjectMeta`.
    pub fn versioned_name(&self) -> &str {
        last_two(&self.id)
    }
}

/// The last two dot-separated parts of a name.
pub(crate) fn last_two(id: &str) -> &str {
    id.rmatch_indices('.').nth(1).map_or(id, |(at, _)| &id[at + 1..])
}

/// The shape of an inlined field. Other references are not followed: they may lead back to the type being decoded.
fn inlined(field: &Field) -> Option<&Shape> {
    if field.inline { field.shape() } else { None }
}

// === impl Field ===

impl Field {
    /// An optional string field without rules, to be refined by the caller.
    pub fn string(name: &str) -> Self {
        Field::new(name, FieldType::String)
    }

    /// An optional single value without rules.
    pub fn new(name: &str, of: FieldType) -> Self {
        Field {
            name: name.into(),
            number: None,
            cardinality: Cardinality::One,
            value_type: of,
            inline: false,
            wrap: false,
            ptr: false,
            zero: None,
            required: false,
            default: None,
            list_type: None,
            list_keys: Vec::new(),
            map_type: None,
            rules: None,
        }
    }

    /// The shape of the value or of each element, if it has one.
    pub fn shape(&self) -> Option<&Shape> {
        self.value_type.shape()
    }

    /// The strategic merge patch strategies.
    pub fn patch_strategy(&self) -> Option<&str> {
        self.rules.as_ref()?.patch_strategy.as_deref()
    }

    /// The key strategic merge patch matches list elements by.
    pub fn merge_key(&self) -> Option<&str> {
        self.rules.as_ref()?.merge_key.as_deref()
    }

    /// The name of the field's enum.
    pub fn enum_name(&self) -> Option<&str> {
        self.rules.as_ref()?.enum_name.as_deref()
    }

    /// The feature gates that must be on for the field to be kept, comma separated.
    pub fn feature_gates(&self) -> Option<&str> {
        self.rules.as_ref()?.feature_gates.as_deref()
    }

    /// The union that the field is a member of: at most one of its fields may be set.
    pub fn one_of(&self) -> Option<&str> {
        self.rules.as_ref()?.one_of.as_deref()
    }

    /// The Go name of the declared type of the whole field in type errors, where it has one.
    pub fn declared_type(&self) -> Option<&str> {
        self.rules.as_ref()?.declared_type.as_deref()
    }

    /// The declarative validation tags.
    pub fn validation_tags(&self) -> &[CompactString] {
        self.rules.as_ref().map_or(&[], |rules| &rules.validation_tags)
    }
}

// === impl FieldType and ShapeRef ===

impl FieldType {
    /// The shape of the value, if it is an object of known fields.
    pub fn shape(&self) -> Option<&Shape> {
        match self {
            FieldType::Shape(reference) => Some(reference.shape()),
            _ => None,
        }
    }
}

impl ShapeRef {
    /// The shape that is referred to.
    pub fn shape(&self) -> &Shape {
        match self {
            ShapeRef::Builtin(id) => Pack::builtin().shape(*id),
            ShapeRef::Own(shape) => shape,
        }
    }
}

#[cfg(test)]
mod tests;
