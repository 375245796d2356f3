//! Owners under a shape that has changed since: what was owned part by part and is atomic now is owned as a whole.

use super::field_set::{FieldSet, Node};
use super::place::Place;
use crate::shape::Shape;

/// Brings what somebody owns into line with the shape.
pub(super) fn settle_fields(shape: &Shape, fields: &mut FieldSet) {
    let place = Place::of_shape(shape);
    if is_outdated(place, fields) {
        *fields = settled(place, fields);
    }
}

fn is_outdated(place: Place<'_>, set: &FieldSet) -> bool {
    set.iter().any(|(element, node)| match place.at(element) {
        Some(place) if place.atomic => !node.children.is_empty(),
        Some(place) => is_outdated(place, &node.children),
        None => false,
    })
}

fn settled(place: Place<'_>, set: &FieldSet) -> FieldSet {
    let mut settled = FieldSet::default();
    for (element, node) in set.iter() {
        let node = match place.at(element) {
            Some(place) if place.atomic => Node::leaf(),
            Some(place) => Node {
                member: node.member,
                children: self::settled(place, &node.children),
            },
            None => node.clone(),
        };
        settled.push(element.clone(), node);
    }
    settled
}
