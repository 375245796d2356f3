//! Objects, lists and errors as bytes.

use std::sync::Arc;

use jiff::Timestamp;
use setpoint_api::{Gvr, Header, Key, ResourceVersion};
use setpoint_strategy::Kind;

use super::*;
use crate::table::IncludeObject;

pub(crate) fn kind() -> Arc<dyn Kind> {
    setpoint_kinds::builtin()
        .find(&Gvr::new("", "v1", "configmaps"))
        .unwrap()
        .clone()
}

/// A stored map with this name and so many bytes of data.
pub(crate) fn stored(name: &str, bytes: usize) -> Arc<Stored> {
    let head = r#"{"kind":"ConfigMap","apiVersion":"v1","#;
    let data = "x".repeat(bytes);
    let json = format!(
        r#"{head}"metadata":{{"name":"{name}","namespace":"a","resourceVersion":"7"}},"data":{{"k":"{data}"}}}}"#
    );
    let header = Header {
        resource_version: ResourceVersion(7),
        ..Header::new(Key::new("a", name))
    };
    Arc::new(Stored::new(
        header,
        json.into(),
        u32::try_from(head.len()).unwrap(),
    ))
}

pub(crate) fn render_options(representation: Representation) -> RenderOptions {
    RenderOptions {
        format: Format::Json,
        representation,
        kind: kind(),
        include_object: IncludeObject::Metadata,
        now: Timestamp::UNIX_EPOCH,
    }
}

fn list_of(items: Vec<Arc<Stored>>) -> List {
    List {
        items,
        resource_version: ResourceVersion(9),
        ..List::default()
    }
}

fn text(body: Body) -> String {
    let bytes = match body {
        Body::Whole(bytes) => bytes,
        Body::List(items) => items.into_bytes().into(),
        other => panic!("{other:?} has no text"),
    };
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn check_list(representation: Representation, items: Vec<Arc<Stored>>, expected: &str) {
    let response = list(Negotiated::JSON, render_options(representation), list_of(items));
    assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
    assert_eq!(text(response.into_body()), format!("{expected}\n"));
}

#[test]
fn an_object_is_sent_as_it_is_stored() {
    let response = object(
        Negotiated::JSON,
        &render_options(Representation::Plain),
        &stored("m", 1),
    );
    assert_eq!(
        text(response.into_body()),
        "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"m\",\"namespace\":\"a\",\"resourceVersion\":\"7\"},\"data\":{\"k\":\"x\"}}\n"
    );
}

#[test]
fn items_of_a_list_have_no_kind() {
    check_list(
        Representation::Plain,
        vec![stored("m", 1), stored("n", 0)],
        r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"m","namespace":"a","resourceVersion":"7"},"data":{"k":"x"}},{"metadata":{"name":"n","namespace":"a","resourceVersion":"7"},"data":{"k":""}}]}"#,
    );
}

#[test]
fn an_empty_list_has_no_items_but_a_version() {
    check_list(
        Representation::Plain,
        vec![],
        r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[]}"#,
    );
    check_list(
        Representation::MetadataList("meta.k8s.io/v1"),
        vec![],
        r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},"items":null}"#,
    );
}

#[test]
fn a_list_of_metadata_has_only_metadata() {
    check_list(
        Representation::MetadataList("meta.k8s.io/v1"),
        vec![stored("m", 1)],
        r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},"items":[{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"m","namespace":"a","resourceVersion":"7"}}]}"#,
    );
}

#[test]
fn a_table_has_columns_and_a_row_for_each_object() {
    let response = list(
        Negotiated::JSON,
        render_options(Representation::Table("meta.k8s.io/v1")),
        list_of(vec![stored("m", 1)]),
    );
    let table: Value = serde_json::from_str(&text(response.into_body())).unwrap();
    let columns: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(columns, ["Name", "Data", "Age"]);
    assert_eq!(table["rows"][0]["cells"][0], "m");
    assert_eq!(table["rows"][0]["cells"][1], 1);
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(table["metadata"]["resourceVersion"], "9");
}

#[test]
fn a_page_has_a_continue_token() {
    let page = List {
        continue_token: Some("t\"k".to_owned()),
        remaining_item_count: Some(4),
        ..list_of(vec![])
    };
    assert_eq!(
        list_metadata(&page),
        r#"{"resourceVersion":"9","continue":"t\"k","remainingItemCount":4}"#
    );
}

#[test]
fn a_long_list_comes_in_frames_and_loses_nothing() {
    let items: Vec<Arc<Stored>> = (0..300).map(|n| stored(&format!("m{n:03}"), 1000)).collect();
    let body = ListBody::new(render_options(Representation::Plain), list_of(items)).into_body();
    let Body::List(mut frames) = body else {
        panic!("{body:?} is whole")
    };
    let mut all = Vec::new();
    while let Some(frame) = frames.next_frame() {
        assert!(frame.len() <= FRAME_BYTES + 2000, "{}", frame.len());
        all.extend_from_slice(&frame);
    }
    let list: Value = serde_json::from_slice(&all).unwrap();
    let names: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 300);
    assert_eq!((names[0], names[299]), ("m000", "m299"));
}

#[test]
fn an_object_bigger_than_a_frame_is_a_frame() {
    let items = vec![stored("a", 10), stored("b", 2 * FRAME_BYTES), stored("c", 10)];
    let body = ListBody::new(render_options(Representation::Plain), list_of(items)).into_body();
    let list: Value = serde_json::from_str(&text(body)).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
}

#[test]
fn yaml_and_indented_json_are_written_on_request() {
    let render = render_options(Representation::Plain);
    let yaml = object(
        Negotiated {
            format: Format::Yaml,
            ..Negotiated::JSON
        },
        &render,
        &stored("m", 1),
    );
    assert_eq!(yaml.headers()[CONTENT_TYPE], "application/yaml");
    assert!(
        text(yaml.into_body()).starts_with("apiVersion: v1\ndata:\n  k: x\nkind: ConfigMap\nmetadata:\n")
    );
    let pretty = object(
        Negotiated {
            pretty: true,
            ..Negotiated::JSON
        },
        &render,
        &stored("m", 1),
    );
    assert!(text(pretty.into_body()).starts_with("{\n  \"kind\": \"ConfigMap\",\n"));
}

#[test]
fn code_200_is_left_out_of_a_success() {
    let response = success(Negotiated::JSON, &Status::ok());
    assert_eq!(response.status(), 200);
    let expected = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Success\"}\n";
    assert_eq!(text(response.into_body()), expected);
}

#[test]
fn an_error_has_a_retry_after_header() {
    let response = error(Negotiated::JSON, &Status::too_many_requests(5));
    assert_eq!(
        (response.status().as_u16(), &response.headers()[RETRY_AFTER]),
        (429, &HeaderValue::from(5))
    );
}

#[track_caller]
fn check_warnings(warnings: &[&str], expected: &[&str]) {
    let mut response = Response::new(Body::Empty);
    let warnings: Vec<String> = warnings.iter().map(|text| (*text).to_owned()).collect();
    add_warnings(&mut response, &warnings);
    let values: Vec<&str> = response
        .headers()
        .get_all(WARNING)
        .iter()
        .map(|value| value.to_str().unwrap())
        .collect();
    assert_eq!(values, expected);
}

#[test]
fn warnings_are_headers() {
    check_warnings(
        &[r#"unknown field "x""#, "b"],
        &[r#"299 - "unknown field \"x\"""#, r#"299 - "b""#],
    );
    check_warnings(&["two\nlines"], &[r#"299 - "two lines""#]);
    check_warnings(&["a", "b", "a"], &[r#"299 - "a""#, r#"299 - "b""#]);
}

#[test]
fn too_long_warnings_are_truncated() {
    let long = "x".repeat(3000);
    let cut = format!("299 - \"{}\"", "x".repeat(256));
    check_warnings(&[&long, &format!("{long}y")], &[&cut, &cut]);
}
