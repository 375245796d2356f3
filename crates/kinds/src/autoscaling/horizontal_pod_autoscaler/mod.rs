//! HorizontalPodAutoscaler: keeps the number of pods of a scalable object between two bounds, by metrics.
//!
//! `autoscaling/v2` is the storage version. `v1`, in [`v1`], has a field for CPU utilization and stores all other
//! metrics in annotations.
//!
//! Start reading here, then [`metrics`].

pub mod v1;

mod columns;
mod defaults;
mod metrics;
mod v1_metrics;

use setpoint_schema::Tree;

use crate::columns::Column;
use crate::field::FieldRef;
use crate::meta;
use crate::shared::name;
use crate::strategy::{Names, Rules, Strategy, Subresource};

/// The annotations in which `v1` stores what it has no fields for. Other versions drop them.
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

const MAX_PERIOD_SECONDS: i64 = 1800;
const MAX_WINDOW_SECONDS: i64 = 3600;
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
        defaults::set_defaults(scaler.child("spec"));
    }

    fn validate(scaler: &FieldRef<'_>) {
        let spec = scaler.at("spec");
        let core_is_fine = spec.at("scaleTargetRef").at("kind").str() == "ReplicationController";
        validate_spec(
            &spec,
            ApiVersionCheck::checked(core_is_fine),
            ApiVersionCheck::Valid,
        );
    }

    // An update may keep a target reference that was accepted before, as long as it is unchanged.
    fn validate_for_update(scaler: &FieldRef<'_>, old: &FieldRef<'_>) {
        let (spec, before) = (scaler.at("spec"), old.at("spec"));
        let (target, old_target) = (spec.at("scaleTargetRef"), before.at("scaleTargetRef"));
        let same = ["apiVersion", "kind"]
            .iter()
            .all(|field| target.at(field).is_same(&old_target.at(field)));
        let core_is_fine = target.at("kind").str() == "ReplicationController";
        let of_target = match same {
            true => ApiVersionCheck::Any,
            false => ApiVersionCheck::checked(core_is_fine),
        };
        let of_metrics = match metrics::has_valid_versions(&before.at("metrics")) {
            true => ApiVersionCheck::Valid,
            false => ApiVersionCheck::Any,
        };
        validate_spec(&spec, of_target, of_metrics);
    }

    fn validate_status(scaler: &FieldRef<'_>, _old: &FieldRef<'_>) {
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

/// How the `apiVersion` of an object reference is validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApiVersionCheck {
    /// Not at all.
    Any,
    /// It must be a valid group and version.
    Valid,
    /// It must be a valid group and version, and the group not empty.
    ValidWithGroup,
}

// === impl Versions ===

impl ApiVersionCheck {
    fn checked(core_is_fine: bool) -> Self {
        match core_is_fine {
            true => Self::Valid,
            false => Self::ValidWithGroup,
        }
    }

    /// What is wrong with an `apiVersion`, if anything is.
    fn version_error(self, version: &str) -> Option<String> {
        let parts: Vec<&str> = version.split('/').collect();
        match (self, parts.as_slice()) {
            (Self::Any, _) => None,
            (Self::ValidWithGroup, [_] | ["", _]) => Some("apiVersion must specify API group".to_owned()),
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

fn validate_spec(spec: &FieldRef<'_>, of_target: ApiVersionCheck, of_metrics: ApiVersionCheck) {
    let (min, max) = (spec.at("minReplicas"), spec.at("maxReplicas"));
    if min.is_set() && max.int() < min.int() {
        max.invalid("must be greater than or equal to `minReplicas`");
    }
    validate_reference(&spec.at("scaleTargetRef"), of_target);
    metrics::validate(&spec.at("metrics"), of_metrics);
    if min.find_int() == Some(0) && !metrics::can_scale_from_zero(&spec.at("metrics")) {
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
    min.not_negative();
    match max.int() {
        0 => max.required(""),
        ..0 => max.invalid("must be greater than or equal to 1"),
        _ => {}
    }
}

fn validate_reference(reference: &FieldRef<'_>, versions: ApiVersionCheck) {
    for field in ["kind", "name"] {
        if reference.at(field).require() {
            name::check(&reference.at(field), name::path_segment);
        }
    }
    let version = reference.at("apiVersion");
    if let Some(violation) = versions.version_error(version.str()) {
        version.invalid(&violation);
    }
}

fn validate_rules(rules: &FieldRef<'_>) {
    let window = rules.at("stabilizationWindowSeconds");
    if window.int() < 0 {
        window.invalid("must be greater than or equal to zero");
    }
    if window.int() > MAX_WINDOW_SECONDS {
        window.invalid(&format!("must be less than or equal to {MAX_WINDOW_SECONDS}"));
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

fn validate_policy(policy: FieldRef<'_>) {
    if !POLICY_TYPES.contains(&policy.at("type").str()) {
        policy.at("type").not_supported(POLICY_TYPES);
    }
    for field in ["value", "periodSeconds"] {
        if policy.at(field).int() <= 0 {
            policy.at(field).invalid("must be greater than zero");
        }
    }
    if policy.at("periodSeconds").int() > MAX_PERIOD_SECONDS {
        policy
            .at("periodSeconds")
            .invalid(&format!("must be less than or equal to {MAX_PERIOD_SECONDS}"));
    }
}
