//! Printer columns of an autoscaler: the current value of each metric beside its target.

use setpoint_api::table::Cell;
use setpoint_schema::fields;
use setpoint_strategy::FieldRef;
use setpoint_strategy::columns::{self, Column, NONE, UNKNOWN};

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
    let target = scaler.at(fields::SPEC).at(fields::SCALE_TARGET_REF);
    Cell::from(format!(
        "{}/{}",
        target.at(fields::KIND).str(),
        target.at(fields::NAME).str()
    ))
})
.description("The scaled object.");

pub(super) const MIN_PODS: Column = Column::text("MinPods", |scaler, _| {
    let min = scaler.at(fields::SPEC).at(fields::MIN_REPLICAS).find_int();
    Cell::from(min.map_or_else(|| "<unset>".to_owned(), |min| min.to_string()))
})
.description("The minimum number of pods.");

pub(super) const MAX_PODS: Column = Column::text("MaxPods", |scaler, _| {
    Cell::from(scaler.at(fields::SPEC).at(fields::MAX_REPLICAS).int())
})
.description("The maximum number of pods.");

pub(super) const REPLICAS: Column = Column::text("Replicas", |scaler, _| {
    Cell::from(scaler.at(fields::STATUS).at(fields::CURRENT_REPLICAS).int())
})
.description("The current number of pods.");

/// The current value and the target of each metric; of many only the first.
pub(super) fn targets(scaler: &FieldRef<'_>) -> String {
    let metrics = scaler.at(fields::SPEC).at(fields::METRICS);
    if metrics.is_empty() {
        return NONE.to_owned();
    }
    let mut current = scaler.at(fields::STATUS).at(fields::CURRENT_METRICS).items();
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
    let field = match metric.at(fields::TYPE).str() {
        "External" => fields::EXTERNAL,
        "Pods" => fields::PODS,
        "Object" => fields::OBJECT,
        "Resource" => fields::RESOURCE,
        "ContainerResource" => fields::CONTAINER_RESOURCE,
        _ => return "<unknown type>".to_owned(),
    };
    let (source, target) = (metric.at(field), metric.at(field).at(fields::TARGET));
    let current = status.map(|status| status.at(field)).filter(FieldRef::is_set);
    let now = |amount: &str| match &current {
        Some(status) => format_quantity(&status.at(fields::CURRENT).at(amount)),
        None => UNKNOWN.to_owned(),
    };
    let average = target.at(fields::AVERAGE_VALUE);
    match field {
        fields::EXTERNAL | fields::OBJECT if average.is_set() => {
            format!("{}/{} (avg)", now(fields::AVERAGE_VALUE), average.str())
        }
        fields::EXTERNAL | fields::OBJECT => {
            format!("{}/{}", now(fields::VALUE), target.at(fields::VALUE).str())
        }
        fields::PODS => format!("{}/{}", now(fields::AVERAGE_VALUE), average.str()),
        _ if average.is_set() => {
            let name = source.at(fields::NAME).str();
            format!("{name}: {}/{}", now(fields::AVERAGE_VALUE), average.str())
        }
        _ => {
            let name = source.at(fields::NAME).str();
            let percent = target.at(fields::AVERAGE_UTILIZATION).find_int();
            let percent = percent.map_or_else(|| "<auto>".to_owned(), |percent| format!("{percent}%"));
            format!("{name}: {}/{percent}", now(fields::AVERAGE_UTILIZATION))
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
