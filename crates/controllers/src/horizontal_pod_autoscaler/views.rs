//! The fields of a HorizontalPodAutoscaler and of a pod that the controller reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use compact_str::CompactString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde::Deserialize;
use setpoint_api::{Quantity, Stored};

use crate::horizontal_pod_autoscaler::status::Status;
use crate::pods::{self, Phase};

/// A HorizontalPodAutoscaler.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Autoscaler {
    pub(crate) spec: Spec,
    pub(crate) status: Status,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Spec {
    pub(crate) scale_target_ref: Reference,
    pub(crate) min_replicas: Option<i32>,
    pub(crate) max_replicas: i32,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) behavior: Option<Behavior>,
}

/// A reference to an object, in any version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Reference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// A metric and its target.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "RawMetric")]
pub(crate) enum Metric {
    /// The usage of a resource by the pods' containers: all of them, or one.
    Resource {
        name: String,
        container: Option<String>,
        target: Target,
    },
    /// A metric of each pod.
    Pods { metric: Identifier, target: Target },
    /// A metric of another object.
    Object {
        of: Reference,
        metric: Identifier,
        target: Target,
    },
    /// A metric from outside the cluster.
    External { metric: Identifier, target: Target },
    /// A metric source of unknown type.
    Unknown(String),
}

/// The name of a metric, and the selector of its series.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, serde::Serialize)]
#[serde(default)]
pub(crate) struct Identifier {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) selector: Option<LabelSelector>,
}

/// The target value of a metric.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Target {
    pub(crate) value: Option<Milli>,
    pub(crate) average_value: Option<Milli>,
    pub(crate) average_utilization: Option<i32>,
}

/// A quantity in thousandths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "CompactString")]
pub(crate) struct Milli(pub(crate) i64);

/// How fast the replicas may change.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Behavior {
    pub(crate) scale_up: Rules,
    pub(crate) scale_down: Rules,
}

/// The scaling rules of one direction.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Rules {
    pub(crate) stabilization_window_seconds: Option<i64>,
    pub(crate) select_policy: Option<Select>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) tolerance: Option<Milli>,
}

/// Which of several policies applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Select {
    /// The one that allows the greatest change.
    Max,
    /// The one that allows the smallest change.
    Min,
    /// None: the replicas do not change in this direction.
    Disabled,
}

/// A number of pods, or a percentage of them, per period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Policy {
    #[serde(rename = "type")]
    pub(crate) unit: Unit,
    pub(crate) value: i32,
    pub(crate) period_seconds: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Unit {
    Pods,
    Percent,
}

/// The scale subresource: replicas, desired replicas, and the pods' selector.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Scale {
    pub(crate) spec: ScaleSpec,
    pub(crate) status: ScaleStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ScaleSpec {
    pub(crate) replicas: i32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ScaleStatus {
    pub(crate) replicas: i32,
    pub(crate) selector: String,
}

/// A pod and its requests.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) pod: pods::Pod,
    pub(crate) requests: Arc<PodRequests>,
}

/// The requests of a pod.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct PodRequests {
    pub(crate) spec: PodSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    pub(crate) containers: Vec<Container>,
    pub(crate) init_containers: Vec<Container>,
    pub(crate) resources: Resources,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Container {
    pub(crate) name: CompactString,
    pub(crate) restart_policy: CompactString,
    pub(crate) resources: Resources,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Resources {
    pub(crate) requests: BTreeMap<CompactString, Milli>,
}

// The metric as serialized.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawMetric {
    #[serde(rename = "type")]
    type_: String,
    object: RawSource,
    pods: RawSource,
    resource: RawSource,
    container_resource: RawSource,
    external: RawSource,
}

/// The fields of all metric sources together.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSource {
    name: String,
    container: Option<String>,
    described_object: Reference,
    metric: Identifier,
    target: Target,
}

// === impl Spec ===

impl Spec {
    /// The minimum replicas; one by default.
    pub(crate) fn min(&self) -> i32 {
        self.min_replicas.unwrap_or(1)
    }

    /// Whether there is a metric that exists without any pod.
    pub(crate) fn measures_without_pods(&self) -> bool {
        let lasts = |metric: &Metric| matches!(metric, Metric::Object { .. } | Metric::External { .. });
        self.metrics.iter().any(lasts)
    }
}

// === impl Metric ===

impl From<RawMetric> for Metric {
    fn from(raw: RawMetric) -> Self {
        let resource = |source: RawSource| Self::Resource {
            name: source.name,
            container: source.container,
            target: source.target,
        };
        match raw.type_.as_str() {
            "Resource" => resource(RawSource {
                container: None,
                ..raw.resource
            }),
            "ContainerResource" => resource(RawSource {
                container: Some(raw.container_resource.container.unwrap_or_default()),
                ..raw.container_resource
            }),
            "Pods" => Self::Pods {
                metric: raw.pods.metric,
                target: raw.pods.target,
            },
            "Object" => Self::Object {
                of: raw.object.described_object,
                metric: raw.object.metric,
                target: raw.object.target,
            },
            "External" => Self::External {
                metric: raw.external.metric,
                target: raw.external.target,
            },
            _ => Self::Unknown(raw.type_),
        }
    }
}

// === impl Identifier ===

impl Identifier {
    /// The selector as printed in messages.
    pub(crate) fn selector_text(&self) -> String {
        let Some(selector) = &self.selector else {
            return "nil".to_owned();
        };
        let labels = selector.match_labels.iter().flatten();
        let labels: String = labels.map(|(name, value)| format!("{name}: {value},")).collect();
        let requirement = |one: &LabelSelectorRequirement| {
            let values = one.values.iter().flatten().map(String::as_str);
            let (key, operator, values) = (&one.key, &one.operator, Vec::from_iter(values).join(" "));
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        };
        let expressions = selector.match_expressions.iter().flatten();
        let expressions: String = expressions.map(requirement).collect();
        format!(
            "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:\
             []LabelSelectorRequirement{{{expressions}}},}}"
        )
    }
}

// === impl Milli ===

impl From<CompactString> for Milli {
    fn from(text: CompactString) -> Self {
        Self(text.parse::<Quantity>().map_or(0, Quantity::milli_value))
    }
}

// === impl Pod ===

impl Pod {
    /// Reads a pod. One that cannot be decoded is not ready and requests nothing.
    pub(crate) fn read(object: Arc<Stored>) -> Self {
        let requests = object.view::<PodRequests>().unwrap_or_default();
        let pod = pods::Pod::read(object);
        Self { pod, requests }
    }

    pub(crate) fn name(&self) -> &str {
        self.pod.object().key().name()
    }

    /// Whether it is running and ready.
    pub(crate) fn is_ready(&self) -> bool {
        let view = self.pod.view();
        view.phase == Phase::Running && view.is_ready()
    }
}
