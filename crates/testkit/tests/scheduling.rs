//! Scheduling through the API: preemption, scheduling gates, host ports, and events that wake waiting pods.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use k8s_openapi::api::core::v1::{Binding, Event, ObjectReference, Pod, PodCondition, PodSchedulingGate};
use serde_json::json;
use setpoint_api::options::DeleteOptions;
use setpoint_client::Object;
use setpoint_runtime::Patch;
use setpoint_testkit::{Cluster, Component, node, pod};

async fn create<T: Object>(cluster: &Cluster, namespace: &str, object: &T) {
    cluster
        .client("test")
        .namespaced(namespace)
        .create(object)
        .await
        .unwrap();
}

fn with_priority(mut pod: Pod, priority: i32) -> Pod {
    let spec = pod.spec.as_mut().unwrap();
    spec.priority = Some(priority);
    spec.termination_grace_period_seconds = Some(0);
    pod
}

fn node_of(cluster: &Cluster, name: &str) -> String {
    let pod: Option<Pod> = cluster.find(name);
    pod.and_then(|pod| pod.spec?.node_name).unwrap_or_default()
}

fn condition(cluster: &Cluster, name: &str, type_: &str) -> Option<PodCondition> {
    let pod: Pod = cluster.find(name)?;
    pod.status?.conditions?.into_iter().find(|one| one.type_ == type_)
}

/// Events as `reason message`, sorted.
fn events(cluster: &Cluster, name: &str) -> Vec<String> {
    let events: Vec<Event> = cluster.list();
    let own = events
        .into_iter()
        .filter(|event| event.involved_object.name.as_deref() == Some(name));
    let mut texts: Vec<String> = own
        .map(|event| {
            format!(
                "{} {}",
                event.reason.unwrap_or_default(),
                event.message.unwrap_or_default()
            )
        })
        .collect();
    texts.sort();
    texts
}

#[tokio::test]
async fn a_pod_of_higher_priority_takes_the_node_of_a_lower_one() {
    let (cluster, _components) = Cluster::with([Component::Scheduler]).await;
    create(&cluster, "", &node("n1").capacity("cpu", "1").build()).await;
    let low = with_priority(pod("low").requesting("cpu", "1").build(), 0);
    create(&cluster, "default", &low).await;
    cluster
        .until("the first pod bound", |cluster| node_of(cluster, "low") == "n1")
        .await;
    let uid = cluster.find::<Pod>("low").unwrap().metadata.uid.unwrap();
    let high = with_priority(pod("high").requesting("cpu", "1").build(), 100);
    create(&cluster, "default", &high).await;
    cluster
        .until("the second pod bound", |cluster| node_of(cluster, "high") == "n1")
        .await;
    let victim = cluster
        .find::<Pod>("low")
        .filter(|pod| pod.metadata.uid.as_deref() == Some(&uid));
    assert!(victim.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()));
    let preemptor = cluster.find::<Pod>("high").unwrap().metadata.uid.unwrap();
    cluster
        .until("the events", |cluster| {
            let expected = format!("Preempted Preempted by pod {preemptor} on node n1");
            events(cluster, "low").contains(&expected)
        })
        .await;
    let message = "FailedScheduling 0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for \
                   pod on node n1, preempting 1 victims";
    assert!(
        events(&cluster, "high").contains(&message.to_owned()),
        "{:?}",
        events(&cluster, "high")
    );
}

#[tokio::test]
async fn a_gated_pod_is_scheduled_once_its_last_gate_is_removed() {
    let (cluster, _components) = Cluster::with([Component::Scheduler]).await;
    create(&cluster, "", &node("n1").capacity("cpu", "1").build()).await;
    let mut gated = pod("gated").build();
    gated.spec.as_mut().unwrap().scheduling_gates = Some(vec![PodSchedulingGate {
        name: "example.com/wait".to_owned(),
    }]);
    create(&cluster, "default", &gated).await;
    cluster.settle().await;
    assert_eq!(node_of(&cluster, "gated"), "");
    let reason = condition(&cluster, "gated", "PodScheduled").and_then(|one| one.reason);
    assert_eq!(reason.as_deref(), Some("SchedulingGated"));
    let pods = cluster.client("test").namespaced::<Pod>("default");
    let patch = Patch::merge(&json!({"spec": {"schedulingGates": []}})).unwrap();
    pods.patch("gated", &patch).await.unwrap();
    cluster
        .until("the pod bound", |cluster| node_of(cluster, "gated") == "n1")
        .await;
}

#[tokio::test]
async fn a_pod_with_a_host_port_waits_until_the_port_is_free() {
    let (cluster, _components) = Cluster::with([Component::Scheduler]).await;
    create(&cluster, "", &node("n1").capacity("cpu", "1").build()).await;
    let with_port = |name: &str| {
        let mut pod = with_priority(pod(name).build(), 0);
        let container = &mut pod.spec.as_mut().unwrap().containers[0];
        let ports = json!([{"containerPort": 80, "hostPort": 80}]);
        container.ports = serde_json::from_value(ports).unwrap();
        pod
    };
    create(&cluster, "default", &with_port("first")).await;
    cluster
        .until("the first pod bound", |cluster| node_of(cluster, "first") == "n1")
        .await;
    create(&cluster, "default", &with_port("second")).await;
    let message = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. preemption: 0/1 nodes \
                   are available: 1 No preemption victims found for incoming pod.";
    cluster
        .until("the condition", |cluster| {
            condition(cluster, "second", "PodScheduled")
                .and_then(|one| one.message)
                .as_deref()
                == Some(message)
        })
        .await;
    let pods = cluster.client("test").namespaced::<Pod>("default");
    pods.delete("first", DeleteOptions::default()).await.unwrap();
    cluster
        .until("the second pod bound", |cluster| {
            node_of(cluster, "second") == "n1"
        })
        .await;
}

/// OC10
#[tokio::test]
async fn a_binding_for_an_older_version_of_the_pod_is_a_conflict() {
    let (cluster, _components) = Cluster::with([]).await;
    create(&cluster, "default", &pod("web").build()).await;
    let pods = cluster.client("test").namespaced::<Pod>("default");
    let seen = pods.get("web").await.unwrap();
    let patch = Patch::merge(&json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
    pods.patch("web", &patch).await.unwrap();
    let mut binding = Binding {
        target: ObjectReference {
            name: Some("n1".to_owned()),
            ..ObjectReference::default()
        },
        ..Binding::default()
    };
    binding.metadata.name = Some("web".to_owned());
    binding.metadata.resource_version = Some(seen.resource_version().to_string());
    let status = pods
        .create_subresource("web", "binding", &binding)
        .await
        .unwrap_err();
    assert!(status.is_conflict(), "{status}");
    assert_eq!(node_of(&cluster, "web"), "");
}
