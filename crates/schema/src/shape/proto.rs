//! The protobuf view of a shape: its fields by ascending number, each with its index in the JSON object.

use super::{Field, Shape, inlined};

/// One field of the protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtoField {
    /// The protobuf field number.
    pub number: u32,
    /// Its index in [`Shape::fields`].
    field: u16,
    /// Its index in [`Shape::members`]. For an inlined field the index of the first member that comes from it; the
    /// others follow in the order of the inlined type's own members.
    pub member: u16,
}

impl Shape {
    /// The fields of the message, by ascending number. Empty if the type has no protobuf form.
    pub fn proto_fields(&self) -> &[ProtoField] {
        &self.layout.proto_fields
    }

    /// The index of a number in [`Shape::proto_fields`]. `guess` and the index after it are tried first: fields mostly
    /// come in order.
    pub fn proto_field_position(&self, number: u32, guess: usize) -> Option<usize> {
        let proto_fields = self.proto_fields();
        let is_it = |at: usize| {
            proto_fields
                .get(at)
                .is_some_and(|proto_field| proto_field.number == number)
        };
        [guess, guess + 1].into_iter().find(|at| is_it(*at)).or_else(|| {
            proto_fields
                .binary_search_by_key(&number, |proto_field| proto_field.number)
                .ok()
        })
    }

    /// The declared field of one of this shape's protobuf fields.
    pub fn declared_field(&self, proto_field: ProtoField) -> &Field {
        &self.fields[usize::from(proto_field.field)]
    }
}

/// The protobuf fields of a shape whose fields are set.
pub(super) fn proto_fields(shape: &Shape) -> Vec<ProtoField> {
    let mut member = if shape.type_meta { 2 } else { 0 };
    let mut proto_fields = Vec::with_capacity(shape.fields.len());
    for (at, field) in shape.fields.iter().enumerate() {
        if let Some(number) = field.number {
            proto_fields.push(ProtoField {
                number,
                field: at as u16,
                member,
            });
        }
        member += inlined(field).map_or(1, |inner| inner.members().len() as u16);
    }
    proto_fields.sort_unstable_by_key(|proto_field| proto_field.number);
    proto_fields
}
