//! Pods on simulated nodes, from the API's side.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use serde_json::{Value, json};
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Clock, GroupResource, Status};
use setpoint_client::Patch;
use setpoint_node::Config;
use setpoint_testkit::{Cluster, Component};

const ENDS_AFTER: &str = "simulated.setpoint.dev/ends-after";
const EXIT_CODE: &str = "simulated.setpoint.dev/exit-code";

fn pod(name: &str, annotations: Value, spec: Value) -> Pod {
    let mut pod = json!({
        "metadata": {"namespace": "default", "name": name, "annotations": annotations},
        "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]},
    });
    for (field, value) in spec.as_object().expect("a spec is an object") {
        pod["spec"][field] = value.clone();
    }
    serde_json::from_value(pod).expect("the fields are those of a pod")
}

async fn create(cluster: &Cluster, pod: &Pod) {
    let pods = cluster.client("me").namespaced::<Pod>("default");
    pods.create(pod).await.expect("the pod is valid");
}

/// The pod as JSON, or null.
fn pod_json(cluster: &Cluster, name: &str) -> Value {
    serde_json::to_value(cluster.find::<Pod>(name)).expect("a pod is JSON")
}

async fn until_phase(cluster: &Cluster, name: &str, phase: &str) {
    let what = format!("the phase {phase} of {name}");
    cluster
        .until(&what, |cluster| {
            pod_json(cluster, name)["status"]["phase"] == phase
        })
        .await;
}

async fn delete(cluster: &Cluster, name: &str) {
    let pods = cluster.client("me").namespaced::<Pod>("default");
    let deleted = pods.delete(name, DeleteOptions::default()).await;
    deleted.expect("the pod exists");
}

/// FL6: one write reports everything.
#[tokio::test]
async fn fl6_a_bound_pod_runs_after_one_status_write() {
    let (cluster, _nodes) = Cluster::with([Component::nodes(1)]).await;
    create(&cluster, &pod("a", json!({}), json!({}))).await;
    let created = cluster.revision().0;
    until_phase(&cluster, "a", "Running").await;
    let pod = pod_json(&cluster, "a");
    assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
    let version: u64 = pod["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(version > created);
    let managed = pod["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(
        managed.iter().filter(|one| one["manager"] == "kubelet").count(),
        1
    );
}

#[tokio::test]
async fn a_pod_is_ready_after_its_time() {
    let (cluster, _nodes) = Cluster::with([Component::nodes(1)]).await;
    let began = cluster.clock.now();
    let later = json!({"simulated.setpoint.dev/ready-after": "30s"});
    create(&cluster, &pod("a", later, json!({}))).await;
    until_phase(&cluster, "a", "Running").await;
    let is_ready = |cluster: &Cluster| {
        let status = pod_json(cluster, "a")["status"].clone();
        let conditions = status["conditions"].as_array().unwrap().clone();
        let ready = conditions.into_iter().find(|one| one["type"] == "Ready").unwrap();
        (
            status["containerStatuses"][0]["ready"] == true,
            ready["status"].clone(),
        )
    };
    assert_eq!(is_ready(&cluster), (false, json!("False")));
    cluster
        .until("a ready pod", |cluster| {
            is_ready(cluster) == (true, json!("True"))
        })
        .await;
    let passed = cluster.clock.now().duration_since(began).as_secs();
    assert!((30..60).contains(&passed), "{passed} s");
}

#[tokio::test]
async fn fl8_a_pod_that_ends_reports_its_exit_code() {
    let (cluster, _nodes) = Cluster::with([Component::nodes(1)]).await;
    let ends = json!({ENDS_AFTER: "5s", EXIT_CODE: "3"});
    create(&cluster, &pod("a", ends, json!({"restartPolicy": "Never"}))).await;
    until_phase(&cluster, "a", "Failed").await;
    let status = pod_json(&cluster, "a")["status"].clone();
    assert_eq!(
        status["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        3
    );
    let ready = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["type"] == "Ready");
    assert_eq!(ready.unwrap()["reason"], "PodFailed");
}

/// EV5
#[tokio::test]
async fn ev5_a_crash_loop_backs_off_and_records_events() {
    let mut config = Config::simulated("node", 1);
    config.records_events = true;
    let (cluster, _nodes) = Cluster::with([Component::Nodes(config)]).await;
    let began = cluster.clock.now();
    create(
        &cluster,
        &pod("a", json!({ENDS_AFTER: "1s", EXIT_CODE: "1"}), json!({})),
    )
    .await;
    cluster
        .until("a second restart", |cluster| {
            pod_json(cluster, "a")["status"]["containerStatuses"][0]["restartCount"] == 2
        })
        .await;
    // The first restart follows at once, the second after ten seconds.
    let passed = cluster.clock.now().duration_since(began).as_secs();
    assert!((12..60).contains(&passed), "{passed} s");
    cluster
        .until("a container that waits", |cluster| {
            let container = &pod_json(cluster, "a")["status"]["containerStatuses"][0];
            container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        })
        .await;
    let container = pod_json(&cluster, "a")["status"]["containerStatuses"][0].clone();
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
    let message = container["state"]["waiting"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.starts_with("back-off 20s restarting failed container=c pod=a_default("),
        "{message}"
    );
    let reasons = ["Pulled", "Created", "Started", "BackOff"];
    let has = |cluster: &Cluster, reason: &str| {
        let events = cluster.list::<Event>();
        events.iter().any(|event| event.reason.as_deref() == Some(reason))
    };
    cluster
        .until("all events", |cluster| {
            reasons.iter().all(|reason| has(cluster, reason))
        })
        .await;
}

#[tokio::test]
async fn init_containers_complete_before_the_others_run() {
    let (cluster, _nodes) = Cluster::with([Component::nodes(1)]).await;
    let init = json!({"initContainers": [
        {"name": "first", "image": "i"},
        {"name": "beside", "image": "i", "restartPolicy": "Always"},
        {"name": "second", "image": "i"},
    ]});
    create(&cluster, &pod("a", json!({}), init)).await;
    until_phase(&cluster, "a", "Running").await;
    let statuses = pod_json(&cluster, "a")["status"]["initContainerStatuses"].clone();
    let reason = |at: usize| statuses[at]["state"]["terminated"]["reason"].clone();
    assert_eq!((reason(0), reason(2)), (json!("Completed"), json!("Completed")));
    assert!(statuses[1]["state"]["running"].is_object());
}

#[tokio::test]
async fn a_deleted_pod_is_removed_and_its_address_is_used_again() {
    let (cluster, _nodes) = Cluster::with([Component::nodes(1)]).await;
    create(&cluster, &pod("a", json!({}), json!({}))).await;
    until_phase(&cluster, "a", "Running").await;
    let address = pod_json(&cluster, "a")["status"]["podIP"].clone();
    delete(&cluster, "a").await;
    cluster
        .until("no pod", |cluster| pod_json(cluster, "a").is_null())
        .await;
    create(&cluster, &pod("b", json!({}), json!({}))).await;
    until_phase(&cluster, "b", "Running").await;
    assert_eq!(pod_json(&cluster, "b")["status"]["podIP"], address);
}

#[tokio::test]
async fn a_deleted_pod_with_a_finalizer_reports_a_terminal_phase() {
    let (cluster, _nodes) = Cluster::with([Component::nodes(1)]).await;
    let mut kept = pod("a", json!({}), json!({}));
    kept.metadata.finalizers = Some(vec!["example.com/kept".to_owned()]);
    create(&cluster, &kept).await;
    until_phase(&cluster, "a", "Running").await;
    delete(&cluster, "a").await;
    until_phase(&cluster, "a", "Succeeded").await;
}

/// A finalizer that is removed at the same time makes the write of the last status conflict.
#[tokio::test]
async fn a_deleted_pod_is_removed_after_a_conflict_of_its_last_status() {
    let (cluster, _nodes) = Cluster::with([Component::nodes(1)]).await;
    let mut kept = pod("a", json!({}), json!({}));
    kept.metadata.finalizers = Some(vec!["example.com/kept".to_owned()]);
    create(&cluster, &kept).await;
    until_phase(&cluster, "a", "Running").await;
    let rejected = AtomicBool::new(false);
    cluster.interceptor.reject(move |call| {
        let is_first = call.resource == "pods/status" && !rejected.swap(true, Ordering::Relaxed);
        is_first.then(|| Status::modified(&GroupResource::new("", "pods"), "a"))
    });
    delete(&cluster, "a").await;
    until_phase(&cluster, "a", "Succeeded").await;
    let pods = cluster.client("me").namespaced::<Pod>("default");
    let removal = Patch::merge(&json!({"metadata": {"finalizers": null}})).unwrap();
    pods.patch("a", &removal).await.unwrap();
    cluster
        .until("no pod", |cluster| pod_json(cluster, "a").is_null())
        .await;
}

#[tokio::test]
async fn a_pod_fails_when_its_deadline_has_passed() {
    let (cluster, _nodes) = Cluster::with([Component::nodes(1)]).await;
    create(
        &cluster,
        &pod("a", json!({}), json!({"activeDeadlineSeconds": 20})),
    )
    .await;
    until_phase(&cluster, "a", "Running").await;
    until_phase(&cluster, "a", "Failed").await;
    let status = pod_json(&cluster, "a")["status"].clone();
    assert_eq!(status["reason"], "DeadlineExceeded");
    assert_eq!(
        status["message"],
        "Pod was active on the node longer than the specified deadline"
    );
}

/// CL7
#[tokio::test]
async fn cl7_a_restarted_agent_neither_restarts_nor_loses_containers() {
    let (cluster, mut nodes) = Cluster::with([Component::nodes(1)]).await;
    create(&cluster, &pod("a", json!({}), json!({}))).await;
    create(
        &cluster,
        &pod("b", json!({ENDS_AFTER: "90s"}), json!({"restartPolicy": "Never"})),
    )
    .await;
    until_phase(&cluster, "a", "Running").await;
    until_phase(&cluster, "b", "Running").await;
    let before = pod_json(&cluster, "a")["status"].clone();
    nodes.remove(0).kill().await;
    let _restarted = cluster.run(Component::nodes(1));
    cluster.advance(Duration::from_secs(30)).await;
    assert_eq!(pod_json(&cluster, "a")["status"], before);
    create(&cluster, &pod("c", json!({}), json!({}))).await;
    until_phase(&cluster, "c", "Running").await;
    assert_ne!(pod_json(&cluster, "c")["status"]["podIP"], before["podIP"]);
    until_phase(&cluster, "b", "Succeeded").await;
}

#[tokio::test]
async fn an_image_that_cannot_be_pulled_backs_off() {
    let mut config = Config::simulated("node", 1);
    config.runtime = setpoint_node::RuntimeConfig::Simulated(setpoint_node::simulated::Simulation {
        unavailable_images: vec!["missing".to_owned()],
        ..Default::default()
    });
    let (cluster, _nodes) = Cluster::with([Component::Nodes(config)]).await;
    let container = json!({"containers": [{"name": "c", "image": "missing/image:1"}]});
    create(&cluster, &pod("a", json!({}), container)).await;
    for reason in ["ErrImagePull", "ImagePullBackOff"] {
        cluster
            .until(reason, |cluster| {
                let container = &pod_json(cluster, "a")["status"]["containerStatuses"][0];
                container["state"]["waiting"]["reason"] == reason
            })
            .await;
    }
    assert_eq!(pod_json(&cluster, "a")["status"]["phase"], "Pending");
}

#[tokio::test]
async fn a_pod_that_the_node_cannot_run_is_rejected() {
    let (cluster, _nodes) = Cluster::with([Component::nodes(1)]).await;
    let container =
        json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "33"}}}]});
    create(&cluster, &pod("a", json!({}), container)).await;
    until_phase(&cluster, "a", "Failed").await;
    let status = pod_json(&cluster, "a")["status"].clone();
    assert_eq!(status["reason"], "OutOfcpu");
    let message =
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 33000, used: 0, capacity: 32000";
    assert_eq!(status["message"], message);
    assert!(status["containerStatuses"].is_null());
}

/// A pod whose start takes a while reports the end of it: the step that began the start is not the last.
#[tokio::test]
async fn a_pod_that_starts_slowly_is_reported_as_running() {
    let mut config = Config::simulated("node", 1);
    config.runtime = setpoint_node::RuntimeConfig::Simulated(setpoint_node::simulated::Simulation {
        starting: Duration::from_secs(3),
        stopping: Duration::from_secs(3),
        ..Default::default()
    });
    let (cluster, _nodes) = Cluster::with([Component::Nodes(config)]).await;
    create(&cluster, &pod("a", json!({}), json!({}))).await;
    until_phase(&cluster, "a", "Pending").await;
    until_phase(&cluster, "a", "Running").await;
    delete(&cluster, "a").await;
    cluster
        .until("no pod", |cluster| pod_json(cluster, "a").is_null())
        .await;
}

/// FL8: the first rule that matches a pod decides when and how its containers exit.
#[tokio::test]
async fn pods_follow_the_rules_of_the_file() {
    let mut config = Config::simulated("node", 1);
    config.runtime = setpoint_node::RuntimeConfig::Simulated(setpoint_node::simulated::Simulation {
        rules: serde_json::from_value(json!([
            { "selector": { "namePrefix": "job-" }, "endsAfter": "5s", "exitCode": 4 },
            { "selector": { "namespace": "default" }, "createError": "no such device" },
        ]))
        .expect("the rules are valid"),
        ..setpoint_node::simulated::Simulation::default()
    });
    let (cluster, _nodes) = Cluster::with([Component::Nodes(config)]).await;
    create(
        &cluster,
        &pod("job-1", json!({}), json!({"restartPolicy": "Never"})),
    )
    .await;
    create(&cluster, &pod("web", json!({}), json!({}))).await;
    until_phase(&cluster, "job-1", "Failed").await;
    let ended = pod_json(&cluster, "job-1");
    let terminated = &ended["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(terminated["exitCode"], 4);
    cluster
        .until("the error of web", |cluster| {
            let web = pod_json(cluster, "web");
            web["status"]["containerStatuses"][0]["state"]["waiting"]["message"] == "no such device"
        })
        .await;
}
