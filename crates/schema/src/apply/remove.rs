//! Taking paths out of a document, and the paths above them.

use super::element::Element;
use super::field_set::{FieldSet, Node};
use super::place::{Kind, Place, step};
use crate::shape::Shape;
use crate::tree::Tree;

/// The document without the paths of a set. What loses all its content becomes null.
pub(super) fn remove(shape: &Shape, mut document: Tree, paths: &FieldSet) -> Tree {
    take_out(Place::of_shape(shape), &mut document, paths);
    document
}

fn take_out(place: Place<'_>, value: &mut Tree, paths: &FieldSet) {
    if place.atomic || paths.is_empty() {
        return;
    }
    let empty = match (place.kind, &mut *value) {
        (Kind::List(list), Tree::List(items)) => {
            items.retain_mut(|item| {
                let step = step(list, item).ok();
                stays(
                    Place::of_element(list),
                    item,
                    step.and_then(|step| paths.at(&step)),
                )
            });
            items.is_empty()
        }
        (Kind::Struct(_) | Kind::Map(_) | Kind::Any, Tree::Map(map)) => {
            map.retain(|key, value| match place.under(key) {
                Some(place) => stays(place, value, paths.at(&Element::field(key))),
                None => true,
            });
            map.is_empty()
        }
        _ => false,
    };
    if empty {
        *value = Tree::Null;
    }
}

/// Takes out what is below, and says whether the value itself stays.
fn stays(place: Place<'_>, value: &mut Tree, node: Option<&Node>) -> bool {
    let Some(node) = node else { return true };
    if !node.member {
        take_out(place, value, &node.children);
    }
    !node.member
}

/// The set with every declared field on the way to one of its paths. Fields of structs come and go with their content;
/// keys of maps and items of lists are owned by themselves.
pub(super) fn with_holders(shape: &Shape, set: &FieldSet) -> FieldSet {
    hold(Some(Place::of_shape(shape)), set)
}

fn hold(place: Option<Place<'_>>, set: &FieldSet) -> FieldSet {
    let mut held = FieldSet::default();
    for (element, node) in set.iter() {
        let named = matches!((element, place), (Element::Field(name), Some(place)) if place.names(name));
        let below = place.and_then(|place| place.at(element));
        let node = Node {
            member: node.member || named,
            children: hold(below, &node.children),
        };
        held.push(element.clone(), node);
    }
    held
}
