//! The eviction of victims: each gets the DisruptionTarget condition, is deleted, and an event reports why.

use std::collections::BTreeSet;
use std::sync::Arc;

use compact_str::CompactString;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use parking_lot::Mutex;
use serde_json::Value;
use setpoint_api::Status;
use setpoint_api::options::DeleteOptions;
use setpoint_runtime::{Context, TypedObject, retry_on_conflict};

use crate::framework::{PostFilterAction, PostFilterInput, PreemptionCandidate};
use crate::pod_info::PodInfo;
use crate::report::put_condition;

/// Attempts to write the condition when updates conflict.
const STATUS_UPDATE_ATTEMPTS: usize = 5;

/// The uids of pods whose victims are being evicted.
pub(super) type Preemptors = Arc<Mutex<BTreeSet<CompactString>>>;

/// A preemption in progress: from the decision until the action ended or was dropped.
struct PreemptionGuard {
    preempting: Preemptors,
    uid: CompactString,
}

/// The preemption of a candidate's victims.
struct Eviction {
    /// The uid of the pod that needs the node.
    preemptor: CompactString,
    scheduler: CompactString,
    node: CompactString,
    victims: Vec<Arc<PodInfo>>,
    /// Pods of lower priority that were nominated to the node.
    nominated: Vec<Arc<PodInfo>>,
}

/// The deletion of the victims, in the background. Pods of lower priority lose their nomination to the node.
pub(super) fn action(
    input: &PostFilterInput<'_>,
    candidate: PreemptionCandidate,
    preempting: Preemptors,
) -> PostFilterAction {
    let guard = PreemptionGuard::new(preempting, input.pod.uid.clone());
    let nominated = input.cluster.nominated().on_node(&candidate.node).iter();
    let eviction = Eviction {
        preemptor: input.pod.uid.clone(),
        scheduler: input.pod.spec.scheduler.clone(),
        nominated: nominated
            .filter(|pod| pod.priority() < input.pod.priority())
            .cloned()
            .collect(),
        node: candidate.node,
        victims: candidate.victims,
    };
    PostFilterAction(Box::new(move |context| {
        Box::pin(async move {
            let evicted = eviction.run(&context).await;
            drop(guard);
            evicted
        })
    }))
}

impl PreemptionGuard {
    fn new(preempting: Preemptors, uid: CompactString) -> Self {
        preempting.lock().insert(uid.clone());
        Self { preempting, uid }
    }
}

impl Drop for PreemptionGuard {
    fn drop(&mut self) {
        self.preempting.lock().remove(&self.uid);
    }
}

impl Eviction {
    async fn run(&self, context: &Context) -> Result<(), Status> {
        for pod in &self.nominated {
            crate::report::write_nominated_node(&context.client, pod, "").await;
        }
        let mut result = Ok(());
        for victim in self.victims.iter().filter(|victim| !victim.is_terminating()) {
            result = self.preempt(context, victim).await.and(result);
        }
        result
    }

    /// Marks the victim, deletes it, and records the event. A victim that is gone already needs nothing.
    async fn preempt(&self, context: &Context, victim: &PodInfo) -> Result<(), Status> {
        let done = async {
            let object = self.mark(context, victim).await?;
            if object.uid() != victim.uid {
                return Ok(());
            }
            let pods = context.client.namespaced::<Pod>(victim.key.namespace());
            pods.delete(victim.key.name(), DeleteOptions::with_uid(&victim.uid))
                .await?;
            let message = format!("Preempted by pod {} on node {}", self.preemptor, self.node);
            let events = context.events.for_component(&self.scheduler);
            let events = events.with_action("Preempting");
            events.normal(&object, "Preempted", message);
            Ok(())
        };
        match done.await {
            Err(status) if Status::is_not_found(&status) => Ok(()),
            done => done,
        }
    }

    /// Writes the DisruptionTarget condition; returns the victim.
    async fn mark(&self, context: &Context, victim: &PodInfo) -> Result<TypedObject<Pod>, Status> {
        let pods = context.client.namespaced::<Pod>(victim.key.namespace());
        let pods = &pods;
        retry_on_conflict(STATUS_UPDATE_ATTEMPTS, || async move {
            let name = victim.key.name();
            let fresh = pods.get(name).await?;
            let mut object: Value = fresh.decode().map_err(Status::internal)?;
            if fresh.uid() == victim.uid && put_condition(context.clock.now(), &mut object, self.condition())
            {
                let json = object.to_string();
                pods.dynamic().update_subresource(name, "status", json).await?;
            }
            Ok(fresh)
        })
        .await
    }

    fn condition(&self) -> PodCondition {
        let message = format!(
            "{}: preempting to accommodate a higher priority pod",
            self.scheduler
        );
        PodCondition {
            type_: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
            reason: Some("PreemptionByScheduler".to_owned()),
            message: Some(message),
            ..PodCondition::default()
        }
    }
}
