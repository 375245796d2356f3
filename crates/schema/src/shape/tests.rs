//! The JSON and protobuf views of a shape.

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
fn the_members_of_an_inlined_type_replace_the_inlining_field() {
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
fn a_custom_shape_may_hold_built_in_ones() {
    let meta = Pack::builtin()
        .shape_of("", "v1", "Pod")
        .unwrap()
        .member("metadata")
        .unwrap()
        .clone();
    let size = Arc::new(Shape::new(
        "Size",
        false,
        vec![Field::new("width", FieldType::Int32)],
    ));
    let fields = vec![meta, Field::new("size", FieldType::Shape(ShapeRef::Own(size)))];
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
fn every_proto_field_points_at_its_member_and_numbers_ascend() {
    for shape in Pack::builtin().shapes() {
        assert!(
            shape
                .proto_fields()
                .is_sorted_by(|left, right| left.number < right.number),
            "{}",
            shape.id
        );
        for proto_field in shape.proto_fields() {
            let field = shape.declared_field(*proto_field);
            let first = inlined(field)
                .and_then(|inner| inner.members().first())
                .unwrap_or(field);
            assert_eq!(
                shape.members()[usize::from(proto_field.member)].name,
                first.name,
                "{}",
                shape.id
            );
        }
    }
}

#[test]
fn a_proto_field_is_found_whatever_the_guess() {
    let pod = Pack::builtin().shape_of("", "v1", "Pod").unwrap();
    let spec = pod.at(&["spec"]).unwrap();
    for (at, proto_field) in spec.proto_fields().iter().enumerate() {
        for guess in [0, at.saturating_sub(1), at, 1000] {
            assert_eq!(spec.proto_field_position(proto_field.number, guess), Some(at));
        }
    }
    assert_eq!(spec.proto_field_position(999, 0), None);
}
