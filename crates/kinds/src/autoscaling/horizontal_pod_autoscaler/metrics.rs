//! What an autoscaler can go by: five sorts of measure, each with a source and a target of its own.

use super::{Versions, validate_reference};
use crate::at::At;
use crate::shared::{name, resources};

const TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
/// The fields of the sources, in the order they are looked at.
const SOURCES: &[(&str, &str)] = &[
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];
const TARGET_TYPES: &[&str] = &["Utilization", "Value", "AverageValue"];

/// Reports what is wrong with the measures.
pub(super) fn validate(metrics: &At<'_>, versions: Versions) {
    metrics.items().for_each(|metric| validate_one(&metric, versions));
}

/// Whether one of them can be measured while there are no pods.
pub(super) fn can_wake(metrics: &At<'_>) -> bool {
    metrics
        .items()
        .any(|metric| matches!(metric.at("type").str(), "Object" | "External"))
}

/// Whether all references name a version that is one.
pub(super) fn name_versions(metrics: &At<'_>) -> bool {
    metrics
        .items()
        .filter(|metric| metric.at("type").str() == "Object" && metric.at("object").is_set())
        .all(|metric| {
            let version = metric.at("object").at("describedObject").at("apiVersion");
            Versions::Checked.complaint(version.str()).is_none()
        })
}

fn validate_one(metric: &At<'_>, versions: Versions) {
    let kind = metric.at("type");
    if kind.is_empty() {
        kind.required("must specify a metric source type");
    }
    if !TYPES.contains(&kind.str()) {
        kind.not_supported(TYPES);
    }
    let given: Vec<&str> = SOURCES
        .iter()
        .map(|(field, _)| *field)
        .filter(|field| metric.at(field).is_set())
        .collect();
    if let Some(first) = given.first() {
        validate_source(first, &metric.at(first), versions);
    }
    let expected = SOURCES.iter().find(|(_, of)| *of == kind.str());
    let expected = expected.map(|(field, _)| *field).unwrap_or_default();
    if !expected.is_empty() && !given.contains(&expected) {
        metric
            .at(expected)
            .required("must populate information for the given metric source");
    }
    if given.len() > 1 {
        for field in given.iter().filter(|field| **field != expected) {
            metric
                .at(field)
                .forbidden("must populate the given metric source only");
        }
    }
}

fn validate_source(field: &str, source: &At<'_>, versions: Versions) {
    let target = source.at("target");
    match field {
        "object" => {
            validate_reference(&source.at("describedObject"), versions);
            validate_name(&source.at("metric"));
            validate_target(&target);
            require_value(&target, "must set either a target value or averageValue");
        }
        "external" => {
            validate_name(&source.at("metric"));
            validate_target(&target);
            require_value(
                &target,
                "must set either a target value for metric or a per-pod target",
            );
            if target.at("value").is_set() && target.at("averageValue").is_set() {
                target
                    .at("value")
                    .forbidden("may not set both a target value for metric and a per-pod target");
            }
        }
        "pods" => {
            validate_name(&source.at("metric"));
            validate_target(&target);
            if !target.at("averageValue").is_set() {
                target
                    .at("averageValue")
                    .required("must specify a positive target averageValue");
            }
        }
        _ => validate_resource(source),
    }
}

fn validate_resource(source: &At<'_>) {
    let (own, target) = (source.at("name"), source.at("target"));
    let of_container = source
        .shape()
        .is_some_and(|shape| shape.member("container").is_some());
    if own.is_empty() {
        own.required("must specify a resource name");
    } else if of_container {
        validate_resource_name(&own);
    }
    if of_container {
        let container = source.at("container");
        if container.is_empty() {
            container.required("must specify a container");
        } else {
            name::check(&container, name::label);
        }
    }
    validate_target(&target);
    let (share, amount) = (target.at("averageUtilization"), target.at("averageValue"));
    match (share.is_set(), amount.is_set()) {
        (false, false) => share.required("must set either a target raw value or a target utilization"),
        (true, true) => amount.forbidden("may not set both a target raw value and a target utilization"),
        _ => {}
    }
}

fn validate_resource_name(own: &At<'_>) {
    let text = own.str();
    resources::validate_name(text, own);
    let of_containers =
        matches!(text, "cpu" | "memory" | "ephemeral-storage") || text.starts_with("hugepages-");
    if !text.contains('/') && !of_containers {
        own.invalid("must be a standard resource for containers");
    } else if text.contains('/') && !resources::is_native(text) && !resources::is_extended(text) {
        own.invalid("doesn't follow extended resource name standard");
    }
}

fn validate_name(metric: &At<'_>) {
    let own = metric.at("name");
    if own.is_empty() {
        own.required("must specify a metric name");
    } else {
        name::check(&own, name::path_segment);
    }
}

fn validate_target(target: &At<'_>) {
    let kind = target.at("type");
    if kind.is_empty() {
        kind.required("must specify a metric target type");
    }
    if !TARGET_TYPES.contains(&kind.str()) {
        kind.invalid("must be either Utilization, Value, or AverageValue");
    }
    for field in ["value", "averageValue"] {
        let amount = target.at(field);
        if amount
            .quantity()
            .is_some_and(|amount| amount.is_negative() || amount.is_zero())
        {
            amount.invalid("must be positive");
        }
    }
    let share = target.at("averageUtilization");
    if share.is_set() && share.int() < 1 {
        share.invalid("must be greater than 0");
    }
}

fn require_value(target: &At<'_>, complaint: &str) {
    if !target.at("value").is_set() && !target.at("averageValue").is_set() {
        target.at("averageValue").required(complaint);
    }
}
