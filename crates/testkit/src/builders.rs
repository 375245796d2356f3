//! Object builders: `pod("web").on("n1")`. Fields that a test does not set are left out.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStrategy, ReplicaSet};
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, HostPathVolumeSource, Namespace, Node, NodeSpec, NodeStatus, PersistentVolume,
    PersistentVolumeSpec, Pod, PodSpec, PodTemplateSpec, ResourceRequirements, Service, ServicePort,
    ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Builder of a pod, in the default namespace unless set otherwise.
#[derive(Debug, Clone)]
pub struct PodBuilder(Pod);

/// Builder of a ReplicaSet. It selects `app=<name>`.
#[derive(Debug, Clone)]
pub struct ReplicaSetBuilder(ReplicaSet);

/// Builder of a Deployment. It selects `app=<name>`.
#[derive(Debug, Clone)]
pub struct DeploymentBuilder(Deployment);

/// Builder of a Service. It selects `app=<name>`.
#[derive(Debug, Clone)]
pub struct ServiceBuilder(Service);

/// Builder of a Node, with capacity for 110 pods.
#[derive(Debug, Clone)]
pub struct NodeBuilder(Node);

/// A pod with one container.
pub fn pod(name: &str) -> PodBuilder {
    let mut pod = Pod {
        metadata: object_meta("default", name),
        ..Pod::default()
    };
    pod.spec = Some(PodSpec {
        containers: vec![container()],
        ..PodSpec::default()
    });
    PodBuilder(pod)
}

/// A ReplicaSet of one replica.
pub fn replica_set(name: &str) -> ReplicaSetBuilder {
    let labels = BTreeMap::from([("app".to_owned(), name.to_owned())]);
    let mut template = PodTemplateSpec::default();
    template.metadata.get_or_insert_default().labels = Some(labels.clone());
    template.spec = pod(name).0.spec;
    let mut set = ReplicaSet {
        metadata: object_meta("default", name),
        ..ReplicaSet::default()
    };
    set.spec.replicas = Some(1);
    set.spec.selector.match_labels = Some(labels);
    set.spec.template = Some(template);
    ReplicaSetBuilder(set)
}

/// A Deployment of one replica.
pub fn deployment(name: &str) -> DeploymentBuilder {
    let set = replica_set(name).0;
    let mut deployment = Deployment {
        metadata: set.metadata,
        ..Deployment::default()
    };
    deployment.spec.replicas = set.spec.replicas;
    deployment.spec.selector = set.spec.selector;
    deployment.spec.template = set.spec.template.unwrap_or_default();
    DeploymentBuilder(deployment)
}

/// A headless Service with one port, since tests may run without the admission that allocates cluster IPs.
pub fn service(name: &str, port: i32) -> ServiceBuilder {
    let spec = ServiceSpec {
        cluster_ip: Some("None".to_owned()),
        cluster_ips: Some(vec!["None".to_owned()]),
        ip_families: Some(vec!["IPv4".to_owned()]),
        ports: Some(vec![ServicePort {
            port,
            ..ServicePort::default()
        }]),
        selector: Some([("app".to_owned(), name.to_owned())].into()),
        ..ServiceSpec::default()
    };
    ServiceBuilder(Service {
        metadata: object_meta("default", name),
        spec: Some(spec),
        status: None,
    })
}

/// A schedulable Node.
pub fn node(name: &str) -> NodeBuilder {
    let mut node = Node {
        metadata: object_meta("", name),
        ..Node::default()
    };
    node.spec = Some(NodeSpec::default());
    NodeBuilder(node).capacity("pods", "110")
}

/// A namespace.
pub fn namespace(name: &str) -> Namespace {
    Namespace {
        metadata: object_meta("", name),
        ..Namespace::default()
    }
}

/// A PersistentVolume of 1Gi without a storage class, on every node.
pub fn persistent_volume(name: &str) -> PersistentVolume {
    PersistentVolume {
        metadata: object_meta("", name),
        spec: Some(PersistentVolumeSpec {
            capacity: Some([("storage".to_owned(), Quantity("1Gi".to_owned()))].into()),
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            host_path: Some(HostPathVolumeSource {
                path: "/data".to_owned(),
                ..HostPathVolumeSource::default()
            }),
            ..PersistentVolumeSpec::default()
        }),
        ..PersistentVolume::default()
    }
}

/// A ConfigMap with one entry.
pub fn config_map(name: &str, key: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: object_meta("default", name),
        data: Some([(key.to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

// === impl PodBuilder ===

impl PodBuilder {
    /// The same in this namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.0.metadata.namespace = Some(namespace.to_owned());
        self
    }

    /// The same, bound to this node.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.spec().node_name = Some(node.to_owned());
        self
    }

    /// The same with this label.
    #[must_use]
    pub fn label(mut self, name: &str, value: &str) -> Self {
        let labels = self.0.metadata.labels.get_or_insert_default();
        labels.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Its container requests this much of a resource.
    #[must_use]
    pub fn requesting(mut self, resource: &str, amount: &str) -> Self {
        set_request(&mut self.spec().containers[0], resource, amount);
        self
    }

    /// The pod.
    pub fn build(self) -> Pod {
        self.0
    }

    fn spec(&mut self) -> &mut PodSpec {
        self.0.spec.get_or_insert_default()
    }
}

// === impl ReplicaSetBuilder ===

impl ReplicaSetBuilder {
    /// The same in this namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.0.metadata.namespace = Some(namespace.to_owned());
        self
    }

    /// The same with this many replicas.
    #[must_use]
    pub fn replicas(mut self, replicas: i32) -> Self {
        self.0.spec.replicas = Some(replicas);
        self
    }

    /// The same with this `minReadySeconds`.
    #[must_use]
    pub fn min_ready_seconds(mut self, seconds: i32) -> Self {
        self.0.spec.min_ready_seconds = Some(seconds);
        self
    }

    /// Each of its pods requests this much of a resource.
    #[must_use]
    pub fn requesting(mut self, resource: &str, amount: &str) -> Self {
        let template = self.0.spec.template.get_or_insert_default();
        set_request(
            &mut template.spec.get_or_insert_default().containers[0],
            resource,
            amount,
        );
        self
    }

    /// The ReplicaSet.
    pub fn build(self) -> ReplicaSet {
        self.0
    }
}

// === impl DeploymentBuilder ===

impl DeploymentBuilder {
    /// The same with this many replicas.
    #[must_use]
    pub fn replicas(mut self, replicas: i32) -> Self {
        self.0.spec.replicas = Some(replicas);
        self
    }

    /// With the strategy Recreate.
    #[must_use]
    pub fn recreate(mut self) -> Self {
        self.0.spec.strategy = Some(DeploymentStrategy {
            type_: Some("Recreate".to_owned()),
            rolling_update: None,
        });
        self
    }

    /// With this `progressDeadlineSeconds`.
    #[must_use]
    pub fn progress_deadline(mut self, seconds: i32) -> Self {
        self.0.spec.progress_deadline_seconds = Some(seconds);
        self
    }

    /// With this `revisionHistoryLimit`.
    #[must_use]
    pub fn history_limit(mut self, limit: i32) -> Self {
        self.0.spec.revision_history_limit = Some(limit);
        self
    }

    /// The Deployment.
    pub fn build(self) -> Deployment {
        self.0
    }
}

// === impl ServiceBuilder ===

impl ServiceBuilder {
    /// The Service.
    pub fn build(self) -> Service {
        self.0
    }
}

// === impl NodeBuilder ===

impl NodeBuilder {
    /// With this much capacity of a resource.
    #[must_use]
    pub fn capacity(mut self, resource: &str, amount: &str) -> Self {
        let status = self.0.status.get_or_insert_with(NodeStatus::default);
        let amount = Quantity(amount.to_owned());
        for amounts in [&mut status.capacity, &mut status.allocatable] {
            amounts
                .get_or_insert_default()
                .insert(resource.to_owned(), amount.clone());
        }
        self
    }

    /// The same, cordoned.
    #[must_use]
    pub fn unschedulable(mut self) -> Self {
        self.0.spec.get_or_insert_default().unschedulable = Some(true);
        self
    }

    /// The Node.
    pub fn build(self) -> Node {
        self.0
    }
}

fn object_meta(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn container() -> Container {
    Container {
        name: "main".to_owned(),
        image: Some("example.com/app:1".to_owned()),
        ..Container::default()
    }
}

fn set_request(container: &mut Container, resource: &str, amount: &str) {
    let resources = container
        .resources
        .get_or_insert_with(ResourceRequirements::default);
    let requests = resources.requests.get_or_insert_default();
    requests.insert(resource.to_owned(), Quantity(amount.to_owned()));
}
