//! [`MetricsApi`]: NodeMetrics and PodMetrics, as metrics-server would return them.
//!
//! The usage of nodes with a container runtime is read from their agents ([`ResourceMetrics`]); that of simulated nodes
//! follows from their pods. An APIService of a user for the group has precedence: the aggregator forwards its requests.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use setpoint_api::quantity::Format;
use setpoint_api::{Clock, GroupResource, Gvk, Key, Quantity, Status, Stored, go_duration};
use setpoint_apiserver::resource_metrics::{RESOLUTION, ResourceMetrics, Usage};
use setpoint_client::TypedObject;
use setpoint_node::simulated::{self, PodRule};
use setpoint_runtime::{Caches, Lister, Object as _};
use setpoint_schema::Tree;

const GROUP: &str = "metrics.k8s.io";

/// The metrics of nodes and pods.
#[derive(Debug)]
pub(super) struct MetricsApi {
    /// What was read of nodes with a container runtime.
    pub(super) read: Arc<ResourceMetrics>,
    /// The rules of the simulated nodes of this process.
    rules: Vec<PodRule>,
    nodes: Lister<Node>,
    pods: Lister<Pod>,
    clock: Arc<dyn Clock>,
}

impl MetricsApi {
    pub(super) fn new(caches: &dyn Caches, rules: Vec<PodRule>, clock: &Arc<dyn Clock>) -> Result<Self> {
        let cache = |resource: &GroupResource| caches.cache(resource).context("nodes and pods are served");
        Ok(Self {
            read: Arc::default(),
            rules,
            nodes: Lister::new(cache(&Node::resource().group_resource())?),
            pods: Lister::new(cache(&Pod::resource().group_resource())?),
            clock: clock.clone(),
        })
    }

    /// Whether it has the objects of a kind.
    pub(super) fn serves(gvk: &Gvk) -> bool {
        gvk.group == GROUP
    }

    /// The metrics of all nodes, or of the pods of a namespace. Nodes and pods without metrics are left out.
    pub(super) fn objects(&self, gvk: &Gvk, namespace: &str) -> Vec<Tree> {
        if gvk.kind == "NodeMetrics" {
            return self.all_nodes();
        }
        let simulated = self.simulated_nodes();
        let pods = match namespace {
            "" => self.pods.list(),
            namespace => self.pods.in_namespace(namespace),
        };
        let metrics = pods
            .iter()
            .filter_map(|pod| self.pod(pod, simulated.contains(node_of(pod))));
        sorted(metrics.collect())
    }

    /// The metrics of one node or pod, or metrics-server's error if there are none.
    pub(super) fn find(&self, gvk: &Gvk, key: &Key) -> Result<Tree, Status> {
        if gvk.kind == "NodeMetrics" {
            let node = self.nodes.find(key);
            let node = node.ok_or_else(|| Status::not_found(&GroupResource::new("", "node"), key.name()))?;
            let metrics = self.node(&node);
            return metrics
                .ok_or_else(|| Status::not_found(&GroupResource::new(GROUP, "nodemetrics"), key.name()));
        }
        let pod = self.pods.find(key);
        let pod = pod.ok_or_else(|| Status::not_found(&GroupResource::new("", "pods"), key.name()))?;
        let node = self.nodes.find(&Key::new("", node_of(&pod)));
        let metrics = self.pod(&pod, node.is_some_and(|node| is_simulated(node.stored())));
        let name = format!("{}/{}", key.namespace(), key.name());
        metrics.ok_or_else(|| Status::not_found(&GroupResource::new(GROUP, "podmetrics"), &name))
    }

    fn all_nodes(&self) -> Vec<Tree> {
        let nodes = self.nodes.list();
        let mut sums = self.sums_of_simulated_nodes();
        let metrics = nodes.iter().filter_map(|node| {
            let name = node.stored().key().name();
            let usage = match is_simulated(node.stored()) {
                true => Some(sums.remove(name).unwrap_or_else(|| self.usage(0, 0))),
                false => self.read.node(name),
            };
            Some(self.node_metrics(node.stored(), &usage?))
        });
        sorted(metrics.collect())
    }

    fn node(&self, node: &TypedObject<Node>) -> Option<Tree> {
        let name = node.stored().key().name();
        let usage = match is_simulated(node.stored()) {
            false => self.read.node(name)?,
            true => {
                let pods = self.pods.list();
                let own = pods.iter().filter(|pod| node_of(pod) == name);
                self.sum(own.flat_map(|pod| self.simulated_usage(pod)))
            }
        };
        Some(self.node_metrics(node.stored(), &usage))
    }

    fn node_metrics(&self, node: &Stored, usage: &Usage) -> Tree {
        let mut metrics = self.metrics("NodeMetrics", node, usage);
        metrics.set(&["usage"], resource_list(usage));
        metrics
    }

    fn pod(&self, pod: &TypedObject<Pod>, is_simulated: bool) -> Option<Tree> {
        let key = pod.stored().key();
        let containers = match is_simulated {
            true => self.simulated_usage(pod),
            false => self.read.pod(node_of(pod), key)?,
        };
        let earliest = containers
            .iter()
            .map(|(_, usage)| usage)
            .min_by_key(|usage| usage.time)?;
        let mut metrics = self.metrics("PodMetrics", pod.stored(), earliest);
        let containers = containers.iter().map(|(name, usage)| {
            let mut container = Tree::default();
            container.set(&["name"], name.as_str());
            container.set(&["usage"], resource_list(usage));
            container
        });
        metrics.set(&["containers"], containers.collect::<Vec<Tree>>());
        Some(metrics)
    }

    /// The running containers of a simulated pod.
    fn simulated_usage(&self, pod: &TypedObject<Pod>) -> Vec<(String, Usage)> {
        let usages = pod
            .to_owned()
            .map(|pod| simulated::usage::usage_of_pod(&self.rules, pod));
        let usages = usages.unwrap_or_default().into_iter();
        usages
            .map(|(name, usage)| (name, self.usage(usage.cpu_nanocores, usage.memory_bytes)))
            .collect()
    }

    /// The usage of the pods of each simulated node that has any.
    fn sums_of_simulated_nodes(&self) -> BTreeMap<String, Usage> {
        let simulated = self.simulated_nodes();
        let mut containers: BTreeMap<String, Vec<(String, Usage)>> = BTreeMap::new();
        for pod in self.pods.list() {
            let node = node_of(&pod);
            if simulated.contains(node) {
                let own = containers.entry(node.to_owned()).or_default();
                own.extend(self.simulated_usage(&pod));
            }
        }
        let sums = containers
            .into_iter()
            .map(|(node, containers)| (node, self.sum(containers.into_iter())));
        sums.collect()
    }

    fn simulated_nodes(&self) -> HashSet<String> {
        let nodes = self.nodes.list();
        let simulated = nodes.iter().filter(|node| is_simulated(node.stored()));
        simulated
            .map(|node| node.stored().key().name().to_owned())
            .collect()
    }

    fn sum(&self, containers: impl Iterator<Item = (String, Usage)>) -> Usage {
        let (cpu, memory) = containers.fold((0, 0), |(cpu, memory), (_, usage)| {
            (cpu + usage.cpu_nanocores, memory + usage.memory_bytes)
        });
        self.usage(cpu, memory)
    }

    /// A usage that is the same at all times.
    fn usage(&self, cpu_nanocores: u64, memory_bytes: u64) -> Usage {
        Usage {
            time: self.clock.now(),
            window: RESOLUTION,
            cpu_nanocores,
            memory_bytes,
        }
    }

    /// The fields that both kinds have.
    fn metrics(&self, kind: &str, of: &Stored, usage: &Usage) -> Tree {
        let mut metrics = Tree::default();
        metrics.set(&["apiVersion"], format!("{GROUP}/v1beta1"));
        metrics.set(&["kind"], kind);
        metrics.set(&["metadata", "name"], of.key().name());
        if !of.key().namespace().is_empty() {
            metrics.set(&["metadata", "namespace"], of.key().namespace());
        }
        for (label, value) in &of.header().labels {
            metrics.set(&["metadata", "labels", label.as_str()], value.as_str());
        }
        metrics.set(&["metadata", "creationTimestamp"], seconds(self.clock.now()));
        metrics.set(&["timestamp"], seconds(usage.time));
        metrics.set(&["window"], go_duration::format(to_milliseconds(usage.window)));
        metrics
    }
}

/// The selector of the nodes whose agents are read.
pub(super) const READ_NODES: &str = "node.setpoint.dev/runtime!=simulated";

fn is_simulated(node: &Stored) -> bool {
    node.label("node.setpoint.dev/runtime") == Some(simulated::NAME)
}

fn node_of(pod: &TypedObject<Pod>) -> &str {
    pod.stored().field("spec.nodeName").unwrap_or_default()
}

fn resource_list(usage: &Usage) -> Tree {
    let cpu: Quantity = format!("{}n", usage.cpu_nanocores).parse().unwrap_or_default();
    let memory = i64::try_from(usage.memory_bytes).unwrap_or(i64::MAX);
    let mut list = Tree::default();
    list.set(&["cpu"], cpu.to_string());
    list.set(&["memory"], Quantity::new(memory, Format::BinarySi).to_string());
    list
}

/// By namespace and name, as metrics-server returns them.
fn sorted(mut metrics: Vec<Tree>) -> Vec<Tree> {
    let text = |tree: &Tree, field: &str| tree.str_at(&["metadata", field]).unwrap_or_default().to_owned();
    metrics.sort_by_cached_key(|tree| (text(tree, "namespace"), text(tree, "name")));
    metrics
}

/// A time as objects have it, in whole seconds.
fn seconds(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second()).unwrap_or(time);
    whole.to_string()
}

fn to_milliseconds(window: Duration) -> Duration {
    Duration::from_millis(u64::try_from(window.as_millis()).unwrap_or(u64::MAX))
}
