//! HorizontalPodAutoscaler: keeps the number of pods of something scalable between two bounds, by what is measured.
//!
//! Version 2 is the one that is stored. Version 1, in [`v1`], knows one measure by a field and the rest by annotations.
//!
//! Start reading here, then [`metrics`] for what can be measured.

pub mod v1;

mod columns;
mod defaults;
mod metrics;
mod v1_metrics;

use setpoint_schema::Tree;

use crate::at::At;
use crate::columns::Column;
use crate::meta;
use crate::shared::name;
use crate::strategy::{Names, Rules, Strategy, Subresource};

/// Where version 1 keeps what it has no fields for. Other versions never show them.
const ANNOTATIONS: [&str; 6] = [
    METRICS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
    CURRENT_METRICS,
    CONDITIONS,
];
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

const MOST_PERIOD_SECONDS: i64 = 1800;
const MOST_WINDOW_SECONDS: i64 = 3600;
const SELECT_POLICIES: &[&str] = &["Disabled", "Max", "Min"];
const POLICY_TYPES: &[&str] = &["Percent", "Pods"];

#[derive(Debug)]
pub struct HorizontalPodAutoscaler;

impl Strategy for HorizontalPodAutoscaler {
    const KIND: (&'static str, &'static str, &'static str) = ("autoscaling", "v2", "HorizontalPodAutoscaler");
    const NAMES: Names = NAMES;
    const COLUMNS: &'static [Column] = columns::COLUMNS;
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        tracks_generation: true,
        ..Rules::DEFAULT
    };

    fn default_fields(scaler: &mut Tree) {
        drop_annotations(scaler);
        defaults::fill(scaler.child("spec"));
    }

    fn validate(scaler: &At<'_>) {
        let spec = scaler.at("spec");
        let core_is_fine = spec.at("scaleTargetRef").at("kind").str() == "ReplicationController";
        validate_spec(&spec, Versions::checked(core_is_fine), Versions::Checked);
    }

    // A reference that was let in once is let in again, as long as it stays.
    fn validate_again(scaler: &At<'_>, old: &At<'_>) {
        let (spec, before) = (scaler.at("spec"), old.at("spec"));
        let (target, old_target) = (spec.at("scaleTargetRef"), before.at("scaleTargetRef"));
        let same = ["apiVersion", "kind"]
            .iter()
            .all(|field| target.at(field).is_same(&old_target.at(field)));
        let core_is_fine = target.at("kind").str() == "ReplicationController";
        let of_target = match same {
            true => Versions::Any,
            false => Versions::checked(core_is_fine),
        };
        let of_metrics = match metrics::name_versions(&before.at("metrics")) {
            true => Versions::Checked,
            false => Versions::Any,
        };
        validate_spec(&spec, of_target, of_metrics);
    }

    fn validate_status(scaler: &At<'_>, _old: &At<'_>) {
        let status = scaler.at("status");
        for condition in status.at("conditions").items() {
            condition.at("observedGeneration").not_negative();
        }
        status.at("currentReplicas").not_negative();
        status.at("desiredReplicas").not_negative();
    }
}

const NAMES: Names = Names::new("horizontalpodautoscalers", "horizontalpodautoscaler")
    .short(&["hpa"])
    .categories(&["all"]);

/// How the version in a reference is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Versions {
    /// It may be anything.
    Any,
    /// It must be one.
    Checked,
    /// It must be one of a named group.
    Grouped,
}

// === impl Versions ===

impl Versions {
    fn checked(core_is_fine: bool) -> Self {
        match core_is_fine {
            true => Self::Checked,
            false => Self::Grouped,
        }
    }

    /// What is wrong with a version, if something is.
    fn complaint(self, version: &str) -> Option<String> {
        let parts: Vec<&str> = version.split('/').collect();
        match (self, parts.as_slice()) {
            (Self::Any, _) => None,
            (Self::Grouped, [_] | ["", _]) => Some("apiVersion must specify API group".to_owned()),
            (_, [_] | [_, _]) => None,
            _ => Some(format!("unexpected GroupVersion string: {version}")),
        }
    }
}

fn drop_annotations(scaler: &mut Tree) {
    let Some(annotations) = scaler.at_mut(&["metadata", "annotations"]) else {
        return;
    };
    for annotation in ANNOTATIONS {
        annotations.take(&[annotation]);
    }
    if annotations.as_map().is_some_and(|map| map.is_empty()) {
        meta::clear(scaler, "annotations");
    }
}

fn validate_spec(spec: &At<'_>, of_target: Versions, of_metrics: Versions) {
    let (least, most) = (spec.at("minReplicas"), spec.at("maxReplicas"));
    if least.is_set() && most.int() < least.int() {
        most.invalid("must be greater than or equal to `minReplicas`");
    }
    validate_reference(&spec.at("scaleTargetRef"), of_target);
    metrics::validate(&spec.at("metrics"), of_metrics);
    if least.find_int() == Some(0) && !metrics::can_wake(&spec.at("metrics")) {
        spec.at("metrics").forbidden(
            "must specify at least one Object or External metric to support scaling to zero replicas",
        );
    }
    let behavior = spec.at("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        if behavior.at(direction).is_set() {
            validate_rules(&behavior.at(direction));
        }
    }
    least.not_negative();
    match most.int() {
        0 => most.required(""),
        ..0 => most.invalid("must be greater than or equal to 1"),
        _ => {}
    }
}

fn validate_reference(reference: &At<'_>, versions: Versions) {
    for field in ["kind", "name"] {
        if reference.at(field).require() {
            name::check(&reference.at(field), name::path_segment);
        }
    }
    let version = reference.at("apiVersion");
    if let Some(complaint) = versions.complaint(version.str()) {
        version.invalid(&complaint);
    }
}

fn validate_rules(rules: &At<'_>) {
    let window = rules.at("stabilizationWindowSeconds");
    if window.int() < 0 {
        window.invalid("must be greater than or equal to zero");
    }
    if window.int() > MOST_WINDOW_SECONDS {
        window.invalid(&format!("must be less than or equal to {MOST_WINDOW_SECONDS}"));
    }
    let select = rules.at("selectPolicy");
    if select.is_set() && !SELECT_POLICIES.contains(&select.str()) {
        select.not_supported(SELECT_POLICIES);
    }
    if rules.at("policies").is_empty() {
        rules.at("policies").required("must specify at least one Policy");
    }
    rules.at("policies").items().for_each(validate_policy);
    let tolerance = rules.at("tolerance");
    if tolerance.quantity().is_some_and(|share| share.is_negative()) {
        tolerance.invalid("must be greater than or equal to 0");
    }
}

fn validate_policy(policy: At<'_>) {
    if !POLICY_TYPES.contains(&policy.at("type").str()) {
        policy.at("type").not_supported(POLICY_TYPES);
    }
    for field in ["value", "periodSeconds"] {
        if policy.at(field).int() <= 0 {
            policy.at(field).invalid("must be greater than zero");
        }
    }
    if policy.at("periodSeconds").int() > MOST_PERIOD_SECONDS {
        policy
            .at("periodSeconds")
            .invalid(&format!("must be less than or equal to {MOST_PERIOD_SECONDS}"));
    }
}
