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

use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::Column;
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy, Subresource, meta, name};

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
    const RULES: Rules = Rules::DEFAULT.tracks_generation();

    fn default_fields(scaler: &mut Tree) {
        drop_annotations(scaler);
        defaults::set_defaults(scaler.child(fields::SPEC));
    }

    fn validate(scaler: &FieldRef<'_>, _facts: &RequestFacts) {
        let spec = scaler.at(fields::SPEC);
        let core_is_fine =
            spec.at(fields::SCALE_TARGET_REF).at(fields::KIND).str() == "ReplicationController";
        validate_spec(
            &spec,
            ApiVersionCheck::checked(core_is_fine),
            ApiVersionCheck::Valid,
        );
    }

    // An update may keep a target reference that was accepted before, as long as it is unchanged.
    fn validate_for_update(scaler: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let (spec, before) = (scaler.at(fields::SPEC), old.at(fields::SPEC));
        let (target, old_target) = (
            spec.at(fields::SCALE_TARGET_REF),
            before.at(fields::SCALE_TARGET_REF),
        );
        let same = [fields::API_VERSION, fields::KIND]
            .iter()
            .all(|field| target.at(field).is_same(&old_target.at(field)));
        let core_is_fine = target.at(fields::KIND).str() == "ReplicationController";
        let of_target = match same {
            true => ApiVersionCheck::Any,
            false => ApiVersionCheck::checked(core_is_fine),
        };
        let of_metrics = match metrics::has_valid_versions(&before.at(fields::METRICS)) {
            true => ApiVersionCheck::Valid,
            false => ApiVersionCheck::Any,
        };
        validate_spec(&spec, of_target, of_metrics);
    }

    fn validate_status(scaler: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        let status = scaler.at(fields::STATUS);
        for condition in status.at(fields::CONDITIONS).items() {
            condition.at(fields::OBSERVED_GENERATION).not_negative();
        }
        status.at(fields::CURRENT_REPLICAS).not_negative();
        status.at(fields::DESIRED_REPLICAS).not_negative();
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
    let Some(annotations) = scaler.at_mut(&[fields::METADATA, fields::ANNOTATIONS]) else {
        return;
    };
    for annotation in ANNOTATIONS {
        annotations.take(&[annotation]);
    }
    if annotations.as_map().is_some_and(|map| map.is_empty()) {
        meta::clear(scaler, fields::ANNOTATIONS);
    }
}

fn validate_spec(spec: &FieldRef<'_>, of_target: ApiVersionCheck, of_metrics: ApiVersionCheck) {
    let (min, max) = (spec.at(fields::MIN_REPLICAS), spec.at(fields::MAX_REPLICAS));
    if min.is_set() && max.int() < min.int() {
        max.invalid("must be greater than or equal to `minReplicas`");
    }
    validate_reference(&spec.at(fields::SCALE_TARGET_REF), of_target);
    metrics::validate(&spec.at(fields::METRICS), of_metrics);
    if min.find_int() == Some(0) && !metrics::can_scale_from_zero(&spec.at(fields::METRICS)) {
        spec.at(fields::METRICS).forbidden(
            "must specify at least one Object or External metric to support scaling to zero replicas",
        );
    }
    let behavior = spec.at(fields::BEHAVIOR);
    for direction in [fields::SCALE_UP, fields::SCALE_DOWN] {
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
    for field in [fields::KIND, fields::NAME] {
        if reference.at(field).require() {
            name::check(&reference.at(field), name::path_segment);
        }
    }
    let version = reference.at(fields::API_VERSION);
    if let Some(violation) = versions.version_error(version.str()) {
        version.invalid(&violation);
    }
}

fn validate_rules(rules: &FieldRef<'_>) {
    let window = rules.at(fields::STABILIZATION_WINDOW_SECONDS);
    if window.int() < 0 {
        window.invalid("must be greater than or equal to zero");
    }
    if window.int() > MAX_WINDOW_SECONDS {
        window.invalid(&format!("must be less than or equal to {MAX_WINDOW_SECONDS}"));
    }
    let select = rules.at(fields::SELECT_POLICY);
    if select.is_set() && !SELECT_POLICIES.contains(&select.str()) {
        select.not_supported(SELECT_POLICIES);
    }
    if rules.at(fields::POLICIES).is_empty() {
        rules
            .at(fields::POLICIES)
            .required("must specify at least one Policy");
    }
    rules.at(fields::POLICIES).items().for_each(validate_policy);
    let tolerance = rules.at(fields::TOLERANCE);
    if tolerance.quantity().is_some_and(|share| share.is_negative()) {
        tolerance.invalid("must be greater than or equal to 0");
    }
}

fn validate_policy(policy: FieldRef<'_>) {
    if !POLICY_TYPES.contains(&policy.at(fields::TYPE).str()) {
        policy.at(fields::TYPE).not_supported(POLICY_TYPES);
    }
    for field in [fields::VALUE, fields::PERIOD_SECONDS] {
        if policy.at(field).int() <= 0 {
            policy.at(field).invalid("must be greater than zero");
        }
    }
    if policy.at(fields::PERIOD_SECONDS).int() > MAX_PERIOD_SECONDS {
        policy
            .at(fields::PERIOD_SECONDS)
            .invalid(&format!("must be less than or equal to {MAX_PERIOD_SECONDS}"));
    }
}
