//! Deletion: at once, after the grace period, or when the finalizers are done.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use cluster::{Cluster, config_map, parse, pod, value};
use serde_json::{Value, json};
use setpoint_api::call::Body;
use setpoint_api::options::{DeleteOptions, DeletionPropagation, ListOptions};
use setpoint_api::{Target, Verb};

fn grace(seconds: i64) -> DeleteOptions {
    DeleteOptions {
        grace_period_seconds: Some(seconds),
        ..DeleteOptions::default()
    }
}

async fn delete(cluster: &Cluster, resource: &str, key: &str, options: DeleteOptions) -> Value {
    match cluster.delete(resource, key, options).await.unwrap() {
        Body::Object(object) => value(&object),
        Body::Status(status) => serde_json::to_value(&*status).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_plain_object_is_deleted_at_once_and_the_response_names_it() {
    let cluster = Cluster::start().await;
    let made = cluster.create(&config_map("a")).await.unwrap();
    let response = delete(&cluster, "configmaps", "default/a", DeleteOptions::default()).await;
    assert_eq!(response["status"], "Success");
    assert_eq!(
        response["details"],
        json!({"name": "a", "kind": "configmaps", "uid": made.uid()})
    );
    let again = cluster
        .delete("configmaps", "default/a", DeleteOptions::default())
        .await;
    assert!(again.unwrap_err().is_not_found());
}

#[tokio::test]
async fn an_unbound_pod_is_deleted_at_once() {
    let cluster = Cluster::start().await;
    cluster.create(&pod("a")).await.unwrap();
    let last = delete(&cluster, "pods", "default/a", DeleteOptions::default()).await;
    assert_eq!(last["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(last["metadata"]["generation"], 2);
    assert!(cluster.get("pods", "default/a").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_bound_pod_stays_for_its_grace_period_which_only_gets_shorter() {
    let cluster = Cluster::start().await;
    let mut object = parse(&pod("a"));
    object["spec"]["nodeName"] = "n1".into();
    cluster.create(&object.to_string()).await.unwrap();
    let marked = delete(&cluster, "pods", "default/a", DeleteOptions::default()).await;
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-02T03:04:35Z");
    assert_eq!(marked["metadata"]["generation"], 2);
    let longer = delete(&cluster, "pods", "default/a", grace(60)).await;
    assert_eq!(longer, marked);
    let shorter = delete(&cluster, "pods", "default/a", grace(3)).await;
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 3);
    assert_eq!(shorter["metadata"]["deletionTimestamp"], "2026-01-02T03:04:08Z");
    assert_eq!(shorter["metadata"]["generation"], 2);
    delete(&cluster, "pods", "default/a", grace(0)).await;
    assert!(cluster.get("pods", "default/a").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn finalizers_hold_an_object_until_an_update_empties_them() {
    let cluster = Cluster::start().await;
    let mut object = parse(&config_map("a"));
    object["metadata"]["finalizers"] = json!(["example.com/f"]);
    cluster.create(&object.to_string()).await.unwrap();
    let marked = delete(&cluster, "configmaps", "default/a", DeleteOptions::default()).await;
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = delete(&cluster, "configmaps", "default/a", DeleteOptions::default()).await;
    assert_eq!(again, marked);

    let mut more = marked.clone();
    more["metadata"]["finalizers"] = json!(["example.com/f", "example.com/g"]);
    let status = cluster.update(&more, "").await.unwrap_err();
    assert_eq!(
        status.message,
        "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/g\"}"
    );

    let taken = cluster.create(&config_map("a")).await.unwrap_err();
    assert_eq!(
        taken.message,
        "object is being deleted: configmaps \"a\" already exists"
    );
    let mut empty = marked;
    empty["metadata"]["finalizers"] = json!([]);
    cluster.update(&empty, "").await.unwrap();
    assert!(
        cluster
            .get("configmaps", "default/a")
            .await
            .unwrap_err()
            .is_not_found()
    );
}

#[tokio::test]
async fn the_propagation_policy_sets_a_finalizer() {
    let cluster = Cluster::start().await;
    for (name, propagation, finalizer) in [
        ("a", DeletionPropagation::Foreground, "foregroundDeletion"),
        ("b", DeletionPropagation::Orphan, "orphan"),
    ] {
        cluster.create(&config_map(name)).await.unwrap();
        let options = DeleteOptions {
            propagation_policy: Some(propagation),
            ..DeleteOptions::default()
        };
        let marked = delete(&cluster, "configmaps", &format!("default/{name}"), options).await;
        assert_eq!(marked["metadata"]["finalizers"], json!([finalizer]));
        assert!(marked["metadata"].get("deletionTimestamp").is_some());
    }
}

#[tokio::test]
async fn only_an_object_that_meets_the_preconditions_is_deleted() {
    let cluster = Cluster::start().await;
    let made = cluster.create(&config_map("a")).await.unwrap();
    let options = DeleteOptions {
        uid: Some("x".to_owned()),
        ..DeleteOptions::default()
    };
    let status = cluster
        .delete("configmaps", "default/a", options)
        .await
        .unwrap_err();
    assert_eq!(
        status.message,
        format!(
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (x) does not match the UID in record ({}). The object might have been deleted and then recreated",
            made.uid()
        )
    );
    for version in ["1", "garbage"] {
        let options = DeleteOptions {
            resource_version: Some(version.to_owned()),
            ..DeleteOptions::default()
        };
        let deleted = cluster.delete("configmaps", "default/a", options).await;
        let status = deleted.unwrap_err();
        assert!(status.is_conflict());
        let named = format!("the ResourceVersion in the precondition ({version}) does not match");
        assert!(status.message.contains(&named), "{status}");
    }
}

#[tokio::test]
async fn a_namespace_is_deleted_once_it_is_finalized() {
    let cluster = Cluster::start().await;
    let object = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}"#;
    cluster.create(object).await.unwrap();
    let marked = delete(&cluster, "namespaces", "a", DeleteOptions::default()).await;
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_eq!(marked["metadata"].get("deletionGracePeriodSeconds"), None);
    let again = delete(&cluster, "namespaces", "a", DeleteOptions::default()).await;
    assert_eq!(again, marked);
    let mut empty = marked;
    empty["spec"]["finalizers"] = json!([]);
    cluster.update(&empty, "").await.unwrap();
    assert!(cluster.get("namespaces", "a").await.is_ok());
    empty["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    cluster.update(&empty, "finalize").await.unwrap();
    assert!(cluster.get("namespaces", "a").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector_within_its_namespace() {
    let cluster = Cluster::start().await;
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let mut object = parse(&config_map(name));
        object["metadata"]["labels"] = json!({"color": color});
        cluster.create(&object.to_string()).await.unwrap();
    }
    let options = ListOptions {
        labels: "color=red".parse().unwrap(),
        ..ListOptions::default()
    };
    let target = Target::in_namespace(cluster::resource_of("configmaps"), "default");
    let verb = Verb::DeleteCollection(DeleteOptions::default(), options.clone());
    let Body::List(list) = cluster.call(target, verb).await.unwrap().body else {
        panic!("no list")
    };
    let names: Vec<&str> = list.items.iter().map(|item| item.key().name()).collect();
    assert_eq!(names, ["a", "c"]);
    assert!(cluster.get("configmaps", "default/b").await.is_ok());

    let everywhere = Target::all(cluster::resource_of("configmaps"));
    let verb = Verb::DeleteCollection(DeleteOptions::default(), options.clone());
    assert_eq!(cluster.call(everywhere, verb).await.unwrap_err().code, 405);
    let namespaces = Target::all(cluster::resource_of("namespaces"));
    let verb = Verb::DeleteCollection(DeleteOptions::default(), options);
    assert_eq!(cluster.call(namespaces, verb).await.unwrap_err().code, 405);
}

#[tokio::test]
async fn the_pods_of_a_job_stay_without_a_propagation_policy() {
    let cluster = Cluster::start().await;
    for name in ["a", "b"] {
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
            }}},
        });
        cluster.create(&job.to_string()).await.unwrap();
    }
    let target = cluster::object("jobs.batch", "default/a");
    let response = cluster.call(target, Verb::Delete(DeleteOptions::default())).await;
    let response = response.unwrap();
    assert!(response.warnings[0].starts_with("child pods are preserved by default"));
    let terminating = value(&cluster.get("jobs.batch", "default/a").await.unwrap());
    assert_eq!(terminating["metadata"]["finalizers"], json!(["orphan"]));
    let background = DeleteOptions {
        propagation_policy: Some(DeletionPropagation::Background),
        ..DeleteOptions::default()
    };
    let response = delete(&cluster, "jobs.batch", "default/b", background).await;
    assert_eq!(response["status"], "Success");
}

#[tokio::test]
async fn an_object_that_can_be_decoded_is_not_deleted_as_undecodable() {
    let cluster = Cluster::start().await;
    cluster.create(&config_map("a")).await.unwrap();
    let options = || DeleteOptions {
        ignore_store_read_error: true,
        ..DeleteOptions::default()
    };
    let rejected = cluster
        .delete("configmaps", "default/a", options())
        .await
        .unwrap_err();
    assert_eq!(
        rejected.message,
        "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, Key: /registry/configmaps/default/a, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage"
    );
    let absent = cluster
        .delete("configmaps", "default/b", options())
        .await
        .unwrap_err();
    assert!(absent.is_not_found());
}
