//! Deletes pods from nodes whose taints they do not bear, or do not bear any longer.
//!
//! How long a pod may stay is decided in [`mod@plan`] (pure), from the taints of its node and what it tolerates.

mod plan;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use setpoint_api::{Change, Clock, Key};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Reconcile, Recorder, Typed,
};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::eviction::{self, Cause};
use crate::pods::{self, BY_NODE};
use crate::taint_eviction::plan::{NodeTaints, PodTolerations, Stay, stay};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "taint-eviction-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let pods: Lister<Pod> = context.lister()?;
    pods::index_by_node(&pods);
    let reconciler = Eviction {
        pods: pods.clone(),
        nodes: context.lister()?,
        client: context.client.clone(),
        clock: context.clock.clone(),
        events: context.events.of(NAME),
    };
    Controller::new(NAME, reconciler)
        .reconciles::<Pod>()
        .watches(Node::resource().group_resource(), move |change| {
            tainted(&pods, change)
        })
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler. Its keys are those of pods.
#[derive(Debug)]
struct Eviction {
    pods: Lister<Pod>,
    nodes: Lister<Node>,
    client: Client,
    clock: Arc<dyn Clock>,
    events: Recorder,
}

/// The pods of a node whose taints have changed.
fn tainted(pods: &Lister<Pod>, change: &Change) -> Vec<Key> {
    let taints = |node: &setpoint_api::Stored| {
        node.view::<NodeTaints>()
            .map(|view| view.drives_out())
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

impl Reconcile for Eviction {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(pod) = self.pods.find(key).filter(|pod| !pod.header().deleting) else {
            return Ok(Next::Done);
        };
        let node = pod.field("spec.nodeName").filter(|node| !node.is_empty());
        let node = node.and_then(|node| self.nodes.find(&Key::new("", node)));
        let Some(node) = node else { return Ok(Next::Done) };
        let taints = node.view::<NodeTaints>()?.drives_out();
        if taints.is_empty() {
            return Ok(Next::Done);
        }
        let tolerations = pod.view::<PodTolerations>()?;
        match stay(self.clock.now(), &taints, &tolerations) {
            Stay::ForEver => Ok(Next::Done),
            Stay::For(left) => Ok(Next::After(left)),
            Stay::NoLonger => self.evict(&pod).await,
        }
    }
}

impl Eviction {
    async fn evict(&self, pod: &Typed<Pod>) -> Result<Next, Error> {
        let message = format!("Marking for deletion Pod {}", pod.key());
        self.events.normal(pod, "TaintManagerEviction", message);
        let cause = Cause {
            reason: "DeletionByTaintManager",
            message: "Taint manager: deleting due to NoExecute taint",
        };
        eviction::evict(&self.client, self.clock.now(), pod, cause).await?;
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Taint, Toleration};
    use setpoint_testkit::{Cluster, Part, node, pod};

    use super::*;
    use crate::moments;

    #[tokio::test]
    async fn pods_leave_a_node_when_they_bear_its_taint_no_longer() {
        let (cluster, _parts) = Cluster::with([Part::Controller("taint-eviction")]).await;
        let client = cluster.client("test");
        let mut tainted = node("n1").build();
        tainted.spec.get_or_insert_default().taints = Some(vec![Taint {
            key: "broken".to_owned(),
            effect: "NoExecute".to_owned(),
            time_added: Some(moments::written(cluster.clock.now())),
            value: None,
        }]);
        client.all().create(&tainted).await.unwrap();
        let pods = client.namespaced::<Pod>("default");
        for (name, seconds) in [("stays", Some(None)), ("waits", Some(Some(60))), ("goes", None)] {
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
        let is_going = |cluster: &Cluster, name: &str| {
            let pod: Option<Pod> = cluster.find(name);
            pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
        };
        assert_eq!(
            ["stays", "waits", "goes"].map(|name| is_going(&cluster, name)),
            [false, false, true]
        );
        let start = cluster.clock.now();
        cluster
            .until("the other", |cluster| is_going(cluster, "waits"))
            .await;
        let waited = cluster.clock.now().duration_since(start).as_secs();
        assert!((60..70).contains(&waited), "it went after {waited} seconds");
        assert!(!is_going(&cluster, "stays"));
    }
}
