//! The PostFilter plugins of a cycle in which no node fits.

use std::sync::Arc;

use compact_str::CompactString;

use super::extended_cycle::ExtendedInput;
use super::planner::{Failure, Planner};
use crate::cycle::{Diagnosis, Unfit};
use crate::extender::{CandidateObjects, resolve_victims};
use crate::framework::{Code, PostFilterInput, PostFilterResult, PreemptionCandidate, Profile};
use crate::metrics::{ExtensionPoint, StatusCode};
use crate::pod_info::PodInfo;

/// The results of the plugins so far.
struct Outcome {
    messages: Vec<String>,
    failure: Failure,
    status: StatusCode,
}

impl Planner {
    /// Runs the PostFilter plugins: the first that succeeds ends the list.
    pub(super) fn post_filter(&self, profile: &Profile, pod: &Arc<PodInfo>, unfit: Unfit) -> Failure {
        let cluster = self.cluster.read();
        let began = profile.recorder.start();
        let mut outcome = Outcome::new(profile);
        let input = PostFilterInput {
            profile,
            cycle: &unfit.cycle,
            pod,
            cluster: &cluster,
            diagnosis: &unfit.diagnosis,
        };
        for plugin in &profile.post_filter {
            let plugin_began = profile.recorder.start_if(unfit.cycle.is_sampled());
            let result = plugin.post_filter(&input);
            let is_last = self.add_result(&mut outcome, result);
            let point = ExtensionPoint::PostFilter;
            profile
                .recorder
                .observe_plugin(point, plugin.name(), outcome.status, plugin_began);
            if is_last {
                break;
            }
        }
        let point = ExtensionPoint::PostFilter;
        profile.recorder.observe_point(point, outcome.status, began);
        outcome.into_failure(unfit)
    }

    /// Runs the PostFilter plugins, with extenders that take part in preemption. No lock is held while they are requested.
    pub(super) async fn post_filter_extended(
        &self,
        pod: &Arc<PodInfo>,
        unfit: Unfit,
        extended: ExtendedInput<'_>,
    ) -> Failure {
        let profile = extended.profile;
        let began = profile.recorder.start();
        let mut outcome = Outcome::new(profile);
        for plugin in &profile.post_filter {
            let found = self.with_input(profile, pod, &unfit, |input| plugin.find_candidates(input));
            let result = match found {
                None => self.with_input(profile, pod, &unfit, |input| plugin.post_filter(input)),
                Some(Err(result)) => result,
                Some(Ok(candidates)) => match self.process_preemption(pod, candidates, extended).await {
                    Ok(left) => {
                        self.with_input(profile, pod, &unfit, |input| plugin.select_candidate(input, left))
                    }
                    Err(error) => PostFilterResult {
                        message: format!("preemption: {error}"),
                        victims: Some(0),
                        ..PostFilterResult::default()
                    },
                },
            };
            if self.add_result(&mut outcome, result) {
                break;
            }
        }
        let point = ExtensionPoint::PostFilter;
        profile.recorder.observe_point(point, outcome.status, began);
        outcome.into_failure(unfit)
    }

    /// The candidates that the extenders leave, one after the other.
    async fn process_preemption(
        &self,
        pod: &Arc<PodInfo>,
        mut candidates: Vec<PreemptionCandidate>,
        extended: ExtendedInput<'_>,
    ) -> Result<Vec<PreemptionCandidate>, String> {
        let extenders = extended.profile.extenders.iter();
        for extender in extenders.filter(|one| one.preempts() && one.is_interested(pod)) {
            let objects: Vec<CandidateObjects> = candidates
                .iter()
                .map(|candidate| extended.with_objects(candidate))
                .collect();
            let left = extender.process_preemption(extended.object, &objects).await;
            match left.and_then(|left| resolve_victims(extender, left, &self.cluster.read())) {
                Ok(left) => candidates = left,
                Err(error) if extender.is_ignorable() => {
                    tracing::info!(pod = %pod.key, error, "the extender failed to process preemption, and is ignored");
                }
                Err(error) => return Err(error),
            }
            if candidates.is_empty() {
                break;
            }
        }
        Ok(candidates)
    }

    fn with_input<T>(
        &self,
        profile: &Profile,
        pod: &Arc<PodInfo>,
        unfit: &Unfit,
        run: impl FnOnce(&PostFilterInput<'_>) -> T,
    ) -> T {
        let cluster = self.cluster.read();
        run(&PostFilterInput {
            profile,
            cycle: &unfit.cycle,
            pod,
            cluster: &cluster,
            diagnosis: &unfit.diagnosis,
        })
    }

    /// Adds the result of a plugin. Returns whether it is the last one.
    fn add_result(&self, outcome: &mut Outcome, result: PostFilterResult) -> bool {
        if let Some(victims) = result.victims {
            self.metrics.preempted(victims);
        }
        let failure = &mut outcome.failure;
        failure.nominated_node = result.nominated_node.or(failure.nominated_node.take());
        failure.action = result.action.or(failure.action.take());
        if result.is_successful {
            outcome.messages.clear();
            outcome.status = StatusCode::Success;
        }
        outcome.messages.push(result.message);
        result.is_successful
    }
}

impl Outcome {
    fn new(profile: &Profile) -> Self {
        Self {
            messages: Vec::new(),
            failure: Failure {
                diagnosis: Diagnosis::default(),
                cluster_sequence: 0,
                nominated_node: profile.post_filter.is_empty().then(CompactString::default),
                action: None,
            },
            status: StatusCode::Rejected(Code::Unschedulable),
        }
    }

    fn into_failure(mut self, unfit: Unfit) -> Failure {
        let mut diagnosis = unfit.diagnosis;
        self.failure.cluster_sequence = unfit.cluster_sequence;
        self.messages.retain(|message| !message.is_empty());
        diagnosis.post_filter_message = self.messages.join(", ");
        self.failure.diagnosis = diagnosis;
        self.failure
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use serde_json::{Value, json};
    use setpoint_api::{GroupResource, Header, Key, ResourceVersion, Stored, SystemClock};
    use setpoint_runtime::Cache;

    use super::*;
    use crate::extender::{Extender, ExtenderTransport};
    use crate::fixtures::{cluster, pod_requesting, with_spec};
    use crate::framework::{BoxFuture, Handle, Profiles};
    use crate::queue::QueuedPod;
    use crate::scheduler::extended_cycle::ObjectCaches;
    use crate::scheduler::planner::Attempt;

    /// An extender that responds to everything with one message.
    #[derive(Debug)]
    struct FixedResponse(Value);

    impl ExtenderTransport for FixedResponse {
        fn post<'a>(&'a self, _: &'a str, _: String) -> BoxFuture<'a, Result<Vec<u8>, String>> {
            Box::pin(ready(Ok(self.0.to_string().into_bytes())))
        }
    }

    /// Nodes a and b are full with pods of priority 0; a pod of priority 10 needs one of them.
    async fn preempt(victims: Value) -> Failure {
        let config = json!({"preemptVerb": "preempt", "urlPrefix": "http://x"});
        let response = json!({"NodeNameToMetaVictims": victims});
        let extender = Extender::new(
            serde_json::from_value(config).unwrap(),
            Arc::new(FixedResponse(response)),
            Arc::new(SystemClock::new()),
        );
        let mut profile = crate::default_profile(&Handle::default());
        profile.extenders.push(Arc::new(extender));
        let planner = Planner::new(Arc::new(Profiles::new([profile])), 1);
        *planner.cluster.write() = cluster("a=1000-1000 b=1000-1000");
        let pod = with_spec(pod_requesting("p", "", 500), |spec| spec.priority = 10);
        let mut header = Header::new(Key::new("default", "p"));
        header.uid = "p".into();
        let object = Stored::new(header, json!({"metadata": {"name": "p"}}).to_string().into(), 1);
        let pods = Cache::new(GroupResource::new("", "pods"));
        pods.replace(vec![Arc::new(object)], ResourceVersion(1));
        let objects = ObjectCaches {
            pods: Arc::new(pods),
            nodes: Arc::new(Cache::new(GroupResource::new("", "nodes"))),
        };
        let queued = QueuedPod {
            pod: Arc::new(pod),
            attempts: 1,
            first_attempt: jiff::Timestamp::UNIX_EPOCH,
        };
        let mut attempts = planner.attempt_all_extended(vec![queued], &objects).await;
        match attempts.remove(0).1 {
            Attempt::Unschedulable(failure) => *failure,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn an_extender_decides_which_nodes_preemption_may_use() {
        let failure = preempt(json!({"b": {"Pods": [{"UID": "on-b"}]}})).await;
        assert_eq!(failure.nominated_node.as_deref(), Some("b"));
        assert!(failure.action.is_some());
        let failure = preempt(json!({})).await;
        assert_eq!(failure.nominated_node, None);
        let message = &failure.diagnosis.post_filter_message;
        assert_eq!(message, "preemption: no candidate node for preemption");
    }

    #[tokio::test]
    async fn the_error_of_an_extender_is_the_message_of_the_preemption() {
        let failure = preempt(json!({"b": {"Pods": [{"UID": "other"}]}})).await;
        assert!(failure.action.is_none());
        let message = &failure.diagnosis.post_filter_message;
        assert_eq!(
            message,
            "preemption: extender: http://x claims to preempt pod (UID: &{other}) on node: b, but the pod is not found on that node"
        );
    }
}
