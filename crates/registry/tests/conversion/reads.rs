//! Gets and lists.

use serde_json::json;

use setpoint_api::options::ListOptions;

use crate::fixture::{Behavior, Widgets, crd, each, specs};

#[tokio::test]
async fn an_object_is_read_in_every_version() {
    let widgets = Widgets::start().await;
    let created = widgets.create("v2", "a", json!({"host": "h", "port": "1"})).await;
    assert_eq!(
        created.unwrap()["spec"],
        json!({"host": "h", "port": "1", "size": "v2"})
    );
    assert!(widgets.webhook.take_reviews().is_empty());
    let read = widgets.get("v1", "a").await.unwrap();
    assert_eq!(
        (&read["apiVersion"], &read["spec"]),
        (&json!("example.com/v1"), &json!({"address": "h:1", "size": "v2"}))
    );
    assert_eq!(widgets.webhook.take_reviews(), ["v1: a"]);
}

#[tokio::test]
async fn a_review_has_the_object_as_kubernetes_sends_it() {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    widgets.get("v1", "a").await.unwrap();
    let review = widgets.webhook.last_body();
    assert_eq!(
        (&review["apiVersion"], &review["kind"]),
        (&json!("apiextensions.k8s.io/v1"), &json!("ConversionReview"))
    );
    let object = &review["request"]["objects"][0];
    assert_eq!(object["apiVersion"], "example.com/v2");
    assert!(object["metadata"].get("resourceVersion").is_none());
    assert!(object["metadata"].get("managedFields").is_some());
}

#[tokio::test]
async fn an_object_that_has_not_changed_is_converted_once() {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    for _ in 0..3 {
        widgets.get("v1", "a").await.unwrap();
        widgets.list("v1", ListOptions::default()).await.unwrap();
    }
    assert_eq!(widgets.webhook.take_reviews(), ["v1: a"]);
}

#[tokio::test]
async fn an_object_is_converted_again_if_its_crd_changes() {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    widgets.get("v1", "a").await.unwrap();
    widgets.store_as("v1").await;
    widgets.get("v1", "a").await.unwrap();
    assert_eq!(widgets.webhook.take_reviews(), ["v1: a", "v1: a"]);
}

#[tokio::test]
async fn the_objects_of_a_list_are_converted_in_one_review() {
    let widgets = Widgets::start().await;
    for name in ["a", "b", "c"] {
        let spec = json!({"host": name, "port": "1"});
        widgets.create("v2", name, spec).await.unwrap();
    }
    let list = widgets.list("v1", ListOptions::default()).await.unwrap();
    assert_eq!(
        specs(&list),
        [
            r#"a {"address":"a:1","size":"v2"}"#,
            r#"b {"address":"b:1","size":"v2"}"#,
            r#"c {"address":"c:1","size":"v2"}"#,
        ]
    );
    assert_eq!(widgets.webhook.take_reviews(), ["v1: a b c"]);
}

#[tokio::test]
async fn a_long_list_is_converted_in_several_reviews() {
    let widgets = Widgets::start().await;
    for index in 0..1100 {
        let spec = json!({"host": "h", "port": "1"});
        widgets.create("v2", &format!("w{index:04}"), spec).await.unwrap();
    }
    let list = widgets.list("v1", ListOptions::default()).await.unwrap();
    assert_eq!(list.items.len(), 1100);
    assert!(specs(&list).is_sorted());
    let reviews = widgets.webhook.take_reviews();
    let mut sizes: Vec<usize> = reviews
        .iter()
        .map(|review| review.matches(" w").count())
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [100, 500, 500]);
}

/// Names, continue token, and remaining items of a list in `v1`.
async fn page(widgets: &Widgets, options: ListOptions) -> (Vec<String>, Option<String>, Option<u64>) {
    let list = widgets.list("v1", options).await.unwrap();
    let names = list.items.iter().map(|object| object.key().name().to_owned());
    (names.collect(), list.continue_token, list.remaining_item_count)
}

#[tokio::test]
async fn a_page_converts_only_its_own_objects() {
    let widgets = Widgets::start().await;
    for name in ["a", "b", "c"] {
        let spec = json!({"host": name, "port": "1"});
        widgets.create("v2", name, spec).await.unwrap();
    }
    let first = ListOptions {
        limit: Some(2),
        ..ListOptions::default()
    };
    let (names, token, remaining) = page(&widgets, first).await;
    assert_eq!(
        (names.as_slice(), remaining),
        (["a", "b"].map(str::to_owned).as_slice(), Some(1))
    );
    assert_eq!(widgets.webhook.take_reviews(), ["v1: a b"]);
    let second = ListOptions {
        continue_token: token,
        ..ListOptions::default()
    };
    let (names, token, _) = page(&widgets, second).await;
    assert_eq!((names.as_slice(), token), (["c".to_owned()].as_slice(), None));
}

#[tokio::test]
async fn field_selectors_are_those_of_the_requested_version() {
    let widgets = Widgets::start().await;
    for (name, port) in [("a", "1"), ("b", "2"), ("c", "1")] {
        let spec = json!({"host": "h", "port": port});
        widgets.create("v2", name, spec).await.unwrap();
    }
    let selected = |field: &str| ListOptions {
        fields: field.parse().unwrap(),
        ..ListOptions::default()
    };
    let (names, ..) = page(&widgets, selected("spec.address=h:1")).await;
    assert_eq!(names, ["a", "c"]);
    let limited = ListOptions {
        limit: Some(1),
        ..selected("spec.address=h:1")
    };
    let (names, token, remaining) = page(&widgets, limited).await;
    assert_eq!((names.as_slice(), remaining), (["a".to_owned()].as_slice(), None));
    let rest = ListOptions {
        continue_token: token,
        ..selected("spec.address=h:1")
    };
    assert_eq!(page(&widgets, rest).await.0, ["c"]);
    let unknown = widgets.list("v1", selected("spec.host=h")).await.unwrap_err();
    assert_eq!(unknown.message, "field label not supported: spec.host");
    widgets.webhook.take_reviews();
    assert_eq!(page(&widgets, selected("metadata.name=b")).await.0, ["b"]);
}

#[tokio::test]
async fn label_selectors_apply_to_the_labels_that_the_webhook_returns() {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    widgets.webhook.set(Behavior::Change(|response| {
        each(response, |object| {
            object["metadata"]["labels"] = json!({"version": "v1"})
        });
    }));
    let selected = || ListOptions {
        labels: "version=v1".parse().unwrap(),
        ..ListOptions::default()
    };
    assert_eq!(page(&widgets, selected()).await.0, ["a"]);
    assert!(widgets.list("v2", selected()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_webhook_changes_no_metadata_but_labels_and_annotations() {
    let widgets = Widgets::start().await;
    let created = widgets.create("v2", "a", json!({"host": "h", "port": "1"})).await;
    let created = created.unwrap();
    widgets.webhook.set(Behavior::Change(|response| {
        each(response, |object| {
            object["metadata"]["labels"] = json!({"l": "1"});
            object["metadata"]["annotations"] = json!({"a": "2"});
            object["metadata"]["generation"] = json!(99);
            object["metadata"]["resourceVersion"] = json!("99");
            object["metadata"]["finalizers"] = json!(["example.com/f"]);
            object["spec"]["unknown"] = json!("dropped");
        });
    }));
    let read = widgets.get("v1", "a").await.unwrap();
    let mut expected = created["metadata"].clone();
    expected["labels"] = json!({"l": "1"});
    expected["annotations"] = json!({"a": "2"});
    assert_eq!(read["metadata"], expected);
    assert_eq!(read["spec"], json!({"address": "h:1", "size": "v2"}));
}

#[tokio::test]
async fn a_review_version_of_the_webhook_is_used() {
    let mut crd = crd("v2");
    crd["spec"]["conversion"]["webhook"]["conversionReviewVersions"] = json!(["v3", "v1beta1", "v1"]);
    let widgets = Widgets::of(crd).await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    widgets.webhook.set(Behavior::Change(|response| {
        response["response"]["uid"] = json!("not checked in this version");
    }));
    assert_eq!(widgets.spec("v1", "a").await["address"], "h:1");
    assert_eq!(
        widgets.webhook.last_body()["apiVersion"],
        "apiextensions.k8s.io/v1beta1"
    );
}
