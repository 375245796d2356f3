//! Scheduling cycles with extenders. They wait for the responses of servers, so they are tasks and not a worker's batch; no
//! lock is held while they wait.

use std::sync::Arc;

use setpoint_api::Stored;
use setpoint_runtime::Cache;

use super::planner::{Attempt, MAX_CONFLICTS, Planner};
use crate::cycle::{Candidates, Plan, PlanError, Rotation, find_candidates, select_candidate};
use crate::extender::CandidateObjects;
use crate::framework::{PreemptionCandidate, Profile, Rejection};
use crate::pod_info::PodInfo;
use crate::queue::QueuedPod;
use setpoint_api::Key;

/// The caches from which extenders get objects.
#[derive(Debug, Clone)]
pub(super) struct ObjectCaches {
    pub(super) pods: Arc<Cache>,
    pub(super) nodes: Arc<Cache>,
}

impl Planner {
    /// Whether extenders take part in scheduling.
    pub(super) fn has_extenders(&self) -> bool {
        let mut profiles = self.profiles.iter();
        profiles.any(|profile| !profile.extenders.is_empty())
    }

    /// Tries to schedule the pods, one after the other.
    pub(super) async fn attempt_all_extended(
        &self,
        batch: Vec<QueuedPod>,
        objects: &ObjectCaches,
    ) -> Vec<(QueuedPod, Attempt)> {
        let mut attempts = Vec::with_capacity(batch.len());
        for queued in batch {
            let attempt = self.attempt_extended(&queued.pod, objects).await;
            attempts.push((queued, attempt));
        }
        attempts
    }

    async fn attempt_extended(&self, pod: &Arc<PodInfo>, objects: &ObjectCaches) -> Attempt {
        let object = objects.pods.find(&pod.key);
        let object = object.filter(|object| object.uid() == pod.uid);
        let (Some(profile), Some(object)) = (self.profiles.find(&pod.spec.scheduler), object) else {
            return Attempt::Superseded;
        };
        let input = ExtendedInput {
            profile,
            object: &object,
            objects,
        };
        for _ in 0..MAX_CONFLICTS {
            let mut planned = self.plan_extended(pod, input).await;
            if matches!(planned, Some(Err(PlanError::Unfit(_)))) && !pod.nominated_node.is_empty() {
                let elsewhere = PodInfo {
                    nominated_node: Default::default(),
                    ..(**pod).clone()
                };
                planned = self.plan_extended(&elsewhere, input).await;
            }
            match planned {
                None => {}
                Some(Err(PlanError::Unfit(unfit))) if input.has_preempting_extender(pod) => {
                    let mut failure = self.post_filter_extended(pod, *unfit, input).await;
                    self.nominate(pod, &mut failure);
                    return Attempt::Unschedulable(Box::new(failure));
                }
                Some(Err(error)) => return self.handle_plan_error(profile, pod, error),
                Some(Ok(plan)) => {
                    if let Some(attempt) = self.try_commit(profile, pod, plan) {
                        return attempt;
                    }
                }
            }
        }
        Attempt::Conflicts
    }

    /// A plan of the plugins and the extenders; `None` if the nodes changed too much meanwhile.
    async fn plan_extended(
        &self,
        pod: &PodInfo,
        input: ExtendedInput<'_>,
    ) -> Option<Result<Plan, PlanError>> {
        let rotation: Rotation = self.next_rotation();
        let found = {
            let cluster = self.cluster.read();
            let found = find_candidates(input.profile, pod, &cluster, rotation);
            let evaluated = found.as_ref().map_or(0, |candidates| candidates.evaluated);
            self.rotate(rotation, evaluated, cluster.len());
            found
        };
        let filtered = match found {
            Ok(candidates) => input.filter(pod, candidates).await,
            Err(error) => Err(error),
        };
        let candidates = match filtered {
            Ok(candidates) if candidates.nodes.is_empty() => return Some(Err(candidates.into_unfit())),
            Ok(candidates) => candidates,
            Err(error) => return Some(Err(error)),
        };
        let mut scores = Vec::new();
        if candidates.nodes.len() > 1 {
            for extender in input
                .profile
                .extenders
                .iter()
                .filter(|one| one.is_interested(pod))
            {
                scores.push(extender.prioritize(input.object, &candidates.nodes).await);
            }
        }
        let cluster = self.cluster.read();
        select_candidate(input.profile, pod, &cluster, candidates, (&scores, rotation.turn))
    }
}

/// What a cycle with extenders works with, besides the pod.
#[derive(Clone, Copy)]
pub(super) struct ExtendedInput<'a> {
    pub(super) profile: &'a Profile,
    pub(super) object: &'a Stored,
    objects: &'a ObjectCaches,
}

impl ExtendedInput<'_> {
    /// Whether an extender takes part in preemption for the pod.
    fn has_preempting_extender(&self, pod: &PodInfo) -> bool {
        let mut extenders = self.profile.extenders.iter();
        extenders.any(|one| one.preempts() && one.is_interested(pod))
    }

    /// The candidate with the objects of its victims.
    pub(super) fn with_objects(&self, candidate: &PreemptionCandidate) -> CandidateObjects {
        let victims = candidate.victims.iter().filter_map(|victim| {
            let object = self.objects.pods.find(&victim.key)?;
            (object.uid() == victim.uid).then_some(object)
        });
        CandidateObjects {
            victims: victims.collect(),
            candidate: candidate.clone(),
        }
    }

    /// Lets the extenders filter the candidates, one after the other.
    async fn filter(&self, pod: &PodInfo, mut candidates: Candidates) -> Result<Candidates, PlanError> {
        for candidate in &mut candidates.nodes {
            candidate.object = self.objects.nodes.find(&Key::new("", &candidate.name));
        }
        for extender in self.profile.extenders.iter().filter(|one| one.is_interested(pod)) {
            if candidates.nodes.is_empty() {
                break;
            }
            match extender.filter(self.object, candidates.nodes.clone()).await {
                Ok(result) => {
                    candidates.nodes = result.nodes;
                    for (node, rejection) in result.rejected {
                        candidates.diagnosis.add(node, rejection);
                    }
                }
                Err(error) if extender.is_ignorable() => {
                    tracing::info!(pod = %pod.key, error, "the extender failed, and is ignored");
                }
                Err(error) => return Err(PlanError::Failed(Rejection::error(error))),
            }
        }
        Ok(candidates)
    }
}
