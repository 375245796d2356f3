//! Writes: names, system fields, spec against status, rejected bodies.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::time::Duration;

use cluster::{Cluster, config_map, next, object, parse, payload, pod, replica_set, value};
use serde_json::json;
use setpoint_api::options::{
    FieldValidation, GetOptions, ListOptions, PatchType, WatchOptions, WriteOptions,
};
use setpoint_api::{Gvr, Payload, ResourceVersion, Target, Verb};

#[tokio::test]
async fn the_server_sets_the_system_fields_of_a_new_object() {
    let cluster = Cluster::start().await;
    let mut body = parse(&config_map("a"));
    body["metadata"]["uid"] = "mine".into();
    body["metadata"]["generation"] = 7.into();
    body["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    body["metadata"]["deletionTimestamp"] = "2001-01-01T00:00:00Z".into();
    let made = value(&cluster.create(&body.to_string()).await.unwrap());
    let meta = &made["metadata"];
    assert_eq!(meta["uid"].as_str().unwrap().len(), 36);
    assert_eq!(meta["creationTimestamp"], "2026-01-02T03:04:05Z");
    assert_eq!(meta["generation"], 7, "a kind without generations keeps it");
    assert_eq!(meta.get("deletionTimestamp"), None);
}

#[tokio::test]
async fn a_second_object_of_the_same_name_is_rejected() {
    let cluster = Cluster::start().await;
    cluster.create(&config_map("a")).await.unwrap();
    let status = cluster.create(&config_map("a")).await.unwrap_err();
    assert_eq!(status.message, "configmaps \"a\" already exists");
    assert_eq!((status.code, status.reason.as_str()), (409, "AlreadyExists"));
}

#[tokio::test]
async fn a_name_is_generated_from_generate_name() {
    let cluster = Cluster::start().await;
    let mut body = parse(&config_map(""));
    body["metadata"]["generateName"] = "web-".into();
    let first = cluster.create(&body.to_string()).await.unwrap();
    let second = cluster.create(&body.to_string()).await.unwrap();
    assert_ne!(first.key(), second.key());
    assert_eq!(first.key().name().len(), "web-".len() + 5);
}

#[tokio::test]
async fn a_version_on_a_new_object_is_rejected() {
    let cluster = Cluster::start().await;
    let mut body = parse(&config_map("a"));
    body["metadata"]["resourceVersion"] = "5".into();
    let status = cluster.create(&body.to_string()).await.unwrap_err();
    assert_eq!(status.code, 500);
    assert_eq!(
        status.message,
        "resourceVersion should not be set on objects to be created"
    );
}

/// CL4
#[tokio::test]
async fn cl4_a_status_write_cannot_change_the_spec_and_the_reverse() {
    let cluster = Cluster::start().await;
    let mut set = value(&cluster.create(&replica_set("a")).await.unwrap());
    assert_eq!(set["status"], json!({"replicas": 0}));
    set["spec"]["replicas"] = 9.into();
    set["status"]["replicas"] = 5.into();
    let set = value(&cluster.update(&set, "status").await.unwrap());
    assert_eq!(
        (&set["spec"]["replicas"], &set["status"]["replicas"]),
        (&2.into(), &5.into())
    );
    let mut back = set.clone();
    back["spec"]["replicas"] = 3.into();
    back["status"]["replicas"] = 1.into();
    cluster.update(&back, "").await.unwrap();
    let set = value(&cluster.get("replicasets.apps", "default/a").await.unwrap());
    assert_eq!(
        (&set["spec"]["replicas"], &set["status"]["replicas"]),
        (&3.into(), &5.into())
    );
}

/// CL6
#[tokio::test]
async fn cl6_the_generation_counts_changes_of_the_spec_only() {
    let cluster = Cluster::start().await;
    let mut set = value(&cluster.create(&replica_set("a")).await.unwrap());
    assert_eq!(set["metadata"]["generation"], 1);
    set["metadata"]["labels"] = json!({"a": "b"});
    set = value(&cluster.update(&set, "").await.unwrap());
    assert_eq!(set["metadata"]["generation"], 1);
    set["spec"]["replicas"] = 3.into();
    set["metadata"]["generation"] = 50.into();
    set = value(&cluster.update(&set, "").await.unwrap());
    assert_eq!(set["metadata"]["generation"], 2);
    set["status"]["observedGeneration"] = 2.into();
    set = value(&cluster.update(&set, "status").await.unwrap());
    assert_eq!(set["metadata"]["generation"], 2);
    assert_eq!(set["status"]["observedGeneration"], 2);
}

/// AM2
#[tokio::test]
async fn am2_a_body_of_another_kind_is_rejected() {
    let cluster = Cluster::start().await;
    let target = Target::in_namespace(Gvr::new("", "v1", "pods"), "default");
    let verb = Verb::Create(payload(&parse(&config_map("a"))), WriteOptions::default());
    let status = cluster.call(target, verb).await.unwrap_err();
    assert_eq!(status.code, 400);
    assert!(status.message.contains("ConfigMap"), "{status}");
}

/// AM8
#[tokio::test]
async fn am8_a_kind_is_no_resource() {
    let cluster = Cluster::start().await;
    for (group, version, resource) in [("", "v1", "Pod"), ("", "v2", "pods"), ("apps", "v1", "pods")] {
        let target = Target::all(Gvr::new(group, version, resource));
        let status = cluster
            .call(target, Verb::List(ListOptions::default()))
            .await
            .unwrap_err();
        assert_eq!(status.code, 404);
        assert_eq!(status.message, "the server could not find the requested resource");
    }
}

#[tokio::test]
async fn unknown_fields_are_dropped_with_a_warning_or_rejected() {
    let cluster = Cluster::start().await;
    let mut body = parse(&config_map("a"));
    body["extra"] = 1.into();
    let target = || Target::in_namespace(Gvr::new("", "v1", "configmaps"), "default");
    let with = |field_validation| WriteOptions {
        field_validation,
        ..WriteOptions::default()
    };
    let strict = Verb::Create(payload(&body), with(FieldValidation::Strict));
    let status = cluster.call(target(), strict).await.unwrap_err();
    assert_eq!(
        status.message,
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"extra\""
    );
    let warn = Verb::Create(payload(&body), with(FieldValidation::Warn));
    let response = cluster.call(target(), warn).await.unwrap();
    assert_eq!(response.warnings, ["unknown field \"extra\""]);
    assert!(response.created);
}

#[tokio::test]
async fn names_in_the_body_must_be_those_of_the_url() {
    let cluster = Cluster::start().await;
    let made = value(&cluster.create(&config_map("a")).await.unwrap());
    let mut other = made.clone();
    other["metadata"]["name"] = "b".into();
    let verb = Verb::Update(payload(&other), WriteOptions::default());
    let status = cluster
        .call(object("configmaps", "default/a"), verb)
        .await
        .unwrap_err();
    assert_eq!(
        status.message,
        "the name of the object (b) does not match the name on the URL (a)"
    );
    let mut other = made;
    other["metadata"]["namespace"] = "elsewhere".into();
    let verb = Verb::Update(payload(&other), WriteOptions::default());
    let status = cluster
        .call(object("configmaps", "default/a"), verb)
        .await
        .unwrap_err();
    assert_eq!(
        status.message,
        "the namespace of the provided object does not match the namespace sent on the request"
    );
}

#[tokio::test]
async fn a_lease_is_created_by_an_update_but_then_needs_its_version() {
    let cluster = Cluster::start().await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "a", "namespace": "default"}, "spec": {"holderIdentity": "me"}
    });
    let made = cluster.update(&lease, "").await.unwrap();
    let status = cluster.update(&lease, "").await.unwrap_err();
    assert_eq!(
        status.message,
        "leases.coordination.k8s.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
    let mut renewed = value(&made);
    renewed["spec"]["holderIdentity"] = "you".into();
    cluster.update(&renewed, "").await.unwrap();
}

#[tokio::test]
async fn an_update_of_what_is_not_there_is_not_found() {
    let cluster = Cluster::start().await;
    let status = cluster.update(&parse(&config_map("a")), "").await.unwrap_err();
    assert_eq!(status.message, "configmaps \"a\" not found");
}

/// OC10
#[tokio::test]
async fn oc10_a_pod_is_bound_once_and_a_second_binding_gets_the_node_in_its_conflict() {
    let cluster = Cluster::start().await;
    cluster.create(&pod("a")).await.unwrap();
    let bind = |node: &str| {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
            "target": {"kind": "Node", "name": node}
        });
        let target = object("pods", "default/a").subresource("binding");
        cluster.call(target, Verb::Create(payload(&binding), WriteOptions::default()))
    };
    assert!(bind("n1").await.unwrap().created);
    let status = bind("n2").await.unwrap_err();
    assert_eq!(
        status.message,
        "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n1\""
    );
    assert_eq!(status.code, 409);
    let bound = value(&cluster.get("pods", "default/a").await.unwrap());
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    assert_eq!(bound["metadata"]["generation"], 1);
}

/// EV2
#[tokio::test]
async fn ev2_an_event_expires_an_hour_after_its_last_write() {
    let cluster = Cluster::start().await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "a"}, "reason": "Started"
    });
    let made = cluster.create(&event.to_string()).await.unwrap();
    let mut watch = cluster
        .watch(
            "events",
            WatchOptions {
                resource_version: Some(made.resource_version()),
                timeout: Some(Duration::from_secs(100_000)),
                ..WatchOptions::default()
            },
        )
        .await
        .unwrap();
    cluster.clock.advance(Duration::from_secs(1800));
    let mut again = value(&made);
    again["count"] = 2.into();
    cluster.update(&again, "").await.unwrap();
    assert_eq!(next(&mut watch).await, "MODIFIED default/e");
    cluster.clock.advance(Duration::from_secs(3590));
    assert!(cluster.get("events", "default/e").await.is_ok());
    cluster.clock.advance(Duration::from_secs(20));
    assert_eq!(next(&mut watch).await, "DELETED default/e");
    assert!(
        cluster
            .get("events", "default/e")
            .await
            .unwrap_err()
            .is_not_found()
    );
}

#[tokio::test]
async fn every_cluster_has_its_four_namespaces() {
    let cluster = Cluster::start().await;
    let list = cluster.list("namespaces", ListOptions::default()).await.unwrap();
    let names: Vec<&str> = list.items.iter().map(|item| item.key().name()).collect();
    assert_eq!(
        names,
        ["default", "kube-node-lease", "kube-public", "kube-system"]
    );
    let versions: Vec<ResourceVersion> = list.items.iter().map(|item| item.resource_version()).collect();
    assert!(versions.iter().all(|version| *version == versions[0]));
    let made = value(&list.items[0]);
    assert_eq!(made["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(
        made["metadata"]["labels"]["kubernetes.io/metadata.name"],
        "default"
    );
    assert_eq!(made["status"]["phase"], "Active");
}

#[tokio::test]
async fn a_read_of_a_version_to_come_waits_and_then_gives_up() {
    let cluster = Cluster::start().await;
    cluster.create(&config_map("a")).await.unwrap();
    let options = GetOptions {
        resource_version: Some(ResourceVersion(1_000_000)),
    };
    let get = cluster.call(object("configmaps", "default/a"), Verb::Get(options));
    let pass = async {
        tokio::task::yield_now().await;
        cluster.clock.advance(Duration::from_secs(4));
    };
    let (result, ()) = tokio::join!(get, pass);
    let status = result.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (504, "Timeout"));
    assert!(
        status
            .message
            .starts_with("Timeout: Too large resource version: 1000000, current: ")
    );
}

#[tokio::test]
async fn a_strict_strategic_patch_gets_all_its_errors_at_once() {
    let cluster = Cluster::start().await;
    cluster.create(&config_map("a")).await.unwrap();
    let options = WriteOptions {
        field_validation: FieldValidation::Strict,
        ..WriteOptions::default()
    };
    let text = r#"{"bogus":1,"data":{"a":"1","a":"2"}}"#;
    let verb = Verb::Patch(PatchType::StrategicMerge, Payload::json(text), options);
    let rejected = cluster.call(object("configmaps", "default/a"), verb).await;
    assert_eq!(
        rejected.unwrap_err().message,
        " \"\" is invalid: patch: Invalid value: \"map[bogus:1 data:map[a:2]]\": strict decoding error: \
         duplicate field \"data.a\", unknown field \"bogus\""
    );
}

#[tokio::test]
async fn the_conflict_of_another_uid_has_the_storage_key_of_kubernetes() {
    let cluster = Cluster::start().await;
    let made = cluster.create(&replica_set("a")).await.unwrap();
    let mut other = value(&made);
    other["metadata"]["uid"] = "other".into();
    let rejected = cluster.update(&other, "").await.unwrap_err();
    let expected =
        "Key: /registry/replicasets/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed";
    assert!(rejected.message.contains(expected), "{}", rejected.message);
}

#[tokio::test]
async fn a_new_object_with_a_version_passes_a_dry_run_only() {
    let cluster = Cluster::start().await;
    let object = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default","resourceVersion":"5"}}"#;
    let dry = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    cluster.create_with(object, dry).await.unwrap();
    assert_eq!(cluster.create(object).await.unwrap_err().code, 500);
}

#[tokio::test]
async fn a_patch_conflicts_only_by_a_version_of_its_own() {
    let cluster = Cluster::start().await;
    let made = cluster.create(&config_map("a")).await.unwrap();
    let patch = |form: PatchType, text: &'static str| {
        let verb = Verb::Patch(form, Payload::json(text), WriteOptions::default());
        cluster.call(object("configmaps", "default/a"), verb)
    };
    let merged = patch(PatchType::Merge, r#"{"data":{"b":"2"}}"#).await.unwrap();
    assert_eq!(
        value(&merged.into_object().unwrap())["data"],
        json!({"a": "1", "b": "2"})
    );
    let list = r#"[{"op":"remove","path":"/data/a"}]"#;
    let listed = patch(PatchType::Json, list).await.unwrap();
    assert_eq!(value(&listed.into_object().unwrap())["data"], json!({"b": "2"}));
    let labels = r#"{"metadata":{"labels":{"x":"1"}}}"#;
    let labelled = patch(PatchType::StrategicMerge, labels)
        .await
        .unwrap()
        .into_object()
        .unwrap();
    assert_eq!(labelled.label("x"), Some("1"));
    let again = patch(PatchType::StrategicMerge, labels)
        .await
        .unwrap()
        .into_object()
        .unwrap();
    assert_eq!(again.resource_version(), labelled.resource_version());
    assert_ne!(again.resource_version(), made.resource_version());

    let stale = r#"{"metadata":{"resourceVersion":"1"}}"#;
    assert!(patch(PatchType::Merge, stale).await.unwrap_err().is_conflict());
    let missing = r#"[{"op":"remove","path":"/data/zz"}]"#;
    let status = patch(PatchType::Json, missing).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let renamed = patch(PatchType::Merge, r#"{"metadata":{"name":"b"}}"#)
        .await
        .unwrap_err();
    assert_eq!(
        renamed.message,
        "the name of the object (b) does not match the name on the URL (a)"
    );
    assert_eq!(
        patch(PatchType::Merge, "{").await.unwrap_err().message,
        "invalid JSON patch"
    );
}

#[tokio::test]
async fn two_servers_in_one_process_may_differ_in_allowing_privileged_containers() {
    let mut body = parse(&pod("a"));
    body["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    let body = body.to_string();
    let allowing = Cluster::allowing_privileged().await;
    let forbidding = Cluster::start().await;
    allowing.create(&body).await.unwrap();
    let status = forbidding.create(&body).await.unwrap_err();
    assert_eq!(
        status.message,
        "Pod \"a\" is invalid: spec.containers[0].securityContext.privileged: Forbidden: \
         disallowed by cluster policy"
    );
}
