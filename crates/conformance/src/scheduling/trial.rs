//! One trial: the objects of a situation and a copy of its pod are created, the scheduler's reaction is read from the pod,
//! and all of it is deleted again.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::Decision;
use super::devices;
use super::objects::Objects;
use super::situation::{BLOCKED_PORT, PodForm, Situation, World};
use super::volumes;
use crate::time;

/// The namespace and PriorityClass of pods that block nodes. Their priority is the highest that a user may set, so that
/// they are never preempted.
pub(super) const BLOCKERS: &str = "blockers";

const POLL_INTERVAL: Duration = Duration::from_millis(3);
/// Victims are deleted one by one after the node was nominated: they are complete if there are no more after this time.
const PREEMPTION_INTERVAL: Duration = Duration::from_millis(50);

/// How long a trial waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For the scheduler's caches of other kinds than pods and nodes, which it reads from watches of their own.
    pub(super) caches: Duration,
    /// For the reaction to a pod.
    pub(super) reaction: Duration,
    /// After this time without a reaction there is none: plugins may hold back a pod without a condition.
    pub(super) none: Duration,
    /// For the devices of a pod that is not bound: kube-scheduler looks every five seconds whether they are ready.
    pub(super) devices: Duration,
}

/// The scheduler's reaction to one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reaction {
    Bound(String),
    /// The pod has no node; the decision has the reason, the message and the preemption. It is empty if there is no
    /// condition.
    Pending(Decision),
}

/// Trials in one world.
#[derive(Debug)]
pub(super) struct Trials<'a> {
    pub(super) objects: &'a mut Objects,
    pub(super) world: &'a World,
    pub(super) patience: Patience,
    /// The number of pods created so far: each has a name of its own.
    pub(super) count: usize,
    /// The allocations of the last pod that was bound; null if it has no claims.
    pub(super) allocations: Value,
}

// === impl Reaction ===

impl Reaction {
    /// The pod has neither a node nor a condition.
    fn none() -> Self {
        Self::Pending(Decision::default())
    }

    fn is_preemption(&self) -> bool {
        matches!(self, Self::Pending(decision) if decision.nominated.is_some())
    }
}

// === impl Trials ===

impl Trials<'_> {
    /// Schedules one copy of the pod. A pending pod is read again until `is_final` holds, since the first attempt may
    /// have preceded an event that the scheduler had not received.
    pub(super) fn run(
        &mut self,
        situation: &Situation,
        is_final: impl Fn(&Reaction) -> bool,
    ) -> Result<Reaction> {
        self.create_objects(situation)?;
        self.count += 1;
        let pod = situation
            .pod
            .copy(&self.world.name, &format!("pod-{}", self.count));
        self.objects.create(&pod, &self.world.name)?;
        let reaction = self.wait(situation, &pod, is_final);
        self.allocations = devices::allocations(self.objects, &pod)?;
        self.objects.delete(&pod, &self.world.name)?;
        self.delete_objects(situation)?;
        if situation.device_conditions.is_some() && !matches!(reaction, Ok(Reaction::Bound(_))) {
            time::sleep(self.patience.devices);
        }
        reaction
    }

    /// Creates a pod with the port of the pods under test on the node.
    pub(super) fn block(&mut self, node: &str) -> Result<()> {
        self.objects.create(&blocker(node), BLOCKERS)
    }

    pub(super) fn unblock(&mut self, node: &str) -> Result<()> {
        self.objects.delete(&blocker(node), BLOCKERS)
    }

    fn create_objects(&mut self, situation: &Situation) -> Result<()> {
        for object in &situation.objects {
            self.objects.create(object, &self.world.name)?;
        }
        for pod in &situation.pods {
            create_pod(self.objects, pod, &self.world.name)?;
        }
        if !situation.objects.is_empty() {
            time::sleep(self.patience.caches);
        }
        Ok(())
    }

    fn delete_objects(&mut self, situation: &Situation) -> Result<()> {
        for pod in &situation.pods {
            self.objects
                .delete(&pod.object(&self.world.name), &self.world.name)?;
        }
        for object in situation.objects.iter().rev() {
            self.objects.delete(object, &self.world.name)?;
        }
        if devices::delete_extended_resource_claims(self.objects, &self.world.name)? {
            time::sleep(self.patience.caches);
        }
        if has_claims(situation) {
            volumes::delete_provisioned(self.objects, &self.world.name)?;
        }
        Ok(())
    }

    fn wait(
        &mut self,
        situation: &Situation,
        pod: &Value,
        is_final: impl Fn(&Reaction) -> bool,
    ) -> Result<Reaction> {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let none = match situation.device_conditions {
            Some(_) => self.patience.none.max(self.patience.devices),
            None => self.patience.none,
        };
        let start = time::now();
        let mut last = None;
        while start.elapsed() < self.patience.reaction {
            if has_claims(situation) {
                volumes::complete_binding(self.objects, &self.world.name)?;
            }
            if let Some(conditions) = &situation.device_conditions {
                devices::report_conditions(self.objects, &self.world.name, conditions)?;
            }
            let pod = self.objects.read(&path)?;
            let reaction = self.reaction(&pod)?;
            let reaction = reaction.or_else(|| (start.elapsed() > none).then(Reaction::none));
            let previous = std::mem::replace(&mut last, reaction);
            if let Some(reaction) = last.take_if(|reaction| is_final(reaction)) {
                if !reaction.is_preemption() || previous.as_ref() == Some(&reaction) {
                    return Ok(reaction);
                }
                last = Some(reaction);
                time::sleep(PREEMPTION_INTERVAL);
            }
            time::sleep(POLL_INTERVAL);
        }
        match last {
            Some(reaction) => Ok(reaction),
            None => bail!("no reaction to the pod"),
        }
    }

    fn reaction(&mut self, pod: &Value) -> Result<Option<Reaction>> {
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            return Ok(Some(Reaction::Bound(node.to_owned())));
        }
        let conditions = pod["status"]["conditions"].as_array();
        let condition = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False");
        let Some(condition) = condition else {
            return Ok(None);
        };
        let nominated = pod["status"]["nominatedNodeName"].as_str();
        let victims = match nominated {
            Some(_) => self.victims()?,
            None => BTreeSet::new(),
        };
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let text = |field: &str| condition[field].as_str().map(|text| text.replace(name, "POD"));
        Ok(Some(Reaction::Pending(Decision {
            reason: text("reason"),
            message: text("message"),
            nominated: nominated.map(str::to_owned),
            victims,
            ..Decision::default()
        })))
    }

    /// The pods of the world that are being deleted.
    fn victims(&mut self) -> Result<BTreeSet<String>> {
        let pods = self
            .objects
            .list(&format!("/api/v1/namespaces/{}/pods", self.world.name))?;
        let terminating = pods
            .iter()
            .filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null());
        Ok(terminating
            .filter_map(|pod| pod["metadata"]["name"].as_str())
            .map(str::to_owned)
            .collect())
    }
}

/// Creates a pod of the world, and its status if it has one.
pub(super) fn create_pod(objects: &mut Objects, pod: &PodForm, namespace: &str) -> Result<()> {
    let mut object = pod.object(namespace);
    if let Some(status) = &pod.status {
        object["status"] = status.clone();
    }
    objects.create(&object, namespace)
}

/// Whether the situation has claims of its own, whose volumes are bound while the pod is scheduled.
fn has_claims(situation: &Situation) -> bool {
    situation
        .objects
        .iter()
        .any(|object| object["kind"] == "PersistentVolumeClaim")
}

fn blocker(node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("on-{node}"), "namespace": BLOCKERS},
        "spec": {
            "nodeName": node,
            "priorityClassName": BLOCKERS,
            "containers": [{
                "name": "c",
                "image": "i",
                "ports": [{"containerPort": BLOCKED_PORT, "hostPort": BLOCKED_PORT}],
            }],
        },
    })
}
