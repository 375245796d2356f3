//! Monitors node heartbeats, and turns node conditions into taints.
//!
//! A node is healthy while its lease or its status is renewed. After the grace period its conditions become Unknown,
//! its pods become unready, and its taints evict them in time (see [`crate::taint_eviction`]). [`mod@plan`] decides, and
//! [`zones`] at which rate nodes are evicted; the time of the last heartbeat is kept here, by this process's clock, so
//! that the clocks of nodes do not matter.

mod plan;
mod zones;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, ObjectReference, Pod};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use setpoint_api::{Clock, Key};
use setpoint_runtime::{
    Client, Context, Controller, Error, EventType, Lister, Next, Object, Patch, Reconcile, Recorder,
    TypedObject,
};
use tokio_util::sync::CancellationToken;

use crate::node_lifecycle::plan::{
    Eviction, NodeView, beta_labels, needs_eviction, taints, unknown_conditions,
};
use crate::node_lifecycle::zones::{Transition, Zones};
use crate::pods::{self, BY_NODE};
use crate::{Config, api_time};

pub use zones::Settings;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "node-lifecycle-controller";

const LEASES: &str = "kube-node-lease";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let pods: Lister<Pod> = context.lister()?;
    pods::index_by_node(&pods);
    let reconciler = Lifecycle {
        nodes: context.lister()?,
        leases: context.lister()?,
        pods,
        clock: context.clock.clone(),
        events: context.events.for_component("node-controller"),
        settings: config.node_lifecycle,
        health_by_node: Mutex::default(),
        zones: Mutex::new(Zones::new(config.node_lifecycle)),
    };
    Controller::new(NAME, reconciler)
        .reconciles::<Node>()
        .reads(Lease::resource().group_resource())
        .reads(Pod::resource().group_resource())
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Lifecycle {
    nodes: Lister<Node>,
    leases: Lister<Lease>,
    pods: Lister<Pod>,
    clock: Arc<dyn Clock>,
    events: Recorder,
    settings: Settings,
    /// The last heartbeat of each node: what it was, and when it was observed.
    health_by_node: Mutex<HashMap<Key, NodeHealth>>,
    zones: Mutex<Zones>,
}

/// The last heartbeat of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NodeHealth {
    uid: String,
    renewed: Option<Timestamp>,
    heartbeat: Option<Timestamp>,
    observed_at: Timestamp,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LeaseView {
    spec: LeaseSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LeaseSpec {
    renew_time: Option<Timestamp>,
}

impl Reconcile for Lifecycle {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(node) = self.nodes.find(key) else {
            self.forget(client, key).await;
            return Ok(Next::Done);
        };
        let mut view = node.view::<NodeView>()?.as_ref().clone();
        let left = self.time_left(&node, &view);
        if left.is_none()
            && let Some(conditions) = unknown_conditions(self.clock.now(), &view)
        {
            self.report(client, &node, &view, &conditions).await?;
            view.status.conditions = conditions;
        }
        self.observe(client, key, &view).await;
        if matches!(view.status_of("Ready"), Some("False" | "Unknown")) {
            self.unready_pods(client, key.name()).await?;
        }
        let (eviction, retry) = self.eviction(&view);
        if taints(self.clock.now(), &view, eviction) != view.spec.taints {
            self.taint(client, key.name(), eviction).await?;
        }
        self.label(client, key.name(), &view).await?;
        // A node that reports again updates its status, which enqueues it.
        let left = left.unwrap_or(self.settings.grace_period);
        Ok(Next::After(retry.map_or(left, |retry| retry.min(left))))
    }
}

impl Lifecycle {
    /// How long until the grace period ends; `None` if it has.
    fn time_left(&self, node: &TypedObject<Node>, view: &NodeView) -> Option<Duration> {
        let now = self.clock.now();
        let lease = self.leases.find(&Key::new(LEASES, node.key().name()));
        let renewed = lease.and_then(|lease| lease.view::<LeaseView>().ok()?.spec.renew_time);
        let heartbeat = view.heartbeat();
        let mut health_by_node = self.health_by_node.lock();
        let last = health_by_node.get(node.key());
        let health = match last {
            Some(last) if last.renewed == renewed && last.heartbeat == heartbeat => last.clone(),
            // The node's own timestamp is more precise if it lies between the last observation and now.
            _ => {
                let written = renewed.max(heartbeat).filter(|time| *time <= now);
                let written = written.filter(|time| last.is_some_and(|last| *time > last.observed_at));
                NodeHealth {
                    uid: node.uid().to_owned(),
                    renewed,
                    heartbeat,
                    observed_at: written.unwrap_or(now),
                }
            }
        };
        if last.is_none() {
            let message = format!("Registered Node {} in Controller", node.key().name());
            self.record(node.key(), node.uid(), "RegisteredNode", &message);
        }
        let observed_at = health.observed_at;
        health_by_node.insert(node.key().clone(), health);
        let has_reported = renewed.is_some() || heartbeat.is_some();
        let grace = match has_reported {
            true => self.settings.grace_period,
            false => self.settings.startup_grace_period,
        };
        api_time::duration_until(now, observed_at.saturating_add(grace).unwrap_or(Timestamp::MAX))
    }

    /// Takes a deleted node out of its zone.
    async fn forget(&self, client: &Client, key: &Key) {
        let Some(health) = self.health_by_node.lock().remove(key) else {
            return;
        };
        let message = format!("Removing Node {} from Controller", key.name());
        self.record(key, &health.uid, "RemovingNode", &message);
        let transition = self.zones.lock().remove(self.clock.now(), key);
        self.handle(client, transition).await;
    }

    /// Updates the zone of a node. The first node brings all others along, so that no zone is judged by a part of it.
    async fn observe(&self, client: &Client, key: &Key, view: &NodeView) {
        let now = self.clock.now();
        let transition = {
            let mut zones = self.zones.lock();
            if zones.is_empty() {
                let nodes = self.nodes.list();
                let views = nodes
                    .iter()
                    .filter_map(|node| Some((node.key(), node.view::<NodeView>().ok()?)));
                let views: Vec<_> = views.collect();
                zones.fill(now, views.iter().map(|(key, view)| (*key, &**view)));
            }
            zones.observe(now, key, view)
        };
        self.handle(client, transition).await;
    }

    async fn handle(&self, client: &Client, transition: Transition) {
        match transition {
            Transition::None => {}
            Transition::EnteredFullDisruption => {
                tracing::warn!("no node is ready: evictions are stopped");
                self.stop_evictions(client).await;
            }
            Transition::ExitedFullDisruption => {
                tracing::info!("a node is ready again: evictions go on");
                let now = self.clock.now();
                let mut health_by_node = self.health_by_node.lock();
                health_by_node
                    .values_mut()
                    .for_each(|health| health.observed_at = now);
            }
        }
    }

    /// Removes the taints that evict pods from all nodes. Where that fails, the node's own reconcile tries again.
    async fn stop_evictions(&self, client: &Client) {
        for node in self.nodes.list() {
            let stopped = self.taint(client, node.key().name(), Eviction::Stopped).await;
            if let Err(error) = stopped {
                tracing::warn!(node = %node.key(), %error, "cannot remove the taints of a node");
            }
        }
    }

    /// Whether the node may be evicted; if not yet, also how long until that is tried again.
    fn eviction(&self, view: &NodeView) -> (Eviction, Option<Duration>) {
        let mut zones = self.zones.lock();
        if zones.is_stopped() {
            return (Eviction::Stopped, Some(self.settings.monitor_period));
        }
        if !needs_eviction(view) {
            return (Eviction::Allowed, None);
        }
        match zones.try_evict(self.clock.now(), view) {
            Ok(()) => (Eviction::Allowed, None),
            Err(wait) => (Eviction::RateLimited, Some(wait)),
        }
    }

    /// Records an event about a node that may have been deleted.
    fn record(&self, key: &Key, uid: &str, reason: &str, message: &str) {
        let message = format!("Node {} event: {message}", key.name());
        self.events.record(
            node_reference(key.name(), uid),
            EventType::Normal,
            reason,
            message,
        );
    }

    /// Writes the conditions of a silent node. The event is only for a node that was ready.
    async fn report(
        &self,
        client: &Client,
        node: &TypedObject<Node>,
        before: &NodeView,
        conditions: &[NodeCondition],
    ) -> Result<(), Error> {
        let name = node.key().name();
        let mut updated = node.to_owned()?;
        updated.status.get_or_insert_default().conditions = Some(conditions.to_vec());
        client.all::<Node>().update_status(&updated).await?;
        if before.status_of("Ready") == Some("True") {
            let message = format!("Node {name} status is now: NodeNotReady");
            let reference = node_reference(name, node.uid());
            self.events
                .record(reference, EventType::Normal, "NodeNotReady", message);
        }
        Ok(())
    }

    /// Marks the pods of an unhealthy node as not ready.
    async fn unready_pods(&self, client: &Client, node: &str) -> Result<(), Error> {
        for pod in self.pods.indexed(BY_NODE, node) {
            let view = pods::Pod::read(pod.stored().clone());
            if !view.view().is_ready() || view.is_finished() {
                continue;
            }
            let condition = json!({
                "type": "Ready",
                "status": "False",
                "lastTransitionTime": api_time::from_timestamp(self.clock.now()),
            });
            let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
            let handle = client.namespaced::<Pod>(pod.key().namespace());
            match handle
                .patch_status(pod.key().name(), &Patch::strategic(&patch)?)
                .await
            {
                Err(status) if status.is_not_found() || status.is_conflict() => continue,
                patched => drop(patched?),
            }
            self.events.warning(&pod, "NodeNotReady", "Node is not ready");
        }
        Ok(())
    }

    /// Sets the node's taints, on its newest version, since another client may have tainted it meanwhile.
    async fn taint(&self, client: &Client, name: &str, eviction: Eviction) -> Result<(), Error> {
        let newest = match client.all::<Node>().get(name).await {
            Err(status) if status.is_not_found() => return Ok(()),
            newest => newest?,
        };
        let view = newest.view::<NodeView>()?;
        let taints = taints(self.clock.now(), &view, eviction);
        if taints == view.spec.taints {
            return Ok(());
        }
        let mut updated = newest.to_owned()?;
        updated.spec.get_or_insert_default().taints = (!taints.is_empty()).then_some(taints);
        client.all::<Node>().update(&updated).await?;
        Ok(())
    }

    /// Sets the deprecated labels that follow the stable ones.
    async fn label(&self, client: &Client, name: &str, view: &NodeView) -> Result<(), Error> {
        let labels = beta_labels(view);
        if labels.is_empty() {
            return Ok(());
        }
        let patch = Patch::strategic(&json!({"metadata": {"labels": labels}}))?;
        match client.all::<Node>().patch(name, &patch).await {
            Err(status) if status.is_not_found() => Ok(()),
            patched => Ok(patched.map(drop)?),
        }
    }
}

/// The reference to a node in its events, as upstream writes it.
fn node_reference(name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Event, PodCondition};
    use setpoint_testkit::{Cluster, Component, node, pod};

    use super::*;

    fn ready(cluster: &Cluster) -> Option<String> {
        let node: Node = cluster.find("node-0")?;
        let conditions = node.status?.conditions?;
        conditions
            .into_iter()
            .find(|own| own.type_ == "Ready")
            .map(|own| own.status)
    }

    fn taint_keys(cluster: &Cluster) -> Vec<String> {
        let node: Option<Node> = cluster.find("node-0");
        let taints = node.and_then(|node| node.spec?.taints).unwrap_or_default();
        taints
            .into_iter()
            .map(|taint| format!("{}:{}", taint.key, taint.effect))
            .collect()
    }

    #[tokio::test]
    async fn a_silent_node_becomes_unknown_and_recovers() {
        let (cluster, mut components) = Cluster::with([
            Component::Controller("node-lifecycle"),
            Component::Scheduler,
            Component::nodes(1),
        ])
        .await;
        cluster
            .client("test")
            .namespaced("default")
            .create(&pod("one").build())
            .await
            .unwrap();
        let is_ready = |cluster: &Cluster| {
            let pod: Option<Pod> = cluster.find("one");
            let conditions = pod.and_then(|pod| pod.status?.conditions).unwrap_or_default();
            let is_it = |own: &PodCondition| own.type_ == "Ready" && own.status == "True";
            conditions.iter().any(is_it)
        };
        cluster.until("a ready pod", is_ready).await;
        // While another node is ready, a silent one is evicted.
        let _other = cluster.run(Component::nodes_named("other", 1));
        cluster.advance(Duration::from_secs(200)).await;
        assert_eq!(
            (ready(&cluster).as_deref(), taint_keys(&cluster).len()),
            (Some("True"), 0)
        );
        components.pop().unwrap().kill().await;
        let start = cluster.clock.now();
        cluster
            .until("silence", |cluster| ready(cluster).as_deref() == Some("Unknown"))
            .await;
        let waited = cluster.clock.now().duration_since(start).as_secs();
        assert!(
            (30..=110).contains(&waited),
            "it was noticed after {waited} seconds"
        );
        cluster
            .until("taints and an unready pod", |cluster| {
                taint_keys(cluster).len() == 2 && !is_ready(cluster)
            })
            .await;
        components.push(cluster.run(Component::nodes(1)));
        cluster
            .until("life", |cluster| {
                ready(cluster).as_deref() == Some("True") && taint_keys(cluster).is_empty()
            })
            .await;
    }

    fn events(cluster: &Cluster) -> Vec<String> {
        let events: Vec<Event> = cluster.list();
        let shown = |event: Event| Some(format!("{}: {}", event.reason?, event.message?));
        let of_nodes = |event: &Event| event.involved_object.kind.as_deref() == Some("Node");
        events.into_iter().filter(of_nodes).filter_map(shown).collect()
    }

    #[tokio::test]
    async fn a_lone_silent_node_is_not_evicted() {
        let (cluster, _components) = Cluster::with([Component::Controller("node-lifecycle")]).await;
        let nodes = cluster.client("test").all();
        nodes.create(&node("node-0").build()).await.unwrap();
        cluster
            .until("silence", |cluster| ready(cluster).as_deref() == Some("Unknown"))
            .await;
        cluster.advance(Duration::from_secs(400)).await;
        assert_eq!(
            taint_keys(&cluster),
            ["node.kubernetes.io/unreachable:NoSchedule"]
        );
        let registered = "RegisteredNode: Node node-0 event: Registered Node node-0 in Controller";
        assert_eq!(events(&cluster), [registered], "the node was never ready");
        nodes
            .delete("node-0", setpoint_api::options::DeleteOptions::default())
            .await
            .unwrap();
        let removed = "RemovingNode: Node node-0 event: Removing Node node-0 from Controller";
        cluster
            .until("an event", |cluster| {
                events(cluster).iter().any(|event| event == removed)
            })
            .await;
    }

    /// The last node that becomes silent stops the eviction of those before it.
    #[tokio::test]
    async fn taints_are_removed_when_the_last_node_becomes_silent() {
        let components = [Component::Controller("node-lifecycle"), Component::nodes(1)];
        let (cluster, mut components) = Cluster::with(components).await;
        let other = cluster.run(Component::nodes_named("other", 1));
        cluster
            .until("two ready nodes", |cluster| {
                ready(cluster).as_deref() == Some("True") && cluster.find::<Node>("other-0").is_some()
            })
            .await;
        cluster.advance(Duration::from_secs(60)).await;
        components.pop().unwrap().kill().await;
        cluster
            .until("an eviction", |cluster| taint_keys(cluster).len() == 2)
            .await;
        let not_ready = "NodeNotReady: Node node-0 status is now: NodeNotReady";
        assert!(events(&cluster).iter().any(|event| event == not_ready));
        other.kill().await;
        cluster
            .until("no eviction", |cluster| {
                taint_keys(cluster) == ["node.kubernetes.io/unreachable:NoSchedule"]
            })
            .await;
    }

    /// Admission taints a new node, whatever it reports.
    #[tokio::test]
    async fn a_node_that_is_ready_when_it_joins_gets_pods() {
        let components = ["node-lifecycle", "serviceaccount"].map(Component::Controller);
        let components = components
            .into_iter()
            .chain([Component::Scheduler, Component::nodes(1)]);
        let (cluster, _components) = Cluster::with_default_admission(components).await;
        cluster
            .until("a node without taints", |cluster| {
                ready(cluster).as_deref() == Some("True") && taint_keys(cluster).is_empty()
            })
            .await;
        cluster.settle().await;
        let pods = cluster.client("test").namespaced("default");
        pods.create(&pod("one").build()).await.unwrap();
        let is_bound = |cluster: &Cluster| {
            let pod: Option<Pod> = cluster.find("one");
            pod.and_then(|pod| pod.spec?.node_name).is_some()
        };
        cluster.until("a bound pod", is_bound).await;
    }
}
