//! The messages of strict decoding, which are kube-apiserver's. All recorded responses are replayed in
//! `tests/transcripts.rs`; here is each form once.

use setpoint_api::call::Encoding;
use setpoint_schema::Pack;

use super::*;
use crate::protobuf::encode;

fn shape(api_version: &str, kind: &str) -> &'static Shape {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Pack::builtin().shape_of(group, version, kind).unwrap()
}

/// Decodes a config map strictly and compares the error's text.
#[track_caller]
fn check_error(encoding: Encoding, body: &str, expected: &str) {
    let error = decode(
        body.as_bytes(),
        encoding,
        shape("v1", "ConfigMap"),
        FieldValidation::Strict,
    )
    .unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn unknown_and_duplicate_fields_are_named_in_text_order() {
    let head = r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: "#;
    check_error(
        Encoding::Json,
        r#"{"foo":1,"data":{"a":"1","a":"2","a":"3"},"foo":2,"metadata":{"x":{"y":1}}}"#,
        &format!(r#"{head}unknown field "foo", duplicate field "data.a", unknown field "metadata.x""#),
    );
    check_error(
        Encoding::Yaml,
        "data:\n  a: '1'\n  a: '2'\nbogus: 1\ndata:\n  b: '1'\n",
        &format!(
            "{head}yaml: unmarshal errors:\n  line 3: key \"a\" already set in map\n  line 6: key \"data\" already set \
             in map, unknown field \"bogus\""
        ),
    );
}

#[test]
fn warn_lists_each_field_and_ignore_lists_none() {
    let body = b"data:\n  a: '1'\n  a: '2'\nbogus: 1\n";
    let warned = decode(
        body,
        Encoding::Yaml,
        shape("v1", "ConfigMap"),
        FieldValidation::Warn,
    )
    .unwrap();
    assert_eq!(
        warned.warnings,
        [
            r#"line 3: key "a" already set in map"#,
            r#"unknown field "bogus""#
        ]
    );
    let ignored = decode(
        body,
        Encoding::Yaml,
        shape("v1", "ConfigMap"),
        FieldValidation::Ignore,
    )
    .unwrap();
    assert!(ignored.warnings.is_empty());
    assert_eq!(ignored.tree, warned.tree);
    assert_eq!(ignored.tree.str_at(&["data", "a"]), Some("2"));
    assert!(ignored.tree.get("bogus").is_none());
}

#[test]
fn at_most_a_hundred_problems_are_named() {
    let fields: Vec<String> = (0..150).map(|at| format!("\"f{at}\":1")).collect();
    let body = format!("{{{}}}", fields.join(","));
    let decoded = decode(
        body.as_bytes(),
        Encoding::Json,
        shape("v1", "ConfigMap"),
        FieldValidation::Warn,
    )
    .unwrap();
    assert_eq!(decoded.warnings.len(), 100);
    assert!(decoded.tree.get("f149").is_none());
}

#[test]
fn a_body_without_kind_gets_it_from_the_shape() {
    let decoded = decode(
        b"{}",
        Encoding::Json,
        shape("apps/v1", "Deployment"),
        FieldValidation::Strict,
    )
    .unwrap();
    assert_eq!(decoded.tree.str_at(&["apiVersion"]), Some("apps/v1"));
    assert_eq!(decoded.tree.str_at(&["kind"]), Some("Deployment"));
}

#[test]
fn another_version_of_the_kind_is_named() {
    let body = br#"{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler"}"#;
    let expected = shape("autoscaling/v2", "HorizontalPodAutoscaler");
    let error = decode(body, Encoding::Json, expected, FieldValidation::Warn).unwrap_err();
    let text = "the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)";
    assert_eq!(error.to_string(), text);
}

#[test]
fn options_are_taken_from_any_group() {
    let options = shape("v1", "DeleteOptions");
    for body in [
        r#"{"apiVersion":"apps/v1","kind":"DeleteOptions"}"#,
        r#"{"kind":"DeleteOptions"}"#,
        "{}",
    ] {
        decode(body.as_bytes(), Encoding::Json, options, FieldValidation::Strict).unwrap();
    }
    assert!(
        decode(
            br#"{"kind":"DeleteOptions","apiVersion":"no/v1"}"#,
            Encoding::Json,
            options,
            FieldValidation::Warn
        )
        .is_err()
    );
}

#[test]
fn a_kind_of_the_wrong_type_is_unrecognized() {
    check_error(
        Encoding::Json,
        r#"{"kind":5}"#,
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: \
         json: cannot unmarshal number into Go struct field .kind of type string ({\"kind\":5})",
    );
}

#[test]
fn a_tree_can_be_checked_against_its_shape_without_bytes() {
    let tree = json::parse(br#"{"bogus":1,"data":{"a":"1"}}"#).unwrap();
    let error = conform_tree(tree, shape("v1", "ConfigMap"), FieldValidation::Strict).unwrap_err();
    assert_eq!(error.cause(), r#"strict decoding error: unknown field "bogus""#);
}

/// Decodes a protobuf body strictly as a config map and compares the error's text.
#[track_caller]
fn protobuf_error(body: &[u8], expected: &str) {
    let shape = shape("v1", "ConfigMap");
    let error = decode(body, Encoding::Protobuf, shape, FieldValidation::Strict).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

fn sealed(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    envelope::seal(&TypeMeta::new(api_version, kind), message)
}

#[test]
fn a_protobuf_body_of_another_kind_is_rejected_as_json_is() {
    let json = |api_version: &str, kind: &str| {
        let body = format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}"}}"#);
        let shape = shape("v1", "ConfigMap");
        decode(body.as_bytes(), Encoding::Json, shape, FieldValidation::Strict)
            .unwrap_err()
            .to_string()
    };
    for (api_version, kind) in [("v1", "Pod"), ("v2", "ConfigMap"), ("no/v1", "No"), ("v1", "No")] {
        protobuf_error(&sealed(api_version, kind, b"\xff"), &json(api_version, kind));
    }
}

#[test]
fn a_body_that_is_no_protobuf_is_unrecognized() {
    protobuf_error(
        b"",
        "the object provided is unrecognized (must be of type ConfigMap): empty data (<empty>)",
    );
    protobuf_error(
        b"{}",
        "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a \
         protobuf message, expected prefix [107 56 115 0] ({})",
    );
    protobuf_error(
        b"k8s\0\x0a\x09",
        "the object provided is unrecognized (must be of type ConfigMap): unexpected EOF (6b3873000a09)",
    );
}

#[test]
fn a_malformed_protobuf_message_cannot_be_handled() {
    protobuf_error(
        &sealed("v1", "ConfigMap", &[0x12, 9]),
        r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: unexpected EOF"#,
    );
}

#[test]
fn a_protobuf_body_drops_unknown_fields_and_takes_its_kind_from_the_shape() {
    let message = [&[15 << 3, 1][..], b"\x12\x06\x0a\x01a\x12\x011"].concat();
    for body in [sealed("", "", &message), sealed("v1", "ConfigMap", &message)] {
        let decoded = decode(
            &body,
            Encoding::Protobuf,
            shape("v1", "ConfigMap"),
            FieldValidation::Strict,
        )
        .unwrap();
        let text = String::from_utf8(json::write(&decoded.tree)).unwrap();
        assert_eq!(text, r#"{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"1"}}"#);
        assert!(decoded.warnings.is_empty());
    }
}

#[test]
fn an_invalid_protobuf_quantity_is_rejected() {
    let quota = shape("v1", "ResourceQuota");
    let tree = json::parse(br#"{"spec":{"hard":{"cpu":"wrong"}}}"#).unwrap();
    let body = sealed("v1", "ResourceQuota", &encode(quota, &tree));
    let error = decode(&body, Encoding::Protobuf, quota, FieldValidation::Ignore).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ResourceQuota in version \"v1\" cannot be handled as a ResourceQuota: quantities must match the regular \
         expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    );
}

#[test]
fn nesting_beyond_the_limit_is_accepted_only_in_dropped_fields() {
    let deep = format!("{}1{}", "[".repeat(9_000), "]".repeat(9_000));
    let read = |shape: &Shape, field: &str| {
        let body = format!(r#"{{"{field}":{deep}}}"#);
        decode(body.as_bytes(), Encoding::Json, shape, FieldValidation::Warn)
    };
    let decoded = read(shape("v1", "ConfigMap"), "x").unwrap();
    assert_eq!(decoded.warnings, [r#"unknown field "x""#]);
    assert_eq!(decoded.tree.get("x"), None);
    let kept = read(shape("apps/v1", "ControllerRevision"), "data").unwrap_err();
    assert!(kept.to_string().contains("exceeded max depth"), "{kept}");
}
