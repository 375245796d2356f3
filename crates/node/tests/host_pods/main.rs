//! Pods on a node whose files are this machine's and whose containers are simulated.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod runtime;

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use runtime::{ENDLESS, PASSWORD, PRIVATE_REGISTRY, TestRuntime};
use serde_json::{Value, json};
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Clock, Status};
use setpoint_client::{Object, Patch};
use setpoint_node::{Config, HostConfig, ImageGcPolicy, Machine, RuntimeConfig};
use setpoint_testkit::{Cluster, Component, RunningComponent};
use tempfile::TempDir;

/// A cluster with the node `node-0`.
struct Node {
    cluster: Cluster,
    runtime: Arc<TestRuntime>,
    directory: TempDir,
    _agent: RunningComponent,
}

impl Node {
    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// A node whose runtime was prepared before its agent starts.
    async fn start_with(prepare: impl FnOnce(&TestRuntime)) -> Self {
        let cluster = Cluster::start().await;
        let machine = Machine::new("node-0", 0);
        let clock: Arc<dyn Clock> = Arc::new(cluster.clock.clone());
        let runtime = TestRuntime::new(&machine, clock);
        prepare(&runtime);
        let directory = tempfile::tempdir().unwrap();
        let host = HostConfig {
            runtime: runtime.clone(),
            root: directory.path().join("node"),
            logs_root: directory.path().join("logs"),
            cluster_dns: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            // No such cgroup can be created, so that the test leaves none behind.
            cgroup_root: "\0".to_owned(),
            eviction_hard: Vec::new(),
            image_gc: ImageGcPolicy {
                high_threshold: 100,
                ..ImageGcPolicy::default()
            },
            provisions_volumes: false,
            static_pods: None,
            shutdown: None,
        };
        let config = Config {
            machines: vec![machine],
            runtime: RuntimeConfig::Containers(host),
            records_events: true,
            ..Config::simulated("node", 0)
        };
        let agent = cluster.run(Component::Nodes(config));
        Self {
            cluster,
            runtime,
            directory,
            _agent: agent,
        }
    }

    async fn create<T: Object>(&self, object: Value) {
        let object: T = serde_json::from_value(object).unwrap();
        let client = self.cluster.client("me");
        let created = match T::is_namespaced() {
            true => client.namespaced::<T>("default").create(&object).await,
            false => client.all::<T>().create(&object).await,
        };
        created.unwrap();
    }

    /// Creates a pod of one container with these fields, and further fields of the spec.
    async fn create_pod(&self, name: &str, container: Value, spec: Value) {
        let mut pod = json!({
            "metadata": { "name": name },
            "spec": {
                "nodeName": "node-0", "terminationGracePeriodSeconds": 1, "enableServiceLinks": true,
                "containers": [{ "name": "main", "image": "public.example/app:1", "imagePullPolicy": "IfNotPresent" }],
            },
        });
        extend(&mut pod["spec"]["containers"][0], container);
        extend(&mut pod["spec"], spec);
        self.create::<Pod>(pod).await;
    }

    async fn create_pull_secret(&self, name: &str, password: &str) {
        let auths = json!({ "auths": { PRIVATE_REGISTRY: { "username": "me", "password": password } } });
        let secret = json!({
            "metadata": { "name": name }, "type": "kubernetes.io/dockerconfigjson",
            "stringData": { ".dockerconfigjson": auths.to_string() },
        });
        self.create::<Secret>(secret).await;
    }

    async fn until_running(&self, name: &str) {
        let is_running = |cluster: &Cluster| pod_status(cluster, name)["phase"] == "Running";
        self.cluster
            .until(&format!("a running pod {name}"), is_running)
            .await;
    }

    /// Waits until the container of a pod waits for this reason.
    async fn until_waiting(&self, name: &str, reason: &str) {
        let is_waiting = |cluster: &Cluster| {
            let status = pod_status(cluster, name);
            status["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
        };
        let what = format!("a pod {name} that waits: {reason}");
        self.cluster.until(&what, is_waiting).await;
    }

    async fn until_event(&self, text: &str) {
        let has_event = |cluster: &Cluster| {
            let events = cluster.list::<Event>();
            let mut messages = events.iter().filter_map(|event| event.message.as_ref());
            messages.any(|message| message.contains(text))
        };
        self.cluster.until(&format!("an event: {text}"), has_event).await;
    }
}

fn pod_status(cluster: &Cluster, name: &str) -> Value {
    serde_json::to_value(cluster.find::<Pod>(name)).unwrap()["status"].clone()
}

fn extend(object: &mut Value, fields: Value) {
    let fields = fields.as_object().unwrap().clone();
    object.as_object_mut().unwrap().extend(fields);
}

fn image(name: &str) -> Value {
    json!({ "image": format!("{PRIVATE_REGISTRY}/{name}") })
}

fn with_secret(name: &str) -> Value {
    json!({ "imagePullSecrets": [{ "name": name }] })
}

#[tokio::test]
async fn an_image_that_was_pulled_with_credentials_needs_those_of_each_pod() {
    let node = Node::start().await;
    node.create_pull_secret("keys", PASSWORD).await;
    node.create_pull_secret("copy", PASSWORD).await;
    node.create_pull_secret("wrong", "wrong").await;
    node.create_pod("owner", image("app:1"), with_secret("keys"))
        .await;
    node.until_running("owner").await;
    assert_eq!(node.runtime.pulls(), 1);
    node.create_pod("other", image("app:1"), with_secret("copy"))
        .await;
    node.until_running("other").await;
    assert_eq!(node.runtime.pulls(), 1, "the same credentials need no pull");
    node.create_pod("guest", image("app:1"), json!({})).await;
    node.until_waiting("guest", "ImagePullBackOff").await;
    node.create_pod("thief", image("app:1"), with_secret("wrong"))
        .await;
    node.until_waiting("thief", "ImagePullBackOff").await;
    let mut never = image("app:1");
    never["imagePullPolicy"] = json!("Never");
    node.create_pod("never", never, json!({})).await;
    node.until_waiting("never", "ErrImageNeverPull").await;
}

#[tokio::test]
async fn an_image_that_was_there_before_and_a_public_one_need_no_credentials() {
    let loaded = format!("{PRIVATE_REGISTRY}/loaded:1");
    let node = Node::start_with(|runtime| runtime.add_image(&loaded)).await;
    node.create_pod("loaded", image("loaded:1"), json!({})).await;
    node.until_running("loaded").await;
    assert_eq!(node.runtime.pulls(), 0);
    for name in ["first", "second"] {
        node.create_pod(name, json!({}), json!({})).await;
        node.until_running(name).await;
    }
    assert_eq!(node.runtime.pulls(), 1);
}

#[tokio::test]
async fn the_image_of_a_volume_is_pulled_by_its_policy_and_with_its_pods_credentials() {
    let node = Node::start().await;
    node.create_pull_secret("keys", PASSWORD).await;
    let mounts = json!({ "volumeMounts": [{ "name": "data", "mountPath": "/data" }] });
    let volume = |policy: &str, secret: &str| {
        let image = json!({ "reference": format!("{PRIVATE_REGISTRY}/data:1"), "pullPolicy": policy });
        json!({
            "volumes": [{ "name": "data", "image": image }], "imagePullSecrets": [{ "name": secret }],
        })
    };
    node.create_pod("never", mounts.clone(), volume("Never", "keys"))
        .await;
    node.until_waiting("never", "ErrImageNeverPull").await;
    node.create_pod("first", mounts.clone(), volume("IfNotPresent", "keys"))
        .await;
    node.until_running("first").await;
    assert_eq!(
        node.runtime.pulls(),
        2,
        "the image of the volume and that of the container"
    );
    node.create_pod("always", mounts.clone(), volume("Always", "keys"))
        .await;
    node.until_running("always").await;
    assert_eq!(node.runtime.pulls(), 3);
    node.create_pod("guest", mounts, volume("IfNotPresent", "none"))
        .await;
    node.until_waiting("guest", "ImagePullBackOff").await;
}

#[tokio::test]
async fn a_post_start_hook_ends_when_its_pod_is_deleted() {
    let node = Node::start().await;
    let hook = json!({ "lifecycle": { "postStart": { "exec": { "command": [ENDLESS] } } } });
    node.create_pod("web", hook, json!({})).await;
    let runtime = node.runtime.clone();
    let has_begun = move |_: &Cluster| runtime.commands() == 1;
    node.cluster.until("a hook that runs", has_begun).await;
    let pods = node.cluster.client("me").namespaced::<Pod>("default");
    pods.delete("web", DeleteOptions::default()).await.unwrap();
    let is_gone = |cluster: &Cluster| cluster.find::<Pod>("web").is_none();
    node.cluster.until("a deleted pod", is_gone).await;
}

#[tokio::test]
async fn a_pod_whose_work_panicked_is_started_nevertheless() {
    let node = Node::start_with(|runtime| runtime.panic_at_creations(2)).await;
    node.create_pod("web", json!({}), json!({})).await;
    node.until_running("web").await;
}

#[tokio::test]
async fn an_agent_starts_although_its_runtime_does_not_respond_for_a_moment() {
    let node = Node::start_with(|runtime| runtime.fail_lists(3)).await;
    node.create_pod("web", json!({}), json!({})).await;
    node.until_running("web").await;
}

#[tokio::test]
async fn a_node_whose_registration_panicked_is_registered_and_renews_its_lease() {
    let node = Node::start_with(|runtime| runtime.panic_at_status(1)).await;
    let has_lease = |cluster: &Cluster| !cluster.list::<Lease>().is_empty();
    node.cluster.until("a renewed Lease", has_lease).await;
}

#[tokio::test]
async fn a_container_waits_until_its_services_can_be_read() {
    let node = Node::start().await;
    let is_services = |resource: &str| resource == "services";
    node.cluster
        .interceptor
        .reject(move |call| is_services(&call.resource).then(|| Status::unavailable("out of service")));
    node.create_pod("web", json!({}), json!({})).await;
    node.until_waiting("web", "CreateContainerConfigError").await;
    node.until_event("services have not yet been read at least once, cannot construct envvars")
        .await;
    node.cluster.interceptor.allow_all();
    node.until_running("web").await;
    // The next container has those that were read, whatever happens to the API server.
    node.cluster
        .interceptor
        .reject(move |call| is_services(&call.resource).then(|| Status::unavailable("out of service")));
    node.create_pod("later", json!({}), json!({})).await;
    node.until_running("later").await;
}

/// Creates a volume that can be reached from one node, bound to a claim of the same name.
async fn create_volume(node: &Node, name: &str, host: &str) {
    let path = node.directory.path().join(name);
    std::fs::create_dir(&path).unwrap();
    let is_host = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [host] });
    let claim = json!({
        "metadata": { "name": name },
        "spec": {
            "volumeName": name, "storageClassName": "", "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    node.create::<PersistentVolumeClaim>(claim).await;
    let claims = node
        .cluster
        .client("me")
        .namespaced::<PersistentVolumeClaim>("default");
    let bound = Patch::merge(&json!({ "status": { "phase": "Bound" } })).unwrap();
    let patched = claims.patch_status(name, &bound).await;
    let uid = patched.unwrap().uid().to_owned();
    let volume = json!({
        "metadata": { "name": name },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
            "local": { "path": path },
            "claimRef": { "namespace": "default", "name": name, "uid": uid },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [is_host] }] } },
        },
    });
    node.create::<PersistentVolume>(volume).await;
}

#[tokio::test]
async fn a_volume_is_mounted_only_on_a_node_that_can_reach_it() {
    let node = Node::start().await;
    let volumes = |claim: &str| json!({ "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }] });
    create_volume(&node, "own", "node-0").await;
    create_volume(&node, "foreign", "node-1").await;
    node.create_pod("own", json!({}), volumes("own")).await;
    node.until_running("own").await;
    node.create_pod("foreign", json!({}), volumes("foreign")).await;
    let expected =
        "MountVolume.NodeAffinity check failed for volume \"foreign\" : no matching NodeSelectorTerms";
    node.until_event(expected).await;
    node.until_waiting("foreign", "ContainerCreating").await;
}
