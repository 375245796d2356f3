//! What is known of one type: its fields, in the order the server writes them, and every rule attached to them.
//!
//! A shape has three faces. [`Shape::fields`] is the declared one. [`Shape::members`] is what stands in the JSON
//! object: `kind` and `apiVersion` first where the type has them, and the fields of inlined types in the place of the
//! inlining field. [`Shape::slots`] is the protobuf message, by rising field number.

mod index;
mod wire;

use std::sync::Arc;

use compact_str::CompactString;

use crate::pack::{Pack, TypeId};
use crate::tree::Tree;

use index::Index;
pub use wire::Slot;

/// One type: a kind, or a part of one.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// The type's name in the pack, such as `api.core.v1.Pod`.
    pub id: CompactString,
    /// Its name in published OpenAPI documents, if it is published.
    pub openapi: Option<CompactString>,
    /// Its full protobuf name, if it has a protobuf form.
    pub proto: Option<CompactString>,
    /// For what can stand alone as a document.
    pub gvk: Option<Gvk>,
    /// The kind exists in every group and version; `gvk` shows one.
    pub any_group: bool,
    /// `kind` and `apiVersion` come first in JSON and are no part of the protobuf message.
    pub type_meta: bool,
    /// The JSON form differs from the fields, which are then the protobuf ones.
    pub special: Option<Special>,
    /// The type only wraps its one field: a bare list in JSON, or in a custom kind a bare list or map.
    pub wrap: bool,
    /// How server-side apply owns the struct.
    pub map_type: Option<MapType>,
    /// Documents are written as they stand: a null or a zero value is not the same as nothing.
    pub literal: bool,
    /// Fields that are not named may stand there too, with any JSON as their value.
    pub open: bool,
    /// Which fields exclude each other, as published.
    pub unions: Option<Tree>,
    /// The fields in declaration order.
    pub fields: Vec<Field>,
    pub(crate) view: View,
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
    /// The JSON name; for an inlined field the protobuf name, which JSON never shows.
    pub name: CompactString,
    /// The protobuf field number, if the type has a protobuf form.
    pub number: Option<u32>,
    pub card: Card,
    /// The type of the value, or of each element.
    pub of: Of,
    /// Its fields stand in the parent's JSON object.
    pub inline: bool,
    /// The element is a list wrapper.
    pub wrap: bool,
    /// The field may be absent as such, so that a zero value is kept.
    pub ptr: bool,
    /// What JSON shows when the field is unset; nothing if `None`.
    pub zero: Option<Tree>,
    pub required: bool,
    /// Filled in when unset.
    pub default: Option<Tree>,
    pub list_type: Option<ListType>,
    pub list_keys: Vec<CompactString>,
    pub map_type: Option<MapType>,
    /// The rules few fields have; together, so that a field stays small.
    pub rules: Option<Box<Rules>>,
}

/// Rules of a field that only later steps read: patches, validation, OpenAPI, feature gates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// For raw JSON: which raw type it is.
    pub raw: Option<CompactString>,
    /// Strategic merge patch strategies, comma separated.
    pub patch: Option<CompactString>,
    /// The key strategic merge patch matches list elements by.
    pub merge_key: Option<CompactString>,
    /// Name of the enum in [`Pack::enum_values`].
    pub enumeration: Option<CompactString>,
    /// Feature gates that must be on, comma separated.
    pub gate: Option<CompactString>,
    /// The set of fields of which at most one may be given.
    pub one_of: Option<CompactString>,
    /// What refusals call the declared type, where that is neither its JSON type nor its enum: `v1.ResourceList`.
    pub named: Option<CompactString>,
    /// Declarative validation words.
    pub check: Vec<CompactString>,
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Card {
    One,
    List,
    /// Values by string key.
    Map,
}

/// The type of a value.
#[derive(Clone, Debug)]
pub enum Of {
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
    /// Any JSON, kept as it came.
    RawJson,
    /// A schema or a boolean.
    SchemaOrBool(Link),
    /// A schema or a list of schemas.
    SchemaOrArray(Link),
    /// A schema or a list of strings.
    SchemaOrStrings(Link),
    Shape(Link),
}

/// Where another shape is found. Built-in types may refer to themselves, so they are named rather than held.
#[derive(Clone, Debug)]
pub enum Link {
    Builtin(TypeId),
    /// A shape of its own, as custom kinds have.
    Own(Arc<Shape>),
}

/// Types whose JSON form is not the object of their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    Time,
    MicroTime,
    /// The protobuf message behind both time types.
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

/// The JSON face of a shape, made once when the shape is built.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    members: Vec<Field>,
    /// Indexes into `members`, sorted by name.
    by_name: Vec<u16>,
    index: Index,
    /// The protobuf face, sorted by number.
    slots: Vec<Slot>,
}

// === impl Shape ===

impl Shape {
    /// A shape of its own: what a custom kind has. `type_meta` says whether it stands alone as a document.
    pub fn new(id: &str, type_meta: bool, fields: Vec<Field>) -> Self {
        Shape {
            id: id.into(),
            type_meta,
            fields,
            ..Shape::default()
        }
        .sealed()
    }

    /// Makes the JSON face, once all fields are set; nothing may change them afterwards.
    pub(crate) fn sealed(mut self) -> Self {
        let mut members = Vec::with_capacity(self.fields.len() + 2);
        if self.type_meta {
            members.extend(["kind", "apiVersion"].map(Field::text));
        }
        flatten(&self.fields, &mut members);
        let mut by_name: Vec<u16> = (0..members.len() as u16).collect();
        by_name.sort_by(|left, right| members[*left as usize].name.cmp(&members[*right as usize].name));
        let slots = wire::slots(&self);
        self.view = View {
            index: Index::of(members.iter().map(|member| member.name.as_str())),
            members,
            by_name,
            slots,
        };
        self
    }

    /// What stands in the JSON object, in the order the server writes it.
    pub fn members(&self) -> &[Field] {
        &self.view.members
    }

    /// The member with a JSON name. Names are case-sensitive.
    pub fn member(&self, name: &str) -> Option<&Field> {
        self.find(name).map(|at| &self.view.members[at])
    }

    /// The place of a member among [`Shape::members`]. `guess` is tried first: documents mostly come in order.
    pub fn position(&self, name: &str, guess: usize) -> Option<usize> {
        let members = &self.view.members;
        if members.get(guess).is_some_and(|member| member.name == name) {
            return Some(guess);
        }
        self.find(name)
    }

    fn find(&self, name: &str) -> Option<usize> {
        let members = &self.view.members;
        self.view.index.find(name, |at| members[at].name == name)
    }

    /// The members by rising name, each with its place among [`Shape::members`].
    pub(crate) fn members_by_name(&self) -> impl Iterator<Item = (usize, &Field)> {
        let places = self.view.by_name.iter().map(|at| usize::from(*at));
        places.map(|at| (at, &self.view.members[at]))
    }

    /// The shape at a path of JSON names, through lists and maps into their elements.
    pub fn at(&self, path: &[&str]) -> Option<&Shape> {
        path.iter()
            .try_fold(self, |shape, name| shape.member(name)?.shape())
    }

    /// The inlined types that a member of the JSON object comes from, outermost first; none for a field of its own.
    pub(crate) fn inlined_through(&self, member: &str) -> Vec<&str> {
        for inlined in self.fields.iter().filter_map(inlined) {
            if inlined.member(member).is_some() {
                let mut through = vec![inlined.type_name()];
                through.extend(inlined.inlined_through(member));
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

fn flatten(fields: &[Field], into: &mut Vec<Field>) {
    for field in fields {
        match inlined(field) {
            Some(shape) => flatten(&shape.fields, into),
            None => into.push(field.clone()),
        }
    }
}

/// Only inlined types are followed here: others may lead back to the type that is just being read.
fn inlined(field: &Field) -> Option<&Shape> {
    if field.inline { field.shape() } else { None }
}

// === impl Field ===

impl Field {
    /// A plain optional string field, to be refined by the caller.
    pub fn text(name: &str) -> Self {
        Field::new(name, Of::String)
    }

    /// An optional single value without rules.
    pub fn new(name: &str, of: Of) -> Self {
        Field {
            name: name.into(),
            number: None,
            card: Card::One,
            of,
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
        self.of.shape()
    }

    /// The strategic merge patch strategies.
    pub fn patch(&self) -> Option<&str> {
        self.rules.as_ref()?.patch.as_deref()
    }

    /// The key strategic merge patch matches list elements by.
    pub fn merge_key(&self) -> Option<&str> {
        self.rules.as_ref()?.merge_key.as_deref()
    }

    /// The name of the field's enum.
    pub fn enumeration(&self) -> Option<&str> {
        self.rules.as_ref()?.enumeration.as_deref()
    }

    /// The feature gates that must be on for the field to be kept.
    pub fn gate(&self) -> Option<&str> {
        self.rules.as_ref()?.gate.as_deref()
    }

    /// The set of fields of which at most one may be given.
    pub fn one_of(&self) -> Option<&str> {
        self.rules.as_ref()?.one_of.as_deref()
    }

    /// What refusals call the declared type of the whole field, where it has a name of its own.
    pub fn named(&self) -> Option<&str> {
        self.rules.as_ref()?.named.as_deref()
    }

    /// The declarative validation words.
    pub fn check(&self) -> &[CompactString] {
        self.rules.as_ref().map_or(&[], |rules| &rules.check)
    }
}

// === impl Of and Link ===

impl Of {
    /// The shape of the value, if it is an object of known fields.
    pub fn shape(&self) -> Option<&Shape> {
        match self {
            Of::Shape(link) => Some(link.shape()),
            _ => None,
        }
    }
}

impl Link {
    /// The shape that is linked to.
    pub fn shape(&self) -> &Shape {
        match self {
            Link::Builtin(id) => Pack::builtin().shape(*id),
            Link::Own(shape) => shape,
        }
    }
}

#[cfg(test)]
mod tests;
