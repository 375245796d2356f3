//! Evicts pods from nodes with NoExecute taints that they do not tolerate, or no longer do.
//!
//! [`mod@plan`] (pure) decides how long a pod may stay, from the taints of its node and its tolerations.

mod plan;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use setpoint_api::{Change, Clock, Key};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Reconcile, Recorder, TypedObject,
};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::eviction::{self, Cause};
use crate::node_fit::NodeView;
use crate::pods::{self, BY_NODE};
use crate::taint_eviction::plan::{PodTolerations, TolerationTime, min_toleration_time};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "taint-eviction-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let pods: Lister<Pod> = context.lister()?;
    pods::index_by_node(&pods);
    let reconciler = TaintEviction {
        pods: pods.clone(),
        nodes: context.lister()?,
        clock: context.clock.clone(),
        events: context.events.for_component(NAME),
    };
    Controller::new(NAME, reconciler)
        .reconciles::<Pod>()
        .watches(Node::resource().group_resource(), move |change| {
            pods_to_enqueue(&pods, change)
        })
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler. Its keys are those of pods.
#[derive(Debug)]
struct TaintEviction {
    pods: Lister<Pod>,
    nodes: Lister<Node>,
    clock: Arc<dyn Clock>,
    events: Recorder,
}

/// The pods of a node whose taints have changed.
fn pods_to_enqueue(pods: &Lister<Pod>, change: &Change) -> Vec<Key> {
    let taints = |node: &setpoint_api::Stored| {
        node.view::<NodeView>()
            .map(|view| view.no_execute_taints())
            .unwrap_or_default()
    };
    let has_changed = match change {
        Change::Added(node) => !taints(node).is_empty(),
        Change::Modified { old, new } => taints(old) != taints(new),
        Change::Deleted { .. } => false,
    };
    if !has_changed {
        return Vec::new();
    }
    let here = pods.indexed(BY_NODE, change.key().name());
    here.iter().map(|pod| pod.key().clone()).collect()
}

impl Reconcile for TaintEviction {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(pod) = self.pods.find(key).filter(|pod| !pod.header().deleting) else {
            return Ok(Next::Done);
        };
        let node = pod.field("spec.nodeName").filter(|node| !node.is_empty());
        let node = node.and_then(|node| self.nodes.find(&Key::new("", node)));
        let Some(node) = node else { return Ok(Next::Done) };
        let taints = node.view::<NodeView>()?.no_execute_taints();
        if taints.is_empty() {
            return Ok(Next::Done);
        }
        let tolerations = pod.view::<PodTolerations>()?;
        match min_toleration_time(self.clock.now(), &taints, &tolerations) {
            TolerationTime::Forever => Ok(Next::Done),
            TolerationTime::For(left) => Ok(Next::After(left)),
            TolerationTime::Expired => self.evict(client, &pod).await,
        }
    }
}

impl TaintEviction {
    async fn evict(&self, client: &Client, pod: &TypedObject<Pod>) -> Result<Next, Error> {
        let message = format!("Marking for deletion Pod {}", pod.key());
        self.events.normal(pod, "TaintManagerEviction", message);
        let cause = Cause {
            reason: "DeletionByTaintManager",
            message: "Taint manager: deleting due to NoExecute taint",
        };
        eviction::evict(client, self.clock.now(), pod, cause).await?;
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Taint, Toleration};
    use setpoint_testkit::{Cluster, Component, node, pod};

    use super::*;
    use crate::api_time;

    #[tokio::test]
    async fn pods_are_evicted_when_their_toleration_expires() {
        let (cluster, _components) = Cluster::with([Component::Controller("taint-eviction")]).await;
        let client = cluster.client("test");
        let mut tainted_node = node("n1").build();
        tainted_node.spec.get_or_insert_default().taints = Some(vec![Taint {
            key: "broken".to_owned(),
            effect: "NoExecute".to_owned(),
            time_added: Some(api_time::from_timestamp(cluster.clock.now())),
            value: None,
        }]);
        client.all().create(&tainted_node).await.unwrap();
        let pods = client.namespaced::<Pod>("default");
        for (name, seconds) in [
            ("stays", Some(None)),
            ("waits", Some(Some(60))),
            ("evicted", None),
        ] {
            let mut pod = pod(name).on("n1").build();
            pod.spec.as_mut().unwrap().tolerations = seconds.map(|toleration_seconds| {
                vec![Toleration {
                    key: Some("broken".to_owned()),
                    operator: Some("Exists".to_owned()),
                    effect: Some("NoExecute".to_owned()),
                    toleration_seconds,
                    value: None,
                }]
            });
            pods.create(&pod).await.unwrap();
        }
        cluster.settle().await;
        let is_terminating = |cluster: &Cluster, name: &str| {
            let pod: Option<Pod> = cluster.find(name);
            pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
        };
        assert_eq!(
            ["stays", "waits", "evicted"].map(|name| is_terminating(&cluster, name)),
            [false, false, true]
        );
        let start = cluster.clock.now();
        cluster
            .until("the other", |cluster| is_terminating(cluster, "waits"))
            .await;
        let waited = cluster.clock.now().duration_since(start).as_secs();
        assert!((60..70).contains(&waited), "it went after {waited} seconds");
        assert!(!is_terminating(&cluster, "stays"));
    }
}
