//! The protobuf face of a shape: its fields by rising number, and where each one's value stands in the JSON object.

use super::{Field, Shape, inlined};

/// One field of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The field's number on the wire.
    pub number: u32,
    /// Its place among [`Shape::fields`].
    field: u16,
    /// Its place among [`Shape::members`]. For an inlined field the place of the first member that comes from it; the
    /// others follow in the order of the inlined type's own members.
    pub member: u16,
}

impl Shape {
    /// The fields of the message, by rising number. Empty if the type has no protobuf form.
    pub fn slots(&self) -> &[Slot] {
        &self.view.slots
    }

    /// The place of a number among [`Shape::slots`]. `guess` and the place behind it are tried first: messages mostly
    /// come in order.
    pub fn slot_position(&self, number: u32, guess: usize) -> Option<usize> {
        let slots = self.slots();
        let is_it = |at: usize| slots.get(at).is_some_and(|slot| slot.number == number);
        [guess, guess + 1]
            .into_iter()
            .find(|at| is_it(*at))
            .or_else(|| slots.binary_search_by_key(&number, |slot| slot.number).ok())
    }

    /// The field of one of this shape's own slots.
    pub fn slot_field(&self, slot: Slot) -> &Field {
        &self.fields[usize::from(slot.field)]
    }
}

/// The slots of a shape whose fields are set.
pub(super) fn slots(shape: &Shape) -> Vec<Slot> {
    let mut member = if shape.type_meta { 2 } else { 0 };
    let mut slots = Vec::with_capacity(shape.fields.len());
    for (at, field) in shape.fields.iter().enumerate() {
        if let Some(number) = field.number {
            slots.push(Slot {
                number,
                field: at as u16,
                member,
            });
        }
        member += inlined(field).map_or(1, |inner| inner.members().len() as u16);
    }
    slots.sort_unstable_by_key(|slot| slot.number);
    slots
}
