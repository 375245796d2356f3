//! The status of an autoscaler. Pure.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use setpoint_api::Quantity;
use setpoint_api::quantity::Format;

use crate::api_time;
use crate::horizontal_pod_autoscaler::plan::MetricReading;
use crate::horizontal_pod_autoscaler::views::Metric;

pub(crate) const ABLE: &str = "AbleToScale";
pub(crate) const ACTIVE: &str = "ScalingActive";
pub(crate) const LIMITED: &str = "ScalingLimited";
pub(crate) const AT_ZERO: &str = "ScaledToZero";

/// The status of an autoscaler.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_scale_time: Option<Timestamp>,
    pub(crate) current_replicas: i32,
    pub(crate) desired_replicas: i32,
    /// Serialized even if empty, so that old values are removed.
    pub(crate) current_metrics: Option<Vec<Value>>,
    pub(crate) conditions: Vec<Condition>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_transition_time: Option<Timestamp>,
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) message: String,
}

// === impl Status ===

impl Status {
    /// Sets a condition. Its transition time changes with its status.
    pub(crate) fn set_condition(
        &mut self,
        type_: &str,
        holds: bool,
        (reason, message): (&str, &str),
        now: Timestamp,
    ) {
        let status = if holds { "True" } else { "False" };
        let at = self.conditions.iter().position(|own| own.type_ == type_);
        let since = at.and_then(|at| {
            let own = &self.conditions[at];
            own.last_transition_time.filter(|_| own.status == status)
        });
        let condition = Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            last_transition_time: since.or(Some(api_time::whole_seconds(now))),
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        match at {
            Some(at) => self.conditions[at] = condition,
            None => self.conditions.push(condition),
        }
    }

    /// Whether the condition is true.
    pub(crate) fn holds(&self, type_: &str) -> bool {
        let found = self.conditions.iter().find(|own| own.type_ == type_);
        found.is_some_and(|own| own.status == "True")
    }
}

/// The status of a metric. One that could not be read has an empty type.
pub(crate) fn metric_status(metric: &Metric, reading: Option<&MetricReading>) -> Value {
    let Some(reading) = reading else {
        return json!({"type": ""});
    };
    match metric {
        Metric::Resource {
            name,
            container: None,
            ..
        } => {
            json!({"type": "Resource", "resource": {"name": name, "current": current(reading, is_bytes(name))}})
        }
        Metric::Resource {
            name,
            container: Some(container),
            ..
        } => json!({"type": "ContainerResource", "containerResource": {
            "name": name, "container": container, "current": current(reading, is_bytes(name))}}),
        Metric::Pods { metric, .. } => {
            json!({"type": "Pods", "pods": {"metric": metric, "current": current(reading, false)}})
        }
        Metric::Object { of, metric, .. } => json!({"type": "Object", "object": {
            "describedObject": of, "metric": metric, "current": current(reading, false)}}),
        Metric::External { metric, .. } => {
            json!({"type": "External", "external": {"metric": metric, "current": current(reading, false)}})
        }
        Metric::Unknown(_) => json!({"type": ""}),
    }
}

fn is_bytes(resource: &str) -> bool {
    resource == "memory"
}

fn current(reading: &MetricReading, bytes: bool) -> Value {
    match *reading {
        MetricReading::Value(milli) => json!({"value": quantity(milli, bytes)}),
        MetricReading::Average(milli) => json!({"averageValue": quantity(milli, bytes)}),
        MetricReading::Utilization { percent, average } => {
            json!({"averageUtilization": percent, "averageValue": quantity(average, bytes)})
        }
    }
}

fn quantity(milli: i64, bytes: bool) -> String {
    match bytes && milli % 1000 == 0 {
        true => Quantity::new(milli / 1000, Format::BinarySi).to_string(),
        false => Quantity::from_milli(milli).to_string(),
    }
}
