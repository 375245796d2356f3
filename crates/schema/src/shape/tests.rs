//! The JSON face of a shape.

use super::*;

fn names(shape: &Shape) -> Vec<&str> {
    shape
        .members()
        .iter()
        .map(|member| member.name.as_str())
        .collect()
}

#[test]
fn kind_and_api_version_come_first() {
    let map = Pack::builtin().shape_of("", "v1", "ConfigMap").unwrap();
    assert_eq!(
        names(map),
        [
            "kind",
            "apiVersion",
            "metadata",
            "immutable",
            "data",
            "binaryData"
        ]
    );
    assert_eq!(map.fields[0].name, "metadata");
}

#[test]
fn an_inlined_type_stands_in_its_holders_place() {
    let pod = Pack::builtin().shape_of("", "v1", "Pod").unwrap();
    let probe = pod.at(&["spec", "containers", "livenessProbe"]).unwrap();
    assert_eq!(
        &names(probe)[..5],
        ["exec", "httpGet", "tcpSocket", "grpc", "initialDelaySeconds"]
    );
    assert!(probe.member("handler").is_none());
    assert_eq!(probe.fields[0].name, "handler");
}

#[test]
fn members_are_found_by_exact_name_whatever_is_guessed() {
    let pod = Pack::builtin().shape_of("", "v1", "Pod").unwrap();
    let spec = pod.at(&["spec"]).unwrap();
    for (at, member) in spec.members().iter().enumerate() {
        assert_eq!(spec.position(&member.name, 0), Some(at));
        assert_eq!(spec.position(&member.name, at), Some(at));
        assert_eq!(spec.position(&member.name, 9999), Some(at));
    }
    assert_eq!(spec.position("NodeName", 0), None);
}

#[test]
fn a_shape_of_its_own_may_hold_built_in_ones() {
    let meta = Pack::builtin()
        .shape_of("", "v1", "Pod")
        .unwrap()
        .member("metadata")
        .unwrap()
        .clone();
    let size = Arc::new(Shape::new("Size", false, vec![Field::new("width", Of::Int32)]));
    let fields = vec![meta, Field::new("size", Of::Shape(Link::Own(size)))];
    let custom = Shape::new("Custom", true, fields);
    assert_eq!(names(&custom), ["kind", "apiVersion", "metadata", "size"]);
    assert!(custom.at(&["size"]).unwrap().member("width").is_some());
    assert!(custom.at(&["metadata"]).unwrap().member("labels").is_some());
}

#[test]
fn names_are_cut_from_the_id() {
    let pod = Pack::builtin().shape_of("", "v1", "Pod").unwrap();
    assert_eq!((pod.type_name(), pod.versioned_name()), ("Pod", "v1.Pod"));
}

#[test]
fn every_slot_points_at_its_member_and_numbers_rise() {
    for shape in Pack::builtin().shapes() {
        assert!(
            shape
                .slots()
                .is_sorted_by(|left, right| left.number < right.number),
            "{}",
            shape.id
        );
        for slot in shape.slots() {
            let field = shape.slot_field(*slot);
            let first = inlined(field)
                .and_then(|inner| inner.members().first())
                .unwrap_or(field);
            assert_eq!(
                shape.members()[usize::from(slot.member)].name,
                first.name,
                "{}",
                shape.id
            );
        }
    }
}

#[test]
fn a_slot_is_found_whatever_the_guess() {
    let pod = Pack::builtin().shape_of("", "v1", "Pod").unwrap();
    let spec = pod.at(&["spec"]).unwrap();
    for (at, slot) in spec.slots().iter().enumerate() {
        for guess in [0, at.saturating_sub(1), at, 1000] {
            assert_eq!(spec.slot_position(slot.number, guess), Some(at));
        }
    }
    assert_eq!(spec.slot_position(999, 0), None);
}
