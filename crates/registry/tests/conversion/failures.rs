//! Webhooks that fail, or that return what they may not.

use serde_json::{Value, json};

use setpoint_api::options::{DeleteOptions, ListOptions, PatchType};
use setpoint_api::{Status, Verb};

use crate::fixture::{Behavior, CRDS, Widgets, each, one};

const UNREACHABLE: &str = "Kind=Widget failed: connection refused";

/// The message of a get in `v1`, without the part about the store.
#[track_caller]
fn conversion_error(status: &Status) -> &str {
    assert_eq!((status.code, status.reason.as_str()), (500, "InternalError"));
    let (head, message) = status.message.split_once(": conversion webhook for ").unwrap_or((
        "",
        status
            .message
            .rsplit_once("revision=")
            .map_or("", |(_, rest)| rest.split_once(": ").unwrap().1),
    ));
    let expected = "Internal error occurred: StorageError: corrupt object, Code: 7, Key: /example.com/widgets/default/a, ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision=";
    assert!(
        head.is_empty() || head.starts_with(expected),
        "{}",
        status.message
    );
    message
}

async fn check(change: fn(&mut Value), expected: &str) {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    widgets.webhook.set(Behavior::Change(change));
    let failed = widgets.get("v1", "a").await.unwrap_err();
    assert_eq!(conversion_error(&failed), expected);
}

#[tokio::test]
async fn a_converted_object_is_the_same_object() {
    check(
        |response| each(response, |object| object["metadata"]["name"] = json!("b")),
        "example.com/v2, Kind=Widget returned invalid object: must have the same name: a != b",
    )
    .await;
    check(
        |response| each(response, |object| object["metadata"]["namespace"] = json!("b")),
        "example.com/v2, Kind=Widget returned invalid object: must have the same namespace: default != b",
    )
    .await;
    check(
        |response| each(response, |object| object["kind"] = json!("Gadget")),
        "example.com/v2, Kind=Widget returned invalid object at index 0: invalid kind (expected Widget, received Gadget)",
    )
    .await;
    check(
        |response| each(response, |object| object["apiVersion"] = json!("example.com/v9")),
        "example.com/v2, Kind=Widget returned invalid object at index 0: invalid groupVersion (expected example.com/v1, received example.com/v9)",
    )
    .await;
    check(
        |response| each(response, |object| object["metadata"]["labels"] = json!({"a": 1})),
        "example.com/v2, Kind=Widget returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
    )
    .await;
    check(
        |response| each(response, |object| *object = Value::Null),
        "unexpected end of JSON input",
    )
    .await;
}

#[tokio::test]
async fn a_response_has_all_objects_and_a_success() {
    check(
        |response| response["response"]["convertedObjects"] = json!([]),
        "example.com/v2, Kind=Widget returned 0 objects, expected 1",
    )
    .await;
    check(
        |response| response["response"]["result"] = json!({"status": "Failure", "message": "no"}),
        "example.com/v2, Kind=Widget failed: no",
    )
    .await;
    check(
        |response| *response = json!("hello"),
        r#"example.com/v2, Kind=Widget failed: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#,
    )
    .await;
}

#[tokio::test]
async fn a_list_names_the_objects_that_cannot_be_converted() {
    let widgets = Widgets::start().await;
    for name in ["a", "b", "c"] {
        widgets
            .create("v2", name, json!({"host": "h", "port": "1"}))
            .await
            .unwrap();
    }
    widgets.webhook.set(Behavior::Change(|response| {
        each(response, |object| {
            if object["metadata"]["name"] != "b" {
                object["kind"] = json!("Gadget");
            }
        });
    }));
    let failed = widgets.list("v1", ListOptions::default()).await.unwrap_err();
    assert_eq!((failed.code, failed.reason.as_str()), (500, "StorageReadError"));
    let start = "failed to read one or more widgets.example.com from the storage: StorageError: corrupt object, Code: 7, Key: /registry/example.com/widgets/default/a, ";
    assert!(failed.message.starts_with(start), "{}", failed.message);
    assert!(failed.message.ends_with(" (and 1 more)"), "{}", failed.message);
    let causes = failed.details.unwrap().causes;
    let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
    let prefix = "/registry/example.com/widgets/default/";
    assert_eq!(fields, [format!("{prefix}a"), format!("{prefix}c")]);
    widgets.webhook.set(Behavior::Unreachable);
    assert!(widgets.list("v2", ListOptions::default()).await.is_ok());
    assert!(widgets.get("v1", "b").await.is_ok(), "it was converted before");
}

#[tokio::test]
async fn every_write_in_another_version_fails_without_the_webhook() {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    widgets.webhook.set(Behavior::Unreachable);
    let created = widgets
        .create("v1", "b", json!({"address": "h:1"}))
        .await
        .unwrap_err();
    assert_eq!(
        created.message,
        format!("conversion webhook for example.com/v1, {UNREACHABLE}")
    );
    let patch = json!({"spec": {"address": "h:2"}});
    let patched = widgets
        .patch(one("v1", "a"), PatchType::Merge, patch)
        .await
        .unwrap_err();
    assert!(
        patched.message.starts_with("object not decodable revision="),
        "{}",
        patched.message
    );
    let deleted = widgets
        .call(one("v1", "a"), Verb::Delete(DeleteOptions::default()))
        .await;
    assert_eq!(
        conversion_error(&deleted.unwrap_err()),
        format!("example.com/v2, {UNREACHABLE}")
    );
    let scale = Verb::Get(setpoint_api::options::GetOptions::default());
    let scale = widgets.call(one("v1", "a").subresource("scale"), scale).await;
    assert_eq!(
        conversion_error(&scale.unwrap_err()),
        format!("example.com/v2, {UNREACHABLE}")
    );
    let invalid = widgets
        .create("v1", "b", json!({"address": 1}))
        .await
        .unwrap_err();
    assert!(
        invalid.is_invalid(),
        "the schema comes first: {}",
        invalid.message
    );
    assert_eq!(
        widgets.spec("v2", "a").await,
        json!({"host": "h", "port": "1", "size": "v2"})
    );
    assert!(widgets.get("v1", "b").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_webhook_that_hangs_holds_up_no_other_request() {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    widgets.webhook.set(Behavior::Hang);
    tokio::select! {
        biased;
        _ = widgets.get("v1", "a") => panic!("the webhook never responds"),
        stored = widgets.get("v2", "a") => assert!(stored.is_ok()),
    }
    widgets.webhook.set(Behavior::Convert);
    assert!(
        widgets.get("v1", "a").await.is_ok(),
        "the review that was given up is sent again"
    );
}

/// Deletes the CRD and waits until it is gone.
async fn delete_crd(widgets: &Widgets) {
    let cluster = &widgets.cluster;
    let options = DeleteOptions::default();
    cluster
        .delete(CRDS, "widgets.example.com", options)
        .await
        .unwrap();
    for _ in 0..1000 {
        if cluster.get(CRDS, "widgets.example.com").await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the CRD is never deleted");
}

#[tokio::test]
async fn a_crd_is_deleted_with_its_objects_without_the_webhook() {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    widgets.webhook.set(Behavior::Hang);
    delete_crd(&widgets).await;
}

#[tokio::test]
async fn objects_in_an_old_storage_version_are_deleted_with_their_crd_without_the_webhook() {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    widgets.store_as("v1").await;
    widgets.webhook.set(Behavior::Hang);
    delete_crd(&widgets).await;
}

#[tokio::test]
async fn conversions_are_counted_by_crd_and_by_result() {
    use setpoint_values::metrics::{MetricsSource, TextEncoder};
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    widgets.webhook.set(Behavior::Unreachable);
    widgets.get("v1", "a").await.unwrap_err();
    widgets.webhook.set(Behavior::Convert);
    widgets.get("v1", "a").await.unwrap();
    let mut text = TextEncoder::default();
    widgets.cluster.registry.write(&mut text);
    let text = text.into_string();
    for line in [
        r#"apiserver_crd_conversion_webhook_duration_seconds_count{crd_name="widgets.example.com",from_version="v2",succeeded="true",to_version="v1"} 1"#,
        r#"apiserver_conversion_webhook_request_total{failure_type="",result="success"} 1"#,
        r#"apiserver_conversion_webhook_request_total{failure_type="conversion_webhook_call_failure",result="failure"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is missing");
    }
}
