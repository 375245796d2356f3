//! Responses in protobuf, decoded by the codec.

use futures_util::FutureExt;
use futures_util::future::poll_fn;
use http_body::Body as _;
use setpoint_api::{ResourceVersion, Status};
use setpoint_schema::Tree;

use super::*;
use crate::negotiate::Format;
use crate::respond::tests::{kind, render_options as json_options, stored};

const METADATA: Representation = Representation::Metadata("meta.k8s.io/v1");
const METADATA_LIST: Representation = Representation::MetadataList("meta.k8s.io/v1");

fn render_options(representation: Representation) -> RenderOptions {
    RenderOptions {
        format: Format::Protobuf,
        ..json_options(representation)
    }
}

/// An envelope as its kind and the JSON of its message.
fn opened(bytes: &[u8]) -> (String, String) {
    let type_meta = envelope::open(bytes).unwrap().type_meta;
    let TypeMeta { api_version, kind } = &type_meta;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let shape = Pack::builtin().shape_of(group, version, kind).unwrap();
    let (_, tree) = protobuf::decode(bytes, shape).unwrap();
    (format!("{api_version} {kind}"), json(&tree))
}

fn json(tree: &Tree) -> String {
    String::from_utf8(setpoint_codec::json::write(tree)).unwrap()
}

#[track_caller]
fn check(bytes: &[u8], expected: (&str, &str)) {
    let (kind, json) = opened(bytes);
    assert_eq!((kind.as_str(), json.as_str()), expected);
}

fn list_of(items: Vec<std::sync::Arc<Stored>>) -> List {
    List {
        items,
        resource_version: ResourceVersion(9),
        continue_token: Some("more".to_owned()),
        remaining_item_count: Some(3),
    }
}

/// All frames of a body.
fn frames(mut body: Body) -> Vec<Bytes> {
    let mut frames = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context))
        .now_or_never()
        .expect("a list is never waited for")
    {
        frames.push(frame.unwrap().into_data().unwrap());
    }
    frames
}

#[test]
fn an_object_is_sealed_with_its_kind() {
    let expected = r#"{"metadata":{"name":"m","namespace":"a","resourceVersion":"7"},"data":{"k":"x"}}"#;
    check(
        &object(&render_options(Representation::Plain), &stored("m", 1)),
        ("v1 ConfigMap", expected),
    );
}

#[test]
fn bare_metadata_is_sealed_as_such() {
    let expected = r#"{"metadata":{"name":"m","namespace":"a","resourceVersion":"7"}}"#;
    check(
        &object(&render_options(METADATA), &stored("m", 1)),
        ("meta.k8s.io/v1 PartialObjectMetadata", expected),
    );
}

#[test]
fn the_message_of_an_object_is_encoded_once() {
    let stored = stored("m", 1);
    let first = message(&render_options(Representation::Plain), &stored);
    assert_eq!(
        first.as_ptr(),
        message(&render_options(Representation::Plain), &stored).as_ptr()
    );
    assert_eq!(
        first.as_ptr(),
        message(&render_options(METADATA), &stored).as_ptr(),
        "metadata is a part of the message"
    );
}

#[test]
fn a_short_list_is_one_frame_of_known_length() {
    let body = list(
        &render_options(Representation::Plain),
        &list_of(vec![stored("m", 1), stored("n", 0)]),
    );
    let length = body.size_hint().exact().unwrap();
    let frames = frames(body);
    assert_eq!((frames.len(), frames[0].len() as u64), (1, length));
    check(
        &frames[0],
        (
            "v1 ConfigMapList",
            concat!(
                r#"{"metadata":{"resourceVersion":"9","continue":"more","remainingItemCount":3},"items":["#,
                r#"{"metadata":{"name":"m","namespace":"a","resourceVersion":"7"},"data":{"k":"x"}},"#,
                r#"{"metadata":{"name":"n","namespace":"a","resourceVersion":"7"},"data":{"k":""}}]}"#
            ),
        ),
    );
}

#[test]
fn a_long_list_comes_in_frames_and_decodes_as_one_list() {
    let items: Vec<_> = (0..200).map(|at| stored(&format!("m{at}"), 1000)).collect();
    let frames = frames(list(&render_options(Representation::Plain), &list_of(items)));
    assert!(frames.len() > 2, "{}", frames.len());
    let whole = frames.concat();
    let shape = Pack::builtin().shape_of("", "v1", "ConfigMapList").unwrap();
    let (_, tree) = protobuf::decode(&whole, shape).unwrap();
    let items = tree.at(&["items"]).unwrap().as_list().unwrap();
    assert_eq!(items.len(), 200);
    assert_eq!(items[199].str_at(&["metadata", "name"]), Some("m199"));
    let length = envelope::open(&whole).unwrap().message.len();
    let type_meta = TypeMeta::new("v1", "ConfigMapList");
    assert_eq!(envelope::length(&type_meta, length), whole.len());
}

#[test]
fn a_list_of_metadata_has_only_metadata() {
    let frames = frames(list(
        &render_options(METADATA_LIST),
        &list_of(vec![stored("m", 1)]),
    ));
    let (kind, json) = opened(&frames[0]);
    assert_eq!(kind, "meta.k8s.io/v1 PartialObjectMetadataList");
    assert!(
        json.contains(r#""name":"m""#) && !json.contains("data\":{\"k"),
        "{json}"
    );
}

/// Its field numbers differ from those of all other lists.
#[test]
fn the_older_list_of_metadata_is_written_by_its_own_shape() {
    let representation = Representation::MetadataList("meta.k8s.io/v1beta1");
    let negotiated = crate::negotiate::Negotiated {
        format: Format::Protobuf,
        representation,
        pretty: false,
    };
    let response = crate::respond::list(
        negotiated,
        render_options(representation),
        list_of(vec![stored("m", 1)]),
    );
    let (kind, json) = opened(&frames(response.into_body())[0]);
    assert_eq!(kind, "meta.k8s.io/v1beta1 PartialObjectMetadataList");
    assert!(
        json.contains(r#""resourceVersion":"9""#) && json.contains(r#""name":"m""#),
        "{json}"
    );
}

#[test]
fn a_status_is_sealed() {
    let status = Status::not_found(&kind().info().gvr.group_resource(), "x");
    let sealed = seal_json(&status.to_json()).unwrap();
    let (kind, json) = opened(&sealed);
    assert_eq!(kind, "v1 Status");
    assert!(
        json.contains(r#""message":"configmaps \"x\" not found""#) && json.contains(r#""code":404"#),
        "{json}"
    );
}

#[test]
fn a_kind_without_protobuf_stays_json() {
    assert_eq!(
        seal_json(br#"{"kind":"Widget","apiVersion":"example.com/v1"}"#),
        None
    );
    assert_eq!(seal_json(b"{}"), None);
    assert_eq!(seal_json(b"no json"), None);
}
