//! What the metrics of one autoscaler ask for: the most of them counts, and one that cannot be read only stops the
//! number from falling.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1;
use setpoint_api::selector::LabelSelector;
use setpoint_runtime::Typed;

use crate::autoscaler::plan::{Proposal, Seen, Tolerances, Wanted, by_average, by_pods, by_value};
use crate::autoscaler::status::{ACTIVE, Status, shown};
use crate::autoscaler::views::{Identifier, Metric, Pod, Reference, Scale, Spec, Target};
use crate::autoscaler::{Autoscalers, Stuck, metrics};

/// How many replicas are asked for, and by which metric.
pub(super) struct Rated {
    pub(super) replicas: i32,
    pub(super) metric: String,
}

/// Where the figures come from.
struct Sources<'a> {
    namespace: &'a str,
    selector: &'a LabelSelector,
    seen: Seen<'a>,
}

/// Why a metric could not be read: the reason that an event gives, what it says, and what is said where all metrics are
/// named together.
struct Failure {
    reason: &'static str,
    message: String,
    whole: String,
}

impl Autoscalers {
    /// Reads all metrics.
    pub(super) async fn rate(
        &self,
        object: &Typed<HorizontalPodAutoscaler>,
        spec: &Spec,
        scale: &Scale,
        status: &mut Status,
    ) -> Result<Rated, Stuck> {
        let (selector, pods) = self.select(object, &scale.status.selector, status)?;
        let namespace = object.key().namespace();
        let pods: Vec<Pod> = pods.iter().map(|pod| Pod::read(pod)).collect();
        let sources = Sources {
            namespace,
            selector: &selector,
            seen: Seen {
                now: self.clock.now(),
                asked: scale.spec.replicas,
                there: scale.status.replicas,
                pods: &pods,
                tolerances: Tolerances::of(spec, self.settings.tolerance),
                settings: self.settings,
            },
        };
        let (mut rated, mut failures, mut shown_all) = (None, Vec::new(), Vec::new());
        for metric in &spec.metrics {
            let proposal = self.propose(&sources, metric).await;
            shown_all.push(shown(
                metric,
                proposal.as_ref().ok().map(|(proposal, _)| &proposal.reading),
            ));
            match proposal {
                Ok((proposal, name)) => take_most(&mut rated, proposal.replicas, name),
                Err(failure) => {
                    self.events
                        .warning(object, failure.reason, failure.message.as_str());
                    failures.push(failure);
                }
            }
        }
        status.current_metrics = Some(shown_all);
        self.judge(object, (rated, &failures), &sources.seen, status)
    }

    /// What counts: the most of what was read, unless something was not, and there would be fewer replicas.
    fn judge(
        &self,
        object: &Typed<HorizontalPodAutoscaler>,
        (rated, failures): (Option<Rated>, &[Failure]),
        seen: &Seen<'_>,
        status: &mut Status,
    ) -> Result<Rated, Stuck> {
        let falls = |rated: &Rated| rated.replicas < seen.asked;
        match rated {
            Some(rated) if failures.is_empty() || !falls(&rated) => {
                let found = format!(
                    "the HPA was able to successfully calculate a replica count from {}",
                    rated.metric
                );
                status.say(ACTIVE, true, ("ValidMetricFound", &found), seen.now);
                Ok(rated)
            }
            _ => {
                let Some(first) = failures.first() else {
                    return Err(Stuck("there is nothing to measure".to_owned()));
                };
                let message = format!(
                    "the HPA was unable to compute the replica count: {}",
                    first.message
                );
                status.say(ACTIVE, false, (first.reason, &message), seen.now);
                let all = status.current_metrics.as_ref().map_or(0, Vec::len);
                let (count, whole) = (failures.len(), &first.whole);
                let message =
                    format!("invalid metrics ({count} invalid out of {all}), first error is: {whole}");
                self.events
                    .warning(object, "FailedComputeMetricsReplicas", message.as_str());
                Err(Stuck(message))
            }
        }
    }

    /// The pods of the target, and how they are found. They must be those of no other autoscaler.
    fn select(
        &self,
        object: &Typed<HorizontalPodAutoscaler>,
        text: &str,
        status: &mut Status,
    ) -> Result<(LabelSelector, Vec<Typed<v1::Pod>>), Stuck> {
        let mut refuse = |event: &str, told: &str, reason: &str, message: &str| {
            self.events.warning(object, event, told);
            status.say(ACTIVE, false, (reason, message), self.clock.now());
            self.events.warning(object, "FailedComputeMetricsReplicas", told);
            Stuck(told.to_owned())
        };
        if text.is_empty() {
            let missing = "the HPA target's scale is missing a selector";
            return Err(refuse(
                "SelectorRequired",
                "selector is required",
                "InvalidSelector",
                missing,
            ));
        }
        let selector: LabelSelector = text.parse().map_err(|error| {
            let told =
                format!("couldn't convert selector into a corresponding internal selector object: {error}");
            refuse("InvalidSelector", &told, "InvalidSelector", &told)
        })?;
        self.remember(object.key(), |memory| memory.selector = Some(selector.clone()));
        let pods = self.pods.matching(object.key().namespace(), &selector);
        let rivals = self.rivals(object.key().namespace(), &pods);
        if rivals.len() > 1 {
            let rivals = rivals.join(" ");
            let told =
                format!("pods by selector {text} are controlled by more than one HPA (e.g. [{rivals}])");
            return Err(refuse("AmbiguousSelector", &told, "AmbiguousSelector", &told));
        }
        Ok((selector, pods))
    }

    /// Two of the autoscalers that count these pods as theirs.
    fn rivals(&self, namespace: &str, pods: &[Typed<v1::Pod>]) -> Vec<String> {
        let memory = self.memory.lock();
        let picks = |own: &LabelSelector| pods.iter().any(|pod| own.matches(|label| pod.label(label)));
        let mut rivals: Vec<String> = memory
            .iter()
            .filter(|(key, _)| key.namespace() == namespace)
            .filter(|(_, memory)| memory.selector.as_ref().is_some_and(picks))
            .map(|(key, _)| format!("{}/{}", key.namespace(), key.name()))
            .collect();
        rivals.sort();
        rivals.truncate(2);
        rivals
    }

    /// What one metric asks for, and what it is called.
    async fn propose(&self, sources: &Sources<'_>, metric: &Metric) -> Result<(Proposal, String), Failure> {
        match metric {
            Metric::Resource {
                name,
                container,
                target,
            } => {
                self.resource_metric(sources, name, container.as_deref(), target)
                    .await
            }
            Metric::Pods { metric, target } => self.pods_metric(sources, metric, target).await,
            Metric::Object { of, metric, target } => self.object_metric(sources, of, metric, target).await,
            Metric::External { metric, target } => self.external_metric(sources, metric, target).await,
            Metric::Unknown(name) => {
                let message = format!("unknown metric source type {name:?}");
                let whole = message.clone();
                Err(Failure {
                    reason: "InvalidMetricSourceType",
                    message,
                    whole,
                })
            }
        }
    }

    async fn resource_metric(
        &self,
        sources: &Sources<'_>,
        resource: &str,
        container: Option<&str>,
        target: &Target,
    ) -> Result<(Proposal, String), Failure> {
        let (wanted, what) = match (target.average_value, target.average_utilization) {
            (Some(average), _) => (Some(Wanted::Average(average.0)), "usage"),
            (None, percent) => {
                let share = |percent| Wanted::Share {
                    percent,
                    resource,
                    container,
                };
                (percent.map(share), "utilization")
            }
        };
        let name = match (&wanted, container) {
            (Some(Wanted::Average(_)), _) => format!("{resource} resource"),
            (_, None) => format!("{resource} resource utilization (percentage of request)"),
            (_, Some(_)) => format!("{resource} container resource utilization (percentage of request)"),
        };
        let proposal = match wanted {
            None => Err(
                "invalid resource metric source: neither an average utilization target nor an average value \
                         (usage) target was set"
                    .to_owned(),
            ),
            Some(wanted) => {
                let (namespace, selector) = (sources.namespace, sources.selector);
                let samples =
                    metrics::of_resource(&self.client, namespace, selector, resource, container).await;
                let samples =
                    samples.map_err(|why| format!("unable to get metrics for resource {resource}: {why}"));
                samples
                    .and_then(|samples| by_pods(&sources.seen, samples, wanted, resource == "cpu"))
                    .map_err(|why| format!("failed to get {resource} {what}: {why}"))
            }
        };
        proposal
            .map(|proposal| (proposal, name))
            .map_err(|message| match container {
                None => Failure {
                    reason: "FailedGetResourceMetric",
                    whole: format!("failed to get {resource} resource metric value: {message}"),
                    message,
                },
                Some(container) => Failure {
                    reason: "FailedGetContainerResourceMetric",
                    whole: format!("failed to get {container} container metric value: {message}"),
                    message,
                },
            })
    }

    async fn pods_metric(
        &self,
        sources: &Sources<'_>,
        metric: &Identifier,
        target: &Target,
    ) -> Result<(Proposal, String), Failure> {
        let samples = metrics::of_pods(&self.client, sources.namespace, sources.selector, metric).await;
        let wanted = Wanted::Average(target.average_value.unwrap_or_default().0);
        let proposal = samples
            .map_err(|why| format!("unable to get metric {}: {why}", metric.name))
            .and_then(|samples| by_pods(&sources.seen, samples, wanted, false));
        proposal
            .map(|proposal| (proposal, format!("pods metric {}", metric.name)))
            .map_err(|message| Failure {
                reason: "FailedGetPodsMetric",
                whole: format!("failed to get pods metric value: {message}"),
                message,
            })
    }

    async fn object_metric(
        &self,
        sources: &Sources<'_>,
        of: &Reference,
        metric: &Identifier,
        target: &Target,
    ) -> Result<(Proposal, String), Failure> {
        let failure = |message: String, detail: &str| Failure {
            reason: "FailedGetObjectMetric",
            whole: format!("failed to get object metric value: {detail}{message}"),
            message,
        };
        let (kind, metric_name) = (&of.kind, &metric.name);
        if target.value.is_none() && target.average_value.is_none() {
            let message =
                "invalid object metric source: neither a value target nor an average value target was set";
            return Err(failure(message.to_owned(), ""));
        }
        let resource = self.resource(&of.api_version, kind);
        let usage = match resource {
            None => Err(format!(
                "no matches for kind {kind:?} in version {:?}",
                of.api_version
            )),
            Some(gvr) => {
                let resource = gvr.group_resource().to_string();
                let which = (resource.as_str(), of.name.as_str());
                metrics::of_object(&self.client, sources.namespace, which, metric).await
            }
        };
        let usage = usage.map_err(|why| {
            let object = format!("{kind} {}/{}", sources.namespace, of.name);
            format!("unable to get metric {metric_name} on {object}: {why}")
        });
        match (target.value, target.average_value) {
            (Some(value), _) => usage
                .and_then(|usage| by_value(&sources.seen, usage, value.0))
                .map(|proposal| (proposal, format!("{kind} metric {metric_name}")))
                .map_err(|message| failure(message, "")),
            (None, average) => usage
                .map(|usage| by_average(&sources.seen, usage, average.unwrap_or_default().0))
                .map(|proposal| (proposal, outside_name(metric)))
                .map_err(|message| failure(message, &format!("failed to get {metric_name} object metric: "))),
        }
    }

    async fn external_metric(
        &self,
        sources: &Sources<'_>,
        metric: &Identifier,
        target: &Target,
    ) -> Result<(Proposal, String), Failure> {
        let failure = |message: String, detail: &str| Failure {
            reason: "FailedGetExternalMetric",
            whole: format!(
                "failed to get {} external metric value: {detail}{message}",
                metric.name
            ),
            message,
        };
        if target.value.is_none() && target.average_value.is_none() {
            let message =
                "invalid external metric source: neither a value target nor an average value target was set";
            return Err(failure(message.to_owned(), ""));
        }
        let usage = metrics::of_outside(&self.client, sources.namespace, metric).await;
        let usage = usage.map_err(|why| {
            let (namespace, name) = (sources.namespace, &metric.name);
            let selector = metric.shown_selector();
            format!("unable to get external metric {namespace}/{name}/{selector}: {why}")
        });
        match (target.average_value, target.value) {
            (Some(average), _) => usage
                .map(|usage| by_average(&sources.seen, usage, average.0))
                .map_err(|message| {
                    failure(
                        message,
                        &format!("failed to get {} external metric: ", metric.name),
                    )
                }),
            (None, value) => usage
                .and_then(|usage| by_value(&sources.seen, usage, value.unwrap_or_default().0))
                .map_err(|message| {
                    failure(
                        message,
                        &format!("failed to get external metric {}: ", metric.name),
                    )
                }),
        }
        .map(|proposal| (proposal, outside_name(metric)))
    }
}

/// The greater number counts; the first of two that are equal.
fn take_most(rated: &mut Option<Rated>, replicas: i32, metric: String) {
    if rated
        .as_ref()
        .is_none_or(|own| own.replicas == 0 || replicas > own.replicas)
    {
        *rated = Some(Rated { replicas, metric });
    }
}

fn outside_name(metric: &Identifier) -> String {
    format!("external metric {}({})", metric.name, metric.shown_selector())
}
