//! The recommendation of all metrics of an autoscaler: the highest wins, and a metric that cannot be read only prevents
//! scaling down.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1;
use setpoint_api::selector::LabelSelector;
use setpoint_runtime::{Client, TypedObject};

use crate::horizontal_pod_autoscaler::plan::{
    CalculatorInput, PodTarget, Proposal, Tolerances, by_average, by_pods, by_value,
};
use crate::horizontal_pod_autoscaler::status::{ACTIVE, Status, metric_status};
use crate::horizontal_pod_autoscaler::views::{Identifier, Metric, Pod, Reference, Scale, Target};
use crate::horizontal_pod_autoscaler::{Autoscalers, ScaleContext, ScaleError, metrics};

/// The recommended replicas, and the metric that recommends them.
pub(super) struct Recommendation {
    pub(super) replicas: i32,
    pub(super) metric: String,
}

/// What the metrics of one autoscaler are read with.
struct Sources<'a> {
    client: &'a Client,
    namespace: &'a str,
    selector: &'a LabelSelector,
    input: CalculatorInput<'a>,
}

/// Why a metric could not be read: reason and message of the event, and the text for the summary of all metrics.
struct Failure {
    reason: &'static str,
    message: String,
    summary: String,
}

impl Autoscalers {
    /// Reads all metrics.
    pub(super) async fn recommend(
        &self,
        context: ScaleContext<'_>,
        scale: &Scale,
        status: &mut Status,
    ) -> Result<Recommendation, ScaleError> {
        let ScaleContext { client, object, spec } = context;
        let (selector, pods) = self.select(object, &scale.status.selector, status)?;
        let namespace = object.key().namespace();
        let pods: Vec<Pod> = pods.iter().map(|pod| Pod::read(pod.stored().clone())).collect();
        let sources = Sources {
            client,
            namespace,
            selector: &selector,
            input: CalculatorInput {
                now: self.clock.now(),
                spec_replicas: scale.spec.replicas,
                status_replicas: scale.status.replicas,
                pods: &pods,
                tolerances: Tolerances::of(spec, self.settings.tolerance),
                settings: self.settings,
            },
        };
        let (mut recommendation, mut failures, mut metric_statuses) = (None, Vec::new(), Vec::new());
        for metric in &spec.metrics {
            let proposal = self.propose(&sources, metric).await;
            metric_statuses.push(metric_status(
                metric,
                proposal.as_ref().ok().map(|(proposal, _)| &proposal.reading),
            ));
            match proposal {
                Ok((proposal, name)) => take_most(&mut recommendation, proposal.replicas, name),
                Err(failure) => {
                    self.events
                        .warning(object, failure.reason, failure.message.as_str());
                    failures.push(failure);
                }
            }
        }
        status.current_metrics = Some(metric_statuses);
        self.combine(object, (recommendation, &failures), &sources.input, status)
    }

    /// The highest recommendation, unless a metric failed and it would scale down.
    fn combine(
        &self,
        object: &TypedObject<HorizontalPodAutoscaler>,
        (recommendation, failures): (Option<Recommendation>, &[Failure]),
        input: &CalculatorInput<'_>,
        status: &mut Status,
    ) -> Result<Recommendation, ScaleError> {
        let falls = |recommendation: &Recommendation| recommendation.replicas < input.spec_replicas;
        match recommendation {
            Some(recommendation) if failures.is_empty() || !falls(&recommendation) => {
                let found = format!(
                    "the HPA was able to successfully calculate a replica count from {}",
                    recommendation.metric
                );
                status.set_condition(ACTIVE, true, ("ValidMetricFound", &found), input.now);
                Ok(recommendation)
            }
            _ => {
                let Some(first) = failures.first() else {
                    return Err(ScaleError("the autoscaler has no metrics".to_owned()));
                };
                let message = format!(
                    "the HPA was unable to compute the replica count: {}",
                    first.message
                );
                status.set_condition(ACTIVE, false, (first.reason, &message), input.now);
                let all = status.current_metrics.as_ref().map_or(0, Vec::len);
                let (count, summary) = (failures.len(), &first.summary);
                let message =
                    format!("invalid metrics ({count} invalid out of {all}), first error is: {summary}");
                self.events
                    .warning(object, "FailedComputeMetricsReplicas", message.as_str());
                Err(ScaleError(message))
            }
        }
    }

    /// The selector and the pods of the target. No other autoscaler may select them.
    fn select(
        &self,
        object: &TypedObject<HorizontalPodAutoscaler>,
        text: &str,
        status: &mut Status,
    ) -> Result<(LabelSelector, Vec<TypedObject<v1::Pod>>), ScaleError> {
        let mut fail = |event: &str, message_text: &str, reason: &str, message: &str| {
            self.events.warning(object, event, message_text);
            status.set_condition(ACTIVE, false, (reason, message), self.clock.now());
            self.events
                .warning(object, "FailedComputeMetricsReplicas", message_text);
            ScaleError(message_text.to_owned())
        };
        if text.is_empty() {
            let missing = "the HPA target's scale is missing a selector";
            return Err(fail(
                "SelectorRequired",
                "selector is required",
                "InvalidSelector",
                missing,
            ));
        }
        let selector: LabelSelector = text.parse().map_err(|error| {
            let message_text =
                format!("couldn't convert selector into a corresponding internal selector object: {error}");
            fail("InvalidSelector", &message_text, "InvalidSelector", &message_text)
        })?;
        self.remember(object.key(), |memory| memory.selector = Some(selector.clone()));
        let pods = self.pods.matching(object.key().namespace(), &selector);
        let rivals = self.rivals(object.key().namespace(), &pods);
        if rivals.len() > 1 {
            let rivals = rivals.join(" ");
            let message_text =
                format!("pods by selector {text} are controlled by more than one HPA (e.g. [{rivals}])");
            return Err(fail(
                "AmbiguousSelector",
                &message_text,
                "AmbiguousSelector",
                &message_text,
            ));
        }
        Ok((selector, pods))
    }

    /// Up to two of the autoscalers that select these pods.
    fn rivals(&self, namespace: &str, pods: &[TypedObject<v1::Pod>]) -> Vec<String> {
        let memory = self.memory.lock();
        let selects = |own: &LabelSelector| pods.iter().any(|pod| own.matches(|label| pod.label(label)));
        let mut rivals: Vec<String> = memory
            .iter()
            .filter(|(key, _)| key.namespace() == namespace)
            .filter(|(_, memory)| memory.selector.as_ref().is_some_and(selects))
            .map(|(key, _)| format!("{}/{}", key.namespace(), key.name()))
            .collect();
        rivals.sort();
        rivals.truncate(2);
        rivals
    }

    /// The recommendation of one metric, and its name for messages.
    async fn propose(&self, sources: &Sources<'_>, metric: &Metric) -> Result<(Proposal, String), Failure> {
        match metric {
            Metric::Resource {
                name,
                container,
                target,
            } => resource_metric(sources, name, container.as_deref(), target).await,
            Metric::Pods { metric, target } => pods_metric(sources, metric, target).await,
            Metric::Object { of, metric, target } => self.object_metric(sources, of, metric, target).await,
            Metric::External { metric, target } => external_metric(sources, metric, target).await,
            Metric::Unknown(name) => {
                let message = format!("unknown metric source type {name:?}");
                let summary = message.clone();
                Err(Failure {
                    reason: "InvalidMetricSourceType",
                    message,
                    summary,
                })
            }
        }
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
            summary: format!("failed to get object metric value: {detail}{message}"),
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
                metrics::of_object(sources.client, sources.namespace, which, metric).await
            }
        };
        let usage = usage.map_err(|why| {
            let object = format!("{kind} {}/{}", sources.namespace, of.name);
            format!("unable to get metric {metric_name} on {object}: {why}")
        });
        match (target.value, target.average_value) {
            (Some(value), _) => usage
                .and_then(|usage| by_value(&sources.input, usage, value.0))
                .map(|proposal| (proposal, format!("{kind} metric {metric_name}")))
                .map_err(|message| failure(message, "")),
            (None, average) => usage
                .map(|usage| by_average(&sources.input, usage, average.unwrap_or_default().0))
                .map(|proposal| (proposal, outside_name(metric)))
                .map_err(|message| failure(message, &format!("failed to get {metric_name} object metric: "))),
        }
    }
}

async fn resource_metric(
    sources: &Sources<'_>,
    resource: &str,
    container: Option<&str>,
    target: &Target,
) -> Result<(Proposal, String), Failure> {
    let (pod_target, what) = match (target.average_value, target.average_utilization) {
        (Some(average), _) => (Some(PodTarget::Average(average.0)), "usage"),
        (None, percent) => {
            let share = |percent| PodTarget::Utilization {
                percent,
                resource,
                container,
            };
            (percent.map(share), "utilization")
        }
    };
    let name = match (&pod_target, container) {
        (Some(PodTarget::Average(_)), _) => format!("{resource} resource"),
        (_, None) => format!("{resource} resource utilization (percentage of request)"),
        (_, Some(_)) => format!("{resource} container resource utilization (percentage of request)"),
    };
    let proposal = match pod_target {
        None => Err(
            "invalid resource metric source: neither an average utilization target nor an average value \
                     (usage) target was set"
                .to_owned(),
        ),
        Some(pod_target) => {
            let (namespace, selector) = (sources.namespace, sources.selector);
            let samples =
                metrics::of_resource(sources.client, namespace, selector, resource, container).await;
            let samples =
                samples.map_err(|why| format!("unable to get metrics for resource {resource}: {why}"));
            samples
                .and_then(|samples| by_pods(&sources.input, samples, pod_target, resource == "cpu"))
                .map_err(|why| format!("failed to get {resource} {what}: {why}"))
        }
    };
    proposal
        .map(|proposal| (proposal, name))
        .map_err(|message| match container {
            None => Failure {
                reason: "FailedGetResourceMetric",
                summary: format!("failed to get {resource} resource metric value: {message}"),
                message,
            },
            Some(container) => Failure {
                reason: "FailedGetContainerResourceMetric",
                summary: format!("failed to get {container} container metric value: {message}"),
                message,
            },
        })
}

async fn pods_metric(
    sources: &Sources<'_>,
    metric: &Identifier,
    target: &Target,
) -> Result<(Proposal, String), Failure> {
    let samples = metrics::of_pods(sources.client, sources.namespace, sources.selector, metric).await;
    let pod_target = PodTarget::Average(target.average_value.unwrap_or_default().0);
    let proposal = samples
        .map_err(|why| format!("unable to get metric {}: {why}", metric.name))
        .and_then(|samples| by_pods(&sources.input, samples, pod_target, false));
    proposal
        .map(|proposal| (proposal, format!("pods metric {}", metric.name)))
        .map_err(|message| Failure {
            reason: "FailedGetPodsMetric",
            summary: format!("failed to get pods metric value: {message}"),
            message,
        })
}

async fn external_metric(
    sources: &Sources<'_>,
    metric: &Identifier,
    target: &Target,
) -> Result<(Proposal, String), Failure> {
    let failure = |message: String, detail: &str| Failure {
        reason: "FailedGetExternalMetric",
        summary: format!(
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
    let usage = metrics::external_sum(sources.client, sources.namespace, metric).await;
    let usage = usage.map_err(|why| {
        let (namespace, name) = (sources.namespace, &metric.name);
        let selector = metric.selector_text();
        format!("unable to get external metric {namespace}/{name}/{selector}: {why}")
    });
    match (target.average_value, target.value) {
        (Some(average), _) => usage
            .map(|usage| by_average(&sources.input, usage, average.0))
            .map_err(|message| {
                failure(
                    message,
                    &format!("failed to get {} external metric: ", metric.name),
                )
            }),
        (None, value) => usage
            .and_then(|usage| by_value(&sources.input, usage, value.unwrap_or_default().0))
            .map_err(|message| {
                failure(
                    message,
                    &format!("failed to get external metric {}: ", metric.name),
                )
            }),
    }
    .map(|proposal| (proposal, outside_name(metric)))
}

/// Keeps the higher recommendation; the first of two equal ones.
fn take_most(recommendation: &mut Option<Recommendation>, replicas: i32, metric: String) {
    if recommendation
        .as_ref()
        .is_none_or(|own| own.replicas == 0 || replicas > own.replicas)
    {
        *recommendation = Some(Recommendation { replicas, metric });
    }
}

fn outside_name(metric: &Identifier) -> String {
    format!("external metric {}({})", metric.name, metric.selector_text())
}
