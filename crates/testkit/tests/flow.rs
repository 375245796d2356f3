//! The flow from a ReplicaSet to running pods, component by component (mission FL2 to FL9).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use setpoint_api::options::DeleteOptions;
use setpoint_client::{Client, Object};
use setpoint_testkit::{Cluster, Component, deployment, node, pod, replica_set};

const REPLICA_SETS: Component = Component::Controller("replicaset");

async fn create<T: Object>(cluster: &Cluster, namespace: &str, object: &T) {
    let client: Client = cluster.client("test");
    client.namespaced(namespace).create(object).await.unwrap();
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

fn node_of(pod: &Pod) -> &str {
    let spec = pod.spec.as_ref();
    spec.and_then(|spec| spec.node_name.as_deref())
        .unwrap_or_default()
}

/// The conditions of a pod as `type=status`.
fn conditions(pod: &Pod) -> BTreeMap<String, String> {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let all = conditions.into_iter().flatten();
    all.map(|one| (one.type_.clone(), one.status.clone())).collect()
}

fn running(cluster: &Cluster) -> usize {
    let pods: Vec<Pod> = cluster.list();
    pods.iter().filter(|pod| phase(pod) == "Running").count()
}

fn ready_replicas(cluster: &Cluster, name: &str) -> i32 {
    let set: Option<ReplicaSet> = cluster.find(name);
    set.and_then(|set| set.status?.ready_replicas).unwrap_or(0)
}

/// The message of an event with this reason, if there is one.
fn event(cluster: &Cluster, reason: &str) -> Option<String> {
    let events: Vec<Event> = cluster.list();
    let found = events
        .into_iter()
        .find(|event| event.reason.as_deref() == Some(reason))?;
    found.message
}

/// TR10: from a deployment to its running pod through four loops that wake each other, with no interval to wait for in
/// between: hardly any time has to pass.
#[tokio::test]
async fn tr10_no_interval_lies_between_a_deployment_and_its_running_pods() {
    let parts = [
        Component::Controller("deployment"),
        REPLICA_SETS,
        Component::Scheduler,
        Component::nodes(1),
    ];
    let (cluster, _components) = Cluster::with(parts).await;
    cluster
        .until("a node", |cluster| !cluster.list::<Node>().is_empty())
        .await;
    cluster.settle().await;
    let start = setpoint_api::Clock::now(&cluster.clock);
    create(&cluster, "default", &deployment("web").replicas(1).build()).await;
    for _ in 0..50 {
        cluster.settle().await;
        if running(&cluster) == 1 {
            break;
        }
        cluster.advance(std::time::Duration::from_millis(20)).await;
    }
    let took = setpoint_api::Clock::now(&cluster.clock).duration_since(start);
    assert_eq!(running(&cluster), 1);
    assert!(took.as_millis() <= 1000, "{took:?}");
}

#[tokio::test]
async fn fl2_a_set_gets_its_pods_which_wait_for_a_node() {
    let (cluster, _components) = Cluster::with([REPLICA_SETS]).await;
    create(&cluster, "default", &replica_set("web").replicas(3).build()).await;
    cluster
        .until("three pods", |cluster| cluster.list::<Pod>().len() == 3)
        .await;
    for pod in cluster.list::<Pod>() {
        let name = pod.metadata.name.clone().unwrap();
        assert!(
            name.starts_with("web-") && name.len() == "web-".len() + 5,
            "{name}"
        );
        assert_eq!((phase(&pod), node_of(&pod)), ("Pending", ""));
    }
}

#[tokio::test]
async fn fl3_a_scheduler_that_starts_late_binds_old_pods() {
    let cluster = Cluster::start().await;
    create(&cluster, "", &node("n1").build()).await;
    create(&cluster, "default", &pod("old").build()).await;
    cluster.settle().await;
    assert_eq!(node_of(&cluster.find("old").unwrap()), "");
    let _scheduler = cluster.run(Component::Scheduler);
    cluster
        .until("a bound pod", |cluster| {
            cluster.find("old").is_some_and(|pod: Pod| node_of(&pod) == "n1")
        })
        .await;
    let pod: Pod = cluster.find("old").unwrap();
    assert_eq!(conditions(&pod)["PodScheduled"], "True");
    cluster
        .until("a Scheduled event", |cluster| {
            event(cluster, "Scheduled").is_some()
        })
        .await;
    assert_eq!(
        event(&cluster, "Scheduled").unwrap(),
        "Successfully assigned default/old to n1"
    );
}

#[tokio::test]
async fn fl4_an_agent_leaves_pods_alone_that_are_not_bound_to_its_nodes() {
    let (cluster, _components) = Cluster::with([Component::nodes(1)]).await;
    create(&cluster, "default", &pod("unbound").build()).await;
    create(&cluster, "default", &pod("foreign").on("elsewhere").build()).await;
    create(&cluster, "default", &pod("own").on("node-0").build()).await;
    cluster
        .until("one pod running", |cluster| running(cluster) == 1)
        .await;
    cluster.settle().await;
    assert_eq!(phase(&cluster.find("own").unwrap()), "Running");
    assert_eq!(phase(&cluster.find("unbound").unwrap()), "Pending");
    assert_eq!(phase(&cluster.find("foreign").unwrap()), "Pending");
}

#[tokio::test]
async fn fl5_a_pod_is_bound_only_where_it_fits_and_reports_why_it_waits() {
    let (cluster, _components) = Cluster::with([Component::Scheduler]).await;
    create(&cluster, "", &node("small").capacity("cpu", "1").build()).await;
    create(
        &cluster,
        "",
        &node("shut").capacity("cpu", "64").unschedulable().build(),
    )
    .await;
    create(&cluster, "default", &pod("big").requesting("cpu", "2").build()).await;
    cluster
        .until("a FailedScheduling event", |cluster| {
            event(cluster, "FailedScheduling").is_some()
        })
        .await;
    assert_eq!(
        event(&cluster, "FailedScheduling").unwrap(),
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. preemption: 0/2 nodes are available: 2 \
         Preemption is not helpful for scheduling."
    );
    cluster
        .until("the condition", |cluster| {
            let pod: Pod = cluster.find("big").unwrap();
            conditions(&pod)
                .get("PodScheduled")
                .is_some_and(|status| status == "False")
        })
        .await;
    // Capacity on another node is noticed without a change of the pod.
    create(&cluster, "", &node("large").capacity("cpu", "4").build()).await;
    cluster
        .until("a bound pod", |cluster| {
            node_of(&cluster.find("big").unwrap()) == "large"
        })
        .await;
}

#[tokio::test]
async fn fl5_the_requests_on_a_node_never_exceed_its_capacity() {
    let (cluster, _components) = Cluster::with([REPLICA_SETS, Component::Scheduler]).await;
    for name in ["a", "b", "c"] {
        create(&cluster, "", &node(name).capacity("cpu", "1").build()).await;
    }
    let set = replica_set("web").replicas(20).requesting("cpu", "300m").build();
    create(&cluster, "default", &set).await;
    let bound = |cluster: &Cluster| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for pod in cluster
            .list::<Pod>()
            .iter()
            .filter(|pod| !node_of(pod).is_empty())
        {
            *counts.entry(node_of(pod).to_owned()).or_default() += 1;
        }
        counts
    };
    cluster
        .until("nine bound pods", |cluster| {
            bound(cluster).values().sum::<usize>() == 9
        })
        .await;
    cluster.settle().await;
    let expected = ["a", "b", "c"].map(|name| (name.to_owned(), 3));
    assert_eq!(bound(&cluster), expected.into());
}

#[tokio::test]
async fn fl5_a_deleted_pod_frees_its_node_for_one_that_waits() {
    let (cluster, _components) = Cluster::with([Component::Scheduler]).await;
    create(&cluster, "", &node("n1").capacity("cpu", "1").build()).await;
    create(
        &cluster,
        "default",
        &pod("first").requesting("cpu", "1").on("n1").build(),
    )
    .await;
    create(&cluster, "default", &pod("second").requesting("cpu", "1").build()).await;
    cluster
        .until("a FailedScheduling event", |cluster| {
            event(cluster, "FailedScheduling").is_some()
        })
        .await;
    let pods = cluster.client("test").namespaced::<Pod>("default");
    let at_once = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    pods.delete("first", at_once).await.unwrap();
    cluster
        .until("the second pod bound", |cluster| {
            node_of(&cluster.find("second").unwrap()) == "n1"
        })
        .await;
}

/// OC10
#[tokio::test]
async fn oc10_two_schedulers_bind_every_pod_exactly_once() {
    let (cluster, _components) =
        Cluster::with([REPLICA_SETS, Component::Scheduler, Component::Scheduler]).await;
    for name in ["a", "b"] {
        create(&cluster, "", &node(name).capacity("cpu", "8").build()).await;
    }
    let set = replica_set("web").replicas(50).requesting("cpu", "100m").build();
    create(&cluster, "default", &set).await;
    cluster
        .until("fifty bound pods", |cluster| {
            let pods: Vec<Pod> = cluster.list();
            pods.iter().filter(|pod| !node_of(pod).is_empty()).count() == 50
        })
        .await;
    assert_eq!(cluster.list::<Pod>().len(), 50);
}

#[tokio::test]
async fn fl6_the_agent_starts_a_bound_pod_and_reports_its_status() {
    let (cluster, _components) = Cluster::with([Component::nodes(2)]).await;
    create(&cluster, "default", &pod("web").on("node-1").build()).await;
    cluster
        .until("a running pod", |cluster| running(cluster) == 1)
        .await;
    let pod: Pod = cluster.find("web").unwrap();
    let met = conditions(&pod);
    for type_ in [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ] {
        assert_eq!(met[type_], "True", "{type_}");
    }
    let status = pod.status.unwrap();
    assert_eq!(status.pod_ip.as_deref(), Some("10.64.1.1"));
    assert_eq!(status.host_ip.as_deref(), Some("10.16.0.2"));
    assert!(status.start_time.is_some());
    let container = &status.container_statuses.unwrap()[0];
    assert!(container.ready && container.state.as_ref().unwrap().running.is_some());
    assert_eq!(status.observed_generation, pod.metadata.generation);
}

#[tokio::test]
async fn fl7_a_pod_that_comes_up_makes_the_controller_write_no_pod() {
    let (cluster, _components) = Cluster::with([REPLICA_SETS, Component::Scheduler]).await;
    create(&cluster, "default", &replica_set("web").replicas(2).build()).await;
    cluster
        .until("two pods", |cluster| cluster.list::<Pod>().len() == 2)
        .await;
    cluster.settle().await;
    cluster.interceptor.clear();
    let _nodes = cluster.run(Component::nodes(1));
    cluster
        .until("two ready replicas", |cluster| {
            ready_replicas(cluster, "web") == 2
        })
        .await;
    cluster.settle().await;
    let writes = cluster.interceptor.writes();
    let of_pods = |line: &&String| line.starts_with("replicaset-controller") && line.contains(" pods");
    assert_eq!(writes.iter().filter(of_pods).count(), 0, "{writes:?}");
}

#[tokio::test]
async fn fl9_a_pod_that_failed_is_replaced_and_stays_to_be_looked_at() {
    let (cluster, _components) =
        Cluster::with([REPLICA_SETS, Component::Scheduler, Component::nodes(1)]).await;
    create(&cluster, "default", &replica_set("web").replicas(2).build()).await;
    cluster
        .until("two ready replicas", |cluster| {
            ready_replicas(cluster, "web") == 2
        })
        .await;
    let mut failed = cluster.list::<Pod>().remove(0);
    failed.status.as_mut().unwrap().phase = Some("Failed".to_owned());
    let pods = cluster.client("test").namespaced::<Pod>("default");
    pods.update_status(&failed).await.unwrap();
    cluster
        .until("a replacement", |cluster| {
            running(cluster) == 2 && cluster.list::<Pod>().len() == 3
        })
        .await;
}

#[tokio::test]
async fn a_deleted_pod_is_stopped_by_its_agent_and_then_gone() {
    let (cluster, _components) = Cluster::with([Component::nodes(1)]).await;
    create(&cluster, "default", &pod("web").on("node-0").build()).await;
    cluster
        .until("a running pod", |cluster| running(cluster) == 1)
        .await;
    let pods = cluster.client("test").namespaced::<Pod>("default");
    pods.delete("web", DeleteOptions::default()).await.unwrap();
    cluster
        .until("no pod", |cluster| cluster.list::<Pod>().is_empty())
        .await;
}

#[tokio::test]
async fn a_node_registers_reports_itself_ready_and_renews_its_lease() {
    let (cluster, _components) = Cluster::with([Component::nodes(3)]).await;
    cluster
        .until("three leases", |cluster| cluster.list::<Lease>().len() == 3)
        .await;
    let node: Node = cluster.find("node-2").unwrap();
    assert_eq!(node.metadata.labels.unwrap()["kubernetes.io/hostname"], "node-2");
    let renewed = |cluster: &Cluster| {
        let leases: Vec<Lease> = cluster.list();
        let times = leases
            .iter()
            .map(|lease| lease.spec.as_ref().unwrap().renew_time.clone());
        times.collect::<Vec<_>>()
    };
    let before = renewed(&cluster);
    cluster.advance(std::time::Duration::from_secs(15)).await;
    let after = renewed(&cluster);
    assert!(
        before.iter().zip(&after).all(|(before, after)| before < after),
        "{after:?}"
    );
}

/// Creates a pod on a node that terminates after ten seconds with this exit code.
async fn create_ending(cluster: &Cluster, name: &str, policy: &str, code: &str) {
    let mut ending = pod(name).on("node-0").build();
    let notes = [("ends-after", "10s"), ("exit-code", code)];
    let notes = notes.map(|(name, value)| (format!("simulated.setpoint.dev/{name}"), value.to_owned()));
    ending.metadata.annotations = Some(notes.into());
    ending.spec.as_mut().unwrap().restart_policy = Some(policy.to_owned());
    create(cluster, "default", &ending).await;
}

/// FL8: the agent writes from the newest version, so that another writer beside it loses nothing.
#[tokio::test]
async fn fl8_a_pod_that_ends_is_reported_with_its_exit_code_or_counts_a_restart() {
    let (cluster, _components) = Cluster::with([Component::nodes(1)]).await;
    create_ending(&cluster, "done", "Never", "0").await;
    create_ending(&cluster, "broken", "OnFailure", "7").await;
    create_ending(&cluster, "failed", "Never", "3").await;
    cluster
        .until("three running pods", |cluster| running(cluster) == 3)
        .await;
    let pods = cluster.client("test").namespaced::<Pod>("default");
    let label =
        setpoint_client::Patch::merge(&serde_json::json!({"metadata": {"labels": {"mine": "yes"}}})).unwrap();
    for name in ["done", "failed"] {
        pods.patch(name, &label).await.unwrap();
    }
    let ended = |cluster: &Cluster, name: &str| {
        let pod: Pod = cluster.find(name).unwrap();
        let state = pod.status.unwrap().container_statuses.unwrap().remove(0).state;
        state.and_then(|state| state.terminated).map(|end| end.exit_code)
    };
    cluster
        .until("two ends and a restart", |cluster| {
            let broken: Pod = cluster.find("broken").unwrap();
            let restarts = broken
                .status
                .and_then(|status| Some(status.container_statuses?[0].restart_count));
            restarts >= Some(2) && ended(cluster, "done").is_some() && ended(cluster, "failed").is_some()
        })
        .await;
    for (name, expected, code) in [("done", "Succeeded", 0), ("failed", "Failed", 3)] {
        let pod: Pod = cluster.find(name).unwrap();
        assert_eq!((phase(&pod), ended(&cluster, name)), (expected, Some(code)));
        assert_eq!(pod.metadata.labels.unwrap()["mine"], "yes");
    }
    assert_eq!(phase(&cluster.find("broken").unwrap()), "Running");
}
