//! Printer columns of an autoscaler: the current value of each metric beside its target.

use setpoint_api::table::Cell;

use crate::columns::{self, Column, NONE, UNKNOWN};
use crate::field::FieldRef;

/// How many metrics a cell shows.
const MAX_SHOWN: usize = 2;

pub(super) const COLUMNS: &[Column] = &[
    columns::NAME,
    REFERENCE,
    Column::text("Targets", |scaler, _| Cell::from(targets(scaler)))
        .description("The current and the target value of each metric."),
    MIN_PODS,
    MAX_PODS,
    REPLICAS,
    columns::AGE,
];

pub(super) const REFERENCE: Column = Column::text("Reference", |scaler, _| {
    let target = scaler.at("spec").at("scaleTargetRef");
    Cell::from(format!("{}/{}", target.at("kind").str(), target.at("name").str()))
})
.description("The scaled object.");

pub(super) const MIN_PODS: Column = Column::text("MinPods", |scaler, _| {
    let min = scaler.at("spec").at("minReplicas").find_int();
    Cell::from(min.map_or_else(|| "<unset>".to_owned(), |min| min.to_string()))
})
.description("The minimum number of pods.");

pub(super) const MAX_PODS: Column = Column::text("MaxPods", |scaler, _| {
    Cell::from(scaler.at("spec").at("maxReplicas").int())
})
.description("The maximum number of pods.");

pub(super) const REPLICAS: Column = Column::text("Replicas", |scaler, _| {
    Cell::from(scaler.at("status").at("currentReplicas").int())
})
.description("The current number of pods.");

/// The current value and the target of each metric; of many only the first.
pub(super) fn targets(scaler: &FieldRef<'_>) -> String {
    let metrics = scaler.at("spec").at("metrics");
    if metrics.is_empty() {
        return NONE.to_owned();
    }
    let mut current = scaler.at("status").at("currentMetrics").items();
    let shown: Vec<String> = metrics
        .items()
        .map(|metric| target(&metric, current.next().as_ref()))
        .take(MAX_SHOWN)
        .collect();
    let shown = shown.join(", ");
    match metrics.len().saturating_sub(MAX_SHOWN) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn target(metric: &FieldRef<'_>, status: Option<&FieldRef<'_>>) -> String {
    let field = match metric.at("type").str() {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (source, target) = (metric.at(field), metric.at(field).at("target"));
    let current = status.map(|status| status.at(field)).filter(FieldRef::is_set);
    let now = |amount: &str| match &current {
        Some(status) => format_quantity(&status.at("current").at(amount)),
        None => UNKNOWN.to_owned(),
    };
    let average = target.at("averageValue");
    match field {
        "external" | "object" if average.is_set() => {
            format!("{}/{} (avg)", now("averageValue"), average.str())
        }
        "external" | "object" => format!("{}/{}", now("value"), target.at("value").str()),
        "pods" => format!("{}/{}", now("averageValue"), average.str()),
        _ if average.is_set() => {
            let name = source.at("name").str();
            format!("{name}: {}/{}", now("averageValue"), average.str())
        }
        _ => {
            let name = source.at("name").str();
            let percent = target.at("averageUtilization").find_int();
            let percent = percent.map_or_else(|| "<auto>".to_owned(), |percent| format!("{percent}%"));
            format!("{name}: {}/{percent}", now("averageUtilization"))
        }
    }
}

fn format_quantity(amount: &FieldRef<'_>) -> String {
    match (amount.find_int(), amount.find_str()) {
        (Some(percent), _) => format!("{percent}%"),
        (None, Some(text)) => text.to_owned(),
        (None, None) => UNKNOWN.to_owned(),
    }
}
