//! [`AgentApi`]: what the server needs of the agent.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::{Value, json};
use setpoint_api::{Clock, Key, Stored};
use setpoint_container_runtime::Runtime;
use setpoint_runtime::Lister;

use crate::machine_usage::MachineUsage;

/// The pods of an agent and the runtime of their containers.
pub trait AgentApi: fmt::Debug + Send + Sync {
    /// The runtime that runs the containers of all nodes of the agent.
    fn runtime(&self) -> &dyn Runtime;

    /// The clock.
    fn clock(&self) -> &Arc<dyn Clock>;

    /// The pod, if it is bound to this node.
    fn find_pod(&self, node: &str, key: &Key) -> Option<Arc<Stored>>;

    /// The pods that are bound to this node.
    fn pods(&self, node: &str) -> Vec<Arc<Stored>>;

    /// The configuration at `/configz`.
    fn configuration(&self) -> Value {
        json!({})
    }

    /// What the machine of the node uses; `None` if that is what its containers use.
    fn machine_usage(&self) -> Option<MachineUsage> {
        None
    }

    /// Further metrics at `/metrics`, in the Prometheus text format.
    fn metrics(&self) -> String {
        String::new()
    }

    /// Metrics of probes at `/metrics/probes`.
    fn probe_metrics(&self) -> String {
        String::new()
    }
}

/// [`AgentApi`] by the agent's cache of pods.
#[derive(Debug)]
pub struct CachedPods {
    /// The pods of all nodes.
    pub pods: Lister<Pod>,
    /// The runtime.
    pub runtime: Arc<dyn Runtime>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Whether the node is this machine.
    pub is_this_machine: bool,
}

impl AgentApi for CachedPods {
    fn runtime(&self) -> &dyn Runtime {
        &*self.runtime
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn machine_usage(&self) -> Option<MachineUsage> {
        self.is_this_machine.then(MachineUsage::read)?
    }

    fn find_pod(&self, node: &str, key: &Key) -> Option<Arc<Stored>> {
        let pod = self.pods.find(key)?;
        is_bound_to(node, pod.stored()).then(|| pod.stored().clone())
    }

    fn pods(&self, node: &str) -> Vec<Arc<Stored>> {
        let pods = self.pods.list();
        let pods = pods.iter().map(|pod| pod.stored());
        pods.filter(|pod| is_bound_to(node, pod)).cloned().collect()
    }
}

/// Whether the pod is bound to the node. Where the header lacks the field, the pod is decoded.
fn is_bound_to(node: &str, pod: &Stored) -> bool {
    match pod.field("spec.nodeName") {
        Some(bound) => bound == node,
        None => pod
            .view::<Binding>()
            .is_ok_and(|binding| binding.spec.node_name == node),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Binding {
    spec: BindingSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BindingSpec {
    node_name: String,
}
