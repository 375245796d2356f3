//! Canonical JSON, row by row.

use super::*;
use crate::pack::Pack;

fn shape(kind: &str) -> &'static Shape {
    let pack = Pack::builtin();
    pack.shape_of("", "v1", kind)
        .or_else(|| pack.shape_of("apps", "v1", kind))
        .unwrap()
}

#[track_caller]
fn check(kind: &str, object: &str, expected: &str) {
    let mut out = Vec::new();
    write_into(shape(kind), &serde_json::from_str(object).unwrap(), &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn keys_stand_in_declaration_order_and_map_keys_are_sorted() {
    check(
        "ConfigMap",
        r#"{"data":{"b":"2","a":"1"},"metadata":{"namespace":"n","name":"m"},"apiVersion":"v1","kind":"ConfigMap"}"#,
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m","namespace":"n"},"data":{"a":"1","b":"2"}}"#,
    );
}

#[test]
fn fields_that_are_always_written_are_filled_in() {
    check(
        "Pod",
        r#"{"spec":{"containers":[{"name":"c"}]}}"#,
        r#"{"metadata":{},"spec":{"containers":[{"name":"c","resources":{}}]},"status":{}}"#,
    );
    check(
        "Pod",
        "{}",
        r#"{"metadata":{},"spec":{"containers":null},"status":{}}"#,
    );
}

#[test]
fn nulls_and_plain_zero_values_are_left_out() {
    check(
        "Pod",
        r#"{"metadata":{"name":"","labels":{},"generation":0,"deletionTimestamp":null},"spec":{"containers":[],"hostNetwork":false,"priority":0}}"#,
        r#"{"metadata":{},"spec":{"containers":[],"priority":0},"status":{}}"#,
    );
}

#[test]
fn a_stored_empty_list_becomes_null() {
    let object = serde_json::from_str(r#"{"spec":{"containers":[]}}"#).unwrap();
    let stored = write(shape("Pod"), &object, EmptyCollections::AsNull).bytes;
    assert_eq!(
        String::from_utf8(stored).unwrap(),
        r#"{"metadata":{"resourceVersion":""},"spec":{"containers":null},"status":{}}"#
    );
}

#[test]
fn times_are_written_in_their_canonical_form() {
    check(
        "Namespace",
        r#"{"metadata":{"creationTimestamp":"2026-01-01T00:00:00.25+01:00"}}"#,
        r#"{"metadata":{"creationTimestamp":"2025-12-31T23:00:00Z"},"spec":{},"status":{}}"#,
    );
}

#[test]
fn strings_are_escaped_as_the_reference_server_does() {
    check(
        "ConfigMap",
        r#"{"data":{"a":"<a href=\"x\">&\u0001\n\t\r\b\f\u2028\u2029\u20ac\\/é\u007f"}}"#,
        "{\"metadata\":{},\"data\":{\"a\":\"\\u003ca href=\\\"x\\\"\\u003e\\u0026\\u0001\\n\\t\\r\\b\\f\\u2028\\u2029€\\\\/é\u{7f}\"}}",
    );
}

#[test]
fn numbers_have_their_shortest_form() {
    for (number, expected) in [
        (Tree::Int(i64::MIN), "-9223372036854775808"),
        (Tree::Int(0), "0"),
        (Tree::Float(1.0), "1"),
        (Tree::Float(-0.5), "-0.5"),
        (Tree::Float(1e21), "1e+21"),
        (Tree::Float(1e20), "100000000000000000000"),
        (Tree::Float(1.5e-7), "1.5e-7"),
        (Tree::Float(0.000001), "0.000001"),
    ] {
        let mut out = Vec::new();
        write_tree(&number, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn the_resource_version_offset_is_between_the_quotes() {
    let object = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"generation":2,"resourceVersion":"9","name":"a"}}"#;
    let written = write(
        shape("ConfigMap"),
        &serde_json::from_str(object).unwrap(),
        EmptyCollections::Keep,
    );
    let text = String::from_utf8(written.bytes).unwrap();
    assert_eq!(
        text,
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"","generation":2}}"#
    );
    let stamp = written.resource_version_offset.unwrap() as usize;
    assert!(text[..stamp].ends_with(r#""resourceVersion":""#) && text[stamp..].starts_with('"'));
    assert!(text[written.body_offset as usize..].starts_with(r#""metadata":"#));
}

#[test]
fn metadata_deeper_down_keeps_its_resource_version() {
    let object = r#"{"spec":{"template":{"metadata":{"resourceVersion":"7"}}}}"#;
    let written = write(
        shape("Deployment"),
        &serde_json::from_str(object).unwrap(),
        EmptyCollections::Keep,
    );
    let text = String::from_utf8(written.bytes).unwrap();
    assert_eq!(text.matches(r#""resourceVersion":"7""#).count(), 1);
    assert_eq!(text.matches(r#""resourceVersion":"""#).count(), 1);
}

#[test]
fn a_list_and_an_object_without_kind_have_their_offsets_too() {
    let written = write(
        shape("PodList"),
        &serde_json::from_str(r#"{"metadata":{"resourceVersion":"5"}}"#).unwrap(),
        EmptyCollections::AsNull,
    );
    assert_eq!(written.resource_version_offset, None);
    assert_eq!(
        written.bytes,
        br#"{"metadata":{"resourceVersion":"5"},"items":null}"#
    );
    assert_eq!(written.body_offset, 1);
}

#[test]
fn an_empty_list_is_null_where_the_stored_form_does_not_distinguish_them() {
    let role = Pack::builtin()
        .shape_of("rbac.authorization.k8s.io", "v1", "Role")
        .unwrap();
    let object: Tree = serde_json::from_str(r#"{"rules":[]}"#).unwrap();
    let rules = |empty| String::from_utf8(write(role, &object, empty).bytes).unwrap();
    assert!(rules(EmptyCollections::AsNull).ends_with(r#""rules":null}"#));
    assert!(rules(EmptyCollections::Keep).ends_with(r#""rules":[]}"#));
}

#[test]
fn a_custom_object_has_all_keys_sorted() {
    let head = Shape::new(
        "head",
        true,
        vec![shape("ConfigMap").member("metadata").unwrap().clone()],
    );
    let object = r#"{"spec":{"b":[{"d":1,"c":2}],"a":null},"kind":"Widget","apiVersion":"example.com/v1",
        "metadata":{"resourceVersion":"9","namespace":"n","name":"w","labels":{},
            "managedFields":[{"manager":"m","fieldsV1":{"f:b":{},"f:a":{}},"apiVersion":"v1"}]},"Data":1}"#;
    let object = serde_json::from_str(object).unwrap();
    let written = write_sorted(&head, &object);
    let expected = r#"{"Data":1,"apiVersion":"example.com/v1","kind":"Widget","metadata":{"managedFields":[{"apiVersion":"v1","fieldsV1":{"f:a":{},"f:b":{}},"manager":"m"}],"name":"w","namespace":"n","resourceVersion":""},"spec":{"a":null,"b":[{"c":2,"d":1}]}}"#;
    let text = String::from_utf8(written.bytes).unwrap();
    assert_eq!(text, expected);
    let stamp = written.resource_version_offset.unwrap() as usize;
    assert!(text[..stamp].ends_with(r#""resourceVersion":""#) && text[stamp..].starts_with('"'));
    let mut read = Vec::new();
    write_sorted_into(&head, &object, &mut read);
    let filled = expected.replace(r#""resourceVersion":"""#, r#""resourceVersion":"9""#);
    assert_eq!(String::from_utf8(read).unwrap(), filled);
}
