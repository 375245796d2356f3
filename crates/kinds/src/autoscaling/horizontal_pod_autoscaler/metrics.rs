//! Validation of the metrics an autoscaler scales by: five types, each with a source and a target.

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, name};

use super::{ApiVersionCheck, validate_reference};
use crate::shared::resources;

const TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
/// The source fields, in the order of validation.
const SOURCES: &[(&str, &str)] = &[
    (fields::OBJECT, "Object"),
    (fields::EXTERNAL, "External"),
    (fields::PODS, "Pods"),
    (fields::RESOURCE, "Resource"),
    (fields::CONTAINER_RESOURCE, "ContainerResource"),
];
const TARGET_TYPES: &[&str] = &["Utilization", "Value", "AverageValue"];

/// Validates the metrics.
pub(super) fn validate(metrics: &FieldRef<'_>, versions: ApiVersionCheck) {
    metrics.items().for_each(|metric| validate_one(&metric, versions));
}

/// Whether one of the metrics can be measured while there are no pods, so that scaling from zero works.
pub(super) fn can_scale_from_zero(metrics: &FieldRef<'_>) -> bool {
    metrics
        .items()
        .any(|metric| matches!(metric.at(fields::TYPE).str(), "Object" | "External"))
}

/// Whether all object references have a valid `apiVersion`.
pub(super) fn has_valid_versions(metrics: &FieldRef<'_>) -> bool {
    metrics
        .items()
        .filter(|metric| metric.at(fields::TYPE).str() == "Object" && metric.at(fields::OBJECT).is_set())
        .all(|metric| {
            let version = metric
                .at(fields::OBJECT)
                .at(fields::DESCRIBED_OBJECT)
                .at(fields::API_VERSION);
            ApiVersionCheck::Valid.version_error(version.str()).is_none()
        })
}

fn validate_one(metric: &FieldRef<'_>, versions: ApiVersionCheck) {
    let kind = metric.at(fields::TYPE);
    if kind.is_empty() {
        kind.required("must specify a metric source type");
    }
    if !TYPES.contains(&kind.str()) {
        kind.not_supported(TYPES);
    }
    let sources: Vec<&str> = SOURCES
        .iter()
        .map(|(field, _)| *field)
        .filter(|field| metric.at(field).is_set())
        .collect();
    if let Some(first) = sources.first() {
        validate_source(first, &metric.at(first), versions);
    }
    let expected = SOURCES.iter().find(|(_, of)| *of == kind.str());
    let expected = expected.map(|(field, _)| *field).unwrap_or_default();
    if !expected.is_empty() && !sources.contains(&expected) {
        metric
            .at(expected)
            .required("must populate information for the given metric source");
    }
    if sources.len() > 1 {
        for field in sources.iter().filter(|field| **field != expected) {
            metric
                .at(field)
                .forbidden("must populate the given metric source only");
        }
    }
}

fn validate_source(field: &str, source: &FieldRef<'_>, versions: ApiVersionCheck) {
    let target = source.at(fields::TARGET);
    match field {
        fields::OBJECT => {
            validate_reference(&source.at(fields::DESCRIBED_OBJECT), versions);
            validate_name(&source.at(fields::METRIC));
            validate_target(&target);
            require_value(&target, "must set either a target value or averageValue");
        }
        fields::EXTERNAL => {
            validate_name(&source.at(fields::METRIC));
            validate_target(&target);
            require_value(
                &target,
                "must set either a target value for metric or a per-pod target",
            );
            if target.at(fields::VALUE).is_set() && target.at(fields::AVERAGE_VALUE).is_set() {
                target
                    .at(fields::VALUE)
                    .forbidden("may not set both a target value for metric and a per-pod target");
            }
        }
        fields::PODS => {
            validate_name(&source.at(fields::METRIC));
            validate_target(&target);
            if !target.at(fields::AVERAGE_VALUE).is_set() {
                target
                    .at(fields::AVERAGE_VALUE)
                    .required("must specify a positive target averageValue");
            }
        }
        _ => validate_resource(source),
    }
}

fn validate_resource(source: &FieldRef<'_>) {
    let (name, target) = (source.at(fields::NAME), source.at(fields::TARGET));
    let of_container = source
        .shape()
        .is_some_and(|shape| shape.member(fields::CONTAINER).is_some());
    if name.is_empty() {
        name.required("must specify a resource name");
    } else if of_container {
        validate_resource_name(&name);
    }
    if of_container {
        let container = source.at(fields::CONTAINER);
        if container.is_empty() {
            container.required("must specify a container");
        } else {
            name::check(&container, name::check_dns1123_label);
        }
    }
    validate_target(&target);
    let (share, amount) = (
        target.at(fields::AVERAGE_UTILIZATION),
        target.at(fields::AVERAGE_VALUE),
    );
    match (share.is_set(), amount.is_set()) {
        (false, false) => share.required("must set either a target raw value or a target utilization"),
        (true, true) => amount.forbidden("may not set both a target raw value and a target utilization"),
        _ => {}
    }
}

fn validate_resource_name(name: &FieldRef<'_>) {
    let text = name.str();
    resources::validate_name(text, name);
    let of_containers =
        matches!(text, "cpu" | "memory" | "ephemeral-storage") || text.starts_with("hugepages-");
    if !text.contains('/') && !of_containers {
        name.invalid("must be a standard resource for containers");
    } else if text.contains('/') && !resources::is_native(text) && !resources::is_extended(text) {
        name.invalid("doesn't follow extended resource name standard");
    }
}

fn validate_name(metric: &FieldRef<'_>) {
    let name = metric.at(fields::NAME);
    if name.is_empty() {
        name.required("must specify a metric name");
    } else {
        name::check(&name, name::path_segment);
    }
}

fn validate_target(target: &FieldRef<'_>) {
    let kind = target.at(fields::TYPE);
    if kind.is_empty() {
        kind.required("must specify a metric target type");
    }
    if !TARGET_TYPES.contains(&kind.str()) {
        kind.invalid("must be either Utilization, Value, or AverageValue");
    }
    for field in [fields::VALUE, fields::AVERAGE_VALUE] {
        let amount = target.at(field);
        if amount
            .quantity()
            .is_some_and(|amount| amount.is_negative() || amount.is_zero())
        {
            amount.invalid("must be positive");
        }
    }
    let share = target.at(fields::AVERAGE_UTILIZATION);
    if share.is_set() && share.int() < 1 {
        share.invalid("must be greater than 0");
    }
}

fn require_value(target: &FieldRef<'_>, violation: &str) {
    if !target.at(fields::VALUE).is_set() && !target.at(fields::AVERAGE_VALUE).is_set() {
        target.at(fields::AVERAGE_VALUE).required(violation);
    }
}
