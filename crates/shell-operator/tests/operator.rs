//! Hooks on a cluster: events, schedules, queues, and what hooks write.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::time::Duration;

use fixture::Fixture;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use setpoint_api::{Clock, SystemClock};
use setpoint_client::Patch;
use setpoint_testkit::{config_map, namespace};

/// A context without its objects: `binding type watchEvent name`.
fn summary(run: &Value) -> Vec<String> {
    let words = |context: &Value| {
        let name = &context["object"]["metadata"]["name"];
        let words = [
            &context["binding"],
            &context["type"],
            &context["watchEvent"],
            name,
        ];
        let words = words.iter().filter_map(|word| word.as_str());
        words.collect::<Vec<_>>().join(" ")
    };
    run.as_array().unwrap().iter().map(words).collect()
}

/// TO8
#[tokio::test(flavor = "multi_thread")]
async fn a_hook_runs_at_start_then_with_all_objects_then_on_each_event() {
    let mut fixture = Fixture::new().await;
    fixture.create("first", "1").await;
    let config = "configVersion: v1\nonStartup: 1\nkubernetes:\n- name: maps\n  apiVersion: v1\n  kind: ConfigMap\n  namespace: {nameSelector: {matchNames: [default]}}\n  fieldSelector: {matchExpressions: [{field: metadata.name, operator: NotEquals, value: kube-root-ca.crt}]}\n  jqFilter: .data";
    fixture.hook("maps.sh", config, "");
    fixture.start().await;
    let runs = fixture.runs("maps.sh", 2).await;
    assert_eq!(runs[0], json!([{"binding": "onStartup"}]));
    assert_eq!(runs[1][0]["type"], "Synchronization");
    let objects = &runs[1][0]["objects"];
    assert_eq!(objects.as_array().unwrap().len(), 1);
    assert_eq!(objects[0]["filterResult"], json!({"k": "1"}));
    assert_eq!(objects[0]["object"]["kind"], "ConfigMap");
    assert_eq!(objects[0]["object"]["metadata"]["name"], "first");
    fixture.create("second", "2").await;
    let runs = fixture.runs("maps.sh", 3).await;
    assert_eq!(summary(&runs[2]), ["maps Event Added second"]);
    // A change that the filter does not see does not run the hook; the next one does.
    fixture
        .change("second", json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    fixture.change("second", json!({"data": {"k": "3"}})).await;
    let runs = fixture.runs("maps.sh", 4).await;
    assert_eq!(summary(&runs[3]), ["maps Event Modified second"]);
    assert_eq!(runs[3][0]["filterResult"], json!({"k": "3"}));
    let maps = fixture.client.namespaced::<ConfigMap>("default");
    maps.delete("second", Default::default()).await.unwrap();
    let runs = fixture.runs("maps.sh", 5).await;
    assert_eq!(summary(&runs[4]), ["maps Event Deleted second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_and_metrics_of_a_hook_are_applied() {
    let mut fixture = Fixture::new().await;
    fixture.create("old", "1").await;
    fixture.create("changed", "1").await;
    let script = r#"cat > "$KUBERNETES_PATCH_PATH" <<'END'
{"operation":"CreateOrUpdate","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new","namespace":"default"},"data":{"k":"1"}}}
{"operation":"CreateOrUpdate","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new","namespace":"default"},"data":{"k":"2"}}}
{"operation":"CreateIfNotExists","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new","namespace":"default"},"data":{"k":"3"}}}
{"operation":"DeleteInBackground","kind":"configmap","namespace":"default","name":"old"}
{"operation":"JQPatch","kind":"cm","namespace":"default","name":"changed","jqFilter":".data.jq = \"yes\""}
{"operation":"MergePatch","kind":"ConfigMap","namespace":"default","name":"changed","mergePatch":{"data":{"merge":"yes"}}}
{"operation":"JSONPatch","kind":"ConfigMap","namespace":"default","name":"changed","jsonPatch":[{"op":"remove","path":"/data/k"}]}
{"operation":"MergePatch","kind":"ConfigMap","namespace":"default","name":"missing","ignoreMissingObject":true,"mergePatch":{"data":{"a":"b"}}}
END
echo '{"name":"runs","add":1}' > "$METRICS_PATH"
"#;
    fixture.hook("patch.sh", "configVersion: v1\nonStartup: 1", script);
    fixture.hook("z-last.sh", "configVersion: v1\nonStartup: 2", "");
    let operator = fixture.start().await;
    fixture.runs("z-last.sh", 1).await;
    let maps = fixture.client.namespaced::<ConfigMap>("default");
    let data = async |name: &str| {
        let map = maps.get(name).await.unwrap().to_owned().unwrap();
        json!(map.data)
    };
    assert_eq!(data("new").await, json!({"k": "2"}));
    assert_eq!(data("changed").await, json!({"jq": "yes", "merge": "yes"}));
    assert!(maps.get("old").await.unwrap_err().is_not_found());
    assert!(
        operator
            .hook_metrics_text()
            .contains("runs{hook=\"patch.sh\"} 1\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_fails_or_hangs_stops_only_its_own_queue() {
    let mut fixture = Fixture::new().await;
    let config = |queue: &str, more: &str| {
        format!(
            "configVersion: v1\nkubernetes:\n- {{name: maps, kind: cm, queue: {queue}, executeHookOnSynchronization: false, nameSelector: {{matchNames: [a, b]}}{more}}}"
        )
    };
    fixture.hook("fails.sh", &config("one", ""), "exit 1");
    fixture.hook("hangs.sh", &config("two", ""), "sleep 1000");
    fixture.hook(
        "prints.sh",
        &config("three", ""),
        "head -c 100000 /dev/urandom; printf 'x' > \"$METRICS_PATH\"",
    );
    fixture.hook("forks.sh", &config("four", ""), "sleep 20 &");
    fixture.hook("may-fail.sh", &config("five", ", allowFailure: true"), "exit 1");
    fixture.hook("works.sh", &config("six", ""), "");
    // The last hook of the main queue shows that all monitors run.
    fixture.hook(
        "z-last.sh",
        "configVersion: v1\nkubernetes:\n- kind: Namespace",
        "",
    );
    fixture.start().await;
    fixture.runs("z-last.sh", 1).await;
    fixture.create("a", "1").await;
    fixture.runs("works.sh", 1).await;
    for hook in ["fails.sh", "hangs.sh", "prints.sh", "forks.sh", "may-fail.sh"] {
        fixture.runs(hook, 1).await;
    }
    fixture.create("b", "1").await;
    let runs = fixture.runs("works.sh", 2).await;
    assert_eq!(summary(&runs[1]), ["maps Event Added b"]);
    let runs = fixture.runs("forks.sh", 2).await;
    assert_eq!(summary(&runs[1]), ["maps Event Added b"]);
    let runs = fixture.runs("may-fail.sh", 2).await;
    assert_eq!(summary(&runs[1]), ["maps Event Added b"]);
    // The failed run is retried with what has come since: nothing is lost.
    let runs = fixture.runs("fails.sh", 2).await;
    assert_eq!(summary(&runs[1]), ["maps Event Added a", "maps Event Added b"]);
    let runs = fixture.runs("prints.sh", 2).await;
    assert_eq!(summary(&runs[1]), ["maps Event Added a", "maps Event Added b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_selected_by_labels_as_they_change() {
    let mut fixture = Fixture::new().await;
    let namespaces = fixture.client.all::<k8s_openapi::api::core::v1::Namespace>();
    namespaces.create(&namespace("team")).await.unwrap();
    let map = |name: &str| {
        let mut map = config_map(name, "k", "1");
        map.metadata.namespace = None;
        map
    };
    let team = fixture.client.namespaced::<ConfigMap>("team");
    team.create(&map("before")).await.unwrap();
    let config = "configVersion: v1\nkubernetes:\n- {name: maps, kind: ConfigMap, executeHookOnSynchronization: false, labelSelector: {matchExpressions: [{key: hidden, operator: DoesNotExist}]}, includeSnapshotsFrom: [maps], namespace: {labelSelector: {matchLabels: {own: 'yes'}}}}";
    fixture.hook("maps.sh", config, "");
    fixture.hook(
        "z-last.sh",
        "configVersion: v1\nkubernetes:\n- kind: Namespace",
        "",
    );
    fixture.start().await;
    fixture.runs("z-last.sh", 1).await;
    let label = |value: Value| Patch::merge(&json!({"metadata": {"labels": {"own": value}}})).unwrap();
    namespaces.patch("team", &label(json!("yes"))).await.unwrap();
    // The namespace matches at some time after its change; from then on new objects run the hook.
    let mut count = 0;
    while !fixture.log("maps.sh").exists() {
        count += 1;
        team.create(&map(&format!("seen-{count:03}"))).await.unwrap();
        SystemClock::new().sleep(Duration::from_millis(100)).await;
    }
    let runs = fixture.runs("maps.sh", 1).await;
    assert!(
        summary(&runs[0])[0].starts_with("maps Event Added seen-"),
        "{runs:?}"
    );
    let objects = runs[0][0]["snapshots"]["maps"].as_array().unwrap();
    let names: Vec<&str> = objects
        .iter()
        .filter_map(|object| object["object"]["metadata"]["name"].as_str())
        .collect();
    assert_eq!(names[0], "before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_with_seconds_fires_with_its_snapshots() {
    let mut fixture = Fixture::new().await;
    fixture.create("a", "1").await;
    let config = "configVersion: v1\nschedule:\n- {name: tick, crontab: '* * * * * *', includeSnapshotsFrom: [maps]}\nkubernetes:\n- {name: maps, kind: configmaps, nameSelector: {matchNames: [a]}, keepFullObjectsInMemory: false, jqFilter: .data.k, executeHookOnSynchronization: false, executeHookOnEvent: []}";
    fixture.hook("tick.sh", config, "");
    fixture.start().await;
    let runs = fixture.runs("tick.sh", 2).await;
    let expected =
        json!([{"binding": "tick", "type": "Schedule", "snapshots": {"maps": [{"filterResult": "1"}]}}]);
    assert_eq!(runs[0], expected);
}
