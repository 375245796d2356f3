//! The rules of the format one by one. That every kind is encoded as kube-apiserver does is checked by the
//! fixtures in `tests/protobuf.rs`.

use setpoint_schema::{Pack, Tree};

use super::*;
use crate::json;

fn shape(api_version: &str, kind: &str) -> &'static Shape {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Pack::builtin().shape_of(group, version, kind).unwrap()
}

fn config_map() -> &'static Shape {
    shape("v1", "ConfigMap")
}

/// Decodes a bare message of a kind and compares it, written as JSON.
#[track_caller]
fn check(shape: &Shape, message: &[u8], expected: &str) {
    let mut map = setpoint_schema::Map::default();
    let text = match decode_message(message, shape, &mut map) {
        Ok(()) => String::from_utf8(json::write(&Tree::Map(map))).unwrap(),
        Err(error) => error.to_string(),
    };
    assert_eq!(text, expected);
}

/// One delimited field.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    reader::push_field_header(number, content.len(), &mut out);
    out.extend_from_slice(content);
    out
}

fn entry(key: &str, value: &str) -> Vec<u8> {
    field(
        2,
        &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat(),
    )
}

#[test]
fn unknown_fields_of_every_wire_type_are_skipped() {
    let unknown: [&[u8]; 6] = [
        &[15 << 3, 0x96, 0x01],
        &[15 << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8],
        &[15 << 3 | 2, 2, 0xff, 0xff],
        &[15 << 3 | 3, 1 << 3 | 3, 8, 1, 1 << 3 | 4, 15 << 3 | 4],
        &[15 << 3 | 5, 1, 2, 3, 4],
        &[0xf8, 0xff, 0xff, 0xff, 0x3f, 0],
    ];
    for unknown in unknown {
        let message = [unknown, &entry("a", "1"), unknown].concat();
        check(config_map(), &message, r#"{"data":{"a":"1"}}"#);
    }
}

#[test]
fn malformed_input_has_the_error_messages_of_kube_apiserver() {
    check(config_map(), &[0x12, 5, 0], "unexpected EOF");
    check(config_map(), &[0x80], "unexpected EOF");
    check(config_map(), &[0xff; 11], "proto: integer overflow");
    check(config_map(), &[0], "proto: illegal tag 0 (wire type 0)");
    check(config_map(), &[0x7f], "proto: illegal wireType 7");
    check(config_map(), &[0x0c], "proto: wiretype end group for non-group");
    check(
        config_map(),
        &[0x08, 0],
        "proto: wrong wireType = 0 for field metadata",
    );
    let negative = [&[0x12][..], &[0xff; 9], &[1]].concat();
    check(
        config_map(),
        &negative,
        "proto: negative length found during unmarshaling",
    );
}

#[test]
fn of_duplicate_keys_the_last_value_wins() {
    let message = [entry("b", "1"), entry("a", "1"), entry("b", "2"), entry("a", "3")].concat();
    check(config_map(), &message, r#"{"data":{"a":"3","b":"2"}}"#);
}

#[test]
fn an_entry_without_key_or_value_has_their_zeros() {
    check(config_map(), &field(2, b""), r#"{"data":{"":""}}"#);
}

#[test]
fn a_repeated_field_replaces_and_a_repeated_message_is_merged() {
    let message = [
        field(1, &field(1, b"first")),
        entry("a", "1"),
        field(1, &[field(1, b"second"), field(3, b"ns")].concat()),
        field(1, &field(3, b"")),
    ];
    check(
        config_map(),
        &message.concat(),
        r#"{"metadata":{"name":"second"},"data":{"a":"1"}}"#,
    );
}

#[test]
fn invalid_utf8_in_text_is_replaced() {
    check(
        config_map(),
        &field(1, &field(1, b"a\xff\xfeb")),
        "{\"metadata\":{\"name\":\"a\u{fffd}\u{fffd}b\"}}",
    );
}

#[test]
fn numbers_may_be_packed_or_not() {
    let context = |groups: &[u8]| field(2, &field(14, groups));
    let one_by_one = context(&[4 << 3, 1, 4 << 3, 0x96, 1]);
    let packed = context(&field(4, &[1, 0x96, 1]));
    for message in [one_by_one, packed] {
        check(
            shape("v1", "Pod"),
            &message,
            r#"{"spec":{"securityContext":{"supplementalGroups":[1,150]}}}"#,
        );
    }
}

#[test]
fn a_pointer_keeps_its_zero_and_a_plain_field_does_not() {
    let tree = json::parse(br#"{"spec":{"nodeName":"","hostNetwork":false,"priority":0}}"#).unwrap();
    let message = encode(shape("v1", "Pod"), &tree);
    check(shape("v1", "Pod"), &message, r#"{"spec":{"priority":0}}"#);
}

#[test]
fn messages_within_messages_are_limited_as_json_is() {
    let definition = shape("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let schema = definition
        .at(&["spec", "versions", "schema", "openAPIV3Schema"])
        .unwrap();
    let not = schema
        .proto_fields()
        .iter()
        .find(|slot| schema.declared_field(**slot).name == "not")
        .unwrap();
    let nested = |depth: usize| {
        let mut buffer = reverse_buffer::ReverseBuffer::new();
        for _ in 0..depth {
            buffer.close(not.number, 0);
        }
        buffer.into_vec()
    };
    let mut map = setpoint_schema::Map::default();
    assert_eq!(
        decode_message(&nested(json::MAX_DEPTH - 1), schema, &mut map),
        Ok(())
    );
    let tree = Tree::Map(map);
    assert!(json::parse(&json::write(&tree)).is_ok());
    assert_eq!(
        decode_message(&nested(json::MAX_DEPTH), schema, &mut Default::default()),
        Err(Error::Depth)
    );
    encode(schema, &tree);
}

#[test]
fn raw_json_counts_towards_the_depth_limit() {
    let shape = shape("apps/v1", "ControllerRevision");
    let raw = |depth: usize| field(2, &field(1, &[vec![b'['; depth], vec![b']'; depth]].concat()));
    assert_eq!(
        decode_message(&raw(json::MAX_DEPTH - 1), shape, &mut Default::default()),
        Ok(())
    );
    let error = decode_message(&raw(json::MAX_DEPTH), shape, &mut Default::default());
    assert_eq!(error, Err(Error::Json(json::Error::Depth)));
}

#[test]
fn an_envelope_survives_a_round_trip_and_an_invalid_one_is_an_error() {
    let type_meta = TypeMeta::new("apps/v1", "Deployment");
    let message = vec![7; 300];
    let sealed = envelope::seal(&type_meta, &message);
    assert_eq!(sealed.len(), envelope::length(&type_meta, message.len()));
    let opened = envelope::open(&sealed).unwrap();
    assert_eq!((&opened.type_meta, opened.message), (&type_meta, &message[..]));
    for (bytes, expected) in [
        (&b""[..], "empty data"),
        (b"k8s\0", "empty body"),
        (
            b"{}",
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ),
        (b"k8s\0\x0a\x05", "unexpected EOF"),
    ] {
        assert_eq!(envelope::open(bytes).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_frame_is_returned_once_it_is_complete() {
    let type_meta = TypeMeta::new("v1", "ConfigMap");
    let message = entry("a", "1");
    let mut stream = Vec::new();
    frame::write("ADDED", &type_meta, &message, &mut stream);
    assert_eq!(stream.len(), frame::length("ADDED", &type_meta, &message));
    frame::write("DELETED", &type_meta, &message, &mut stream);
    let (first, rest) = frame::split(&stream).unwrap();
    assert_eq!(
        frame::open(first),
        Ok(("ADDED".to_string(), &envelope::seal(&type_meta, &message)[..]))
    );
    assert_eq!(frame::split(&rest[..rest.len() - 1]), None);
    let (second, rest) = frame::split(rest).unwrap();
    assert_eq!(frame::open(second).unwrap().0, "DELETED");
    assert!(rest.is_empty());
}

#[test]
fn a_list_is_put_together_from_messages() {
    let items = [entry("a", "1"), entry("b", "2")];
    let metadata = encode(
        shape("v1", "ConfigMapList").at(&["metadata"]).unwrap(),
        &list_meta(),
    );
    let type_meta = TypeMeta::new("v1", "ConfigMapList");
    let list = list::write(&type_meta, &metadata, &items);
    let (given, tree) = decode(&list, shape("v1", "ConfigMapList")).unwrap();
    assert_eq!(given, type_meta);
    assert_eq!(
        String::from_utf8(json::write(&tree)).unwrap(),
        r#"{"metadata":{"resourceVersion":"7"},"items":[{"data":{"a":"1"}},{"data":{"b":"2"}}]}"#
    );
}

fn list_meta() -> Tree {
    json::parse(br#"{"resourceVersion":"7"}"#).unwrap()
}

#[test]
fn partial_metadata_is_the_start_of_the_message() {
    let tree = json::parse(br#"{"metadata":{"name":"web","labels":{"a":"b"}},"data":{"a":"1"}}"#).unwrap();
    let message = encode(config_map(), &tree);
    let partial = shape("meta.k8s.io/v1", "PartialObjectMetadata");
    assert_eq!(
        list::partial_metadata(&message),
        Some(&encode(partial, &tree)[..])
    );
    assert_eq!(list::partial_metadata(&entry("a", "1")), None);
    assert_eq!(list::partial_metadata(&[]), None);
}

#[test]
fn a_kind_without_field_numbers_has_no_protobuf_form() {
    let custom = Shape::new("example.com.v1.Widget", true, Vec::new());
    assert!(!has_protobuf_form(&custom));
    check(&custom, b"", "kind Widget has no protobuf form");
}
