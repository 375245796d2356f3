//! StatefulSet: pods with stable names, each with its own persistent volume claims.

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;
use setpoint_schema::{Map, Tree};

use super::{pods, status_counts};
use crate::columns::{self, Column};
use crate::core::persistent_volume_claim::{self, PersistentVolumeClaim};
use crate::core::pod::template;
use crate::field::FieldRef;
use crate::shared::{int_or_percent, label_selector, name};
use crate::strategy::{NameRule, Names, Rules, Strategy, Subresource};

const ROLLING_UPDATE: &str = "RollingUpdate";
const ON_DELETE: &str = "OnDelete";
const RETAIN: &str = "Retain";
const POLICIES: &[&str] = &["OrderedReady", "Parallel"];

#[derive(Debug)]
pub struct StatefulSet;

/// Which fields of a set are validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValidationScope {
    /// A new set: all of them.
    All,
    /// An updated set: only fields that may change.
    Mutable,
    /// An updated set whose old spec is already invalid: the template is not validated either.
    ExceptTemplate,
}

impl Strategy for StatefulSet {
    const KIND: (&'static str, &'static str, &'static str) = ("apps", "v1", "StatefulSet");
    const NAMES: Names = Names::new("statefulsets", "statefulset")
        .short(&["sts"])
        .categories(&["all"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Ready", |set, _| {
            let ready = set.at("status").at("readyReplicas").int();
            let desired = set.at("spec").at("replicas").int();
            Cell::from(format!("{ready}/{desired}"))
        })
        .description("The number of ready pods, of those desired."),
        columns::AGE,
        template::CONTAINERS,
        template::IMAGES,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::SCALE, Subresource::STATUS];
    const RULES: Rules = Rules {
        name: NameRule::Label,
        tracks_generation: true,
        ..Rules::DEFAULT
    };

    fn default_fields(set: &mut Tree) {
        let spec = set.child("spec");
        spec.set_default("podManagementPolicy", POLICIES[0]);
        spec.set_default("replicas", 1);
        spec.set_default("revisionHistoryLimit", 10);
        default_strategy(spec.child("updateStrategy"));
        let retention = spec.child("persistentVolumeClaimRetentionPolicy");
        retention.set_default("whenDeleted", RETAIN);
        retention.set_default("whenScaled", RETAIN);
        spec.items_mut("volumeClaimTemplates").for_each(default_claim);
        template::set_defaults(spec.child("template"));
    }

    fn validate(set: &FieldRef<'_>) {
        validate_spec(&set.at("spec"), None, ValidationScope::All);
    }

    fn validate_for_update(set: &FieldRef<'_>, old: &FieldRef<'_>) {
        let errors = Errors::default();
        let before = old.at("spec");
        validate_spec(
            &before.with_errors(errors.clone()),
            Some(&before),
            ValidationScope::Mutable,
        );
        let depth = match errors.is_empty() {
            true => ValidationScope::Mutable,
            false => ValidationScope::ExceptTemplate,
        };
        validate_spec(&set.at("spec"), Some(&before), depth);
    }

    fn validate_update(set: &FieldRef<'_>, old: &FieldRef<'_>) {
        for field in [
            "selector",
            "volumeClaimTemplates",
            "serviceName",
            "podManagementPolicy",
        ] {
            set.at("spec").at(field).immutable(&old.at("spec").at(field));
        }
    }

    fn validate_status(set: &FieldRef<'_>, old: &FieldRef<'_>) {
        let status = set.at("status");
        let of_replicas = [
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
        ];
        status_counts::validate(&status, &["replicas"]);
        status_counts::validate(&status, &of_replicas);
        status_counts::validate(&status, &["observedGeneration", "collisionCount"]);
        status_counts::validate_within(&status, &of_replicas);
        status_counts::validate_available(&status, "cannot be greater than status.readyReplicas");
        status_counts::validate_collisions(&status, &old.at("status"));
    }

    fn warnings(set: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        let mut warnings = pods::template_warnings(&set.at("spec"), old.map(|old| old.at("spec")).as_ref());
        if set.at("spec").at("revisionHistoryLimit").int() < 0 {
            let advice = "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.push(format!("spec.revisionHistoryLimit: {advice}"));
        }
        warnings
    }
}

/// Defaults the update strategy to RollingUpdate, with partition 0.
fn default_strategy(strategy: &mut Tree) {
    if strategy.str_at(&["type"]).unwrap_or_default().is_empty() {
        strategy.set(&["type"], ROLLING_UPDATE);
        strategy.child("rollingUpdate");
    }
    if strategy.str_at(&["type"]) == Some(ROLLING_UPDATE)
        && let Some(rolling) = strategy.find_mut("rollingUpdate")
    {
        rolling.set_default("partition", 0);
        rolling.set_default("maxUnavailable", 1);
    }
}

/// Defaults `apiVersion` and `kind` of a claim template, whatever the caller set.
fn default_claim(claim: &mut Tree) {
    claim.set(&["apiVersion"], "v1");
    claim.set(&["kind"], "PersistentVolumeClaim");
    PersistentVolumeClaim::default_fields(claim);
}

fn validate_spec(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>, depth: ValidationScope) {
    let policy = spec.at("podManagementPolicy");
    if policy.require() && !POLICIES.contains(&policy.str()) {
        policy.invalid("must be 'OrderedReady' or 'Parallel'");
    }
    validate_strategy(&spec.at("updateStrategy"));
    let retention = spec.at("persistentVolumeClaimRetentionPolicy");
    if retention.is_set() {
        for when in ["whenDeleted", "whenScaled"] {
            if ![RETAIN, "Delete"].contains(&retention.at(when).str()) {
                retention.at(when).not_supported(&[RETAIN, "Delete"]);
            }
        }
    }
    if depth == ValidationScope::All {
        for claim in spec.at("volumeClaimTemplates").items() {
            persistent_volume_claim::validate_spec(&claim.at("spec"));
        }
    }
    spec.at("replicas").not_negative();
    spec.at("minReadySeconds").not_negative();
    spec.at("ordinals").at("start").not_negative();
    let service = spec.at("serviceName");
    if depth == ValidationScope::All && !service.is_empty() {
        name::check(&service, name::check_dns1123_label);
    }
    pods::validate_selector(&spec.at("selector"), "empty selector is invalid for statefulset");
    validate_template(spec, old, depth);
}

fn validate_strategy(strategy: &FieldRef<'_>) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").str() {
        "" => strategy.required(""),
        ON_DELETE if rolling.is_set() => {
            rolling.invalid("only allowed for updateStrategy 'RollingUpdate'");
        }
        ON_DELETE => {}
        ROLLING_UPDATE => validate_rolling(&rolling),
        _ => strategy.invalid("must be 'RollingUpdate' or 'OnDelete'"),
    }
}

fn validate_rolling(rolling: &FieldRef<'_>) {
    rolling.at("partition").not_negative();
    let unavailable = rolling.at("maxUnavailable");
    if unavailable.is_set() {
        int_or_percent::validate(&unavailable);
        if int_or_percent::number(&unavailable) == 0 {
            unavailable.invalid("cannot be 0");
        }
        int_or_percent::validate_most(&unavailable);
    }
}

fn validate_template(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>, depth: ValidationScope) {
    let (selector, template) = (spec.at("selector"), spec.at("template"));
    let labels = template.at("metadata").at("labels");
    match label_selector::selects(&selector, &labels) {
        None => selector.invalid(""),
        Some(selected) => {
            if !selected {
                labels.invalid(pods::MISMATCH);
            }
            if depth != ValidationScope::ExceptTemplate {
                validate_pods(spec, &template, old);
            }
        }
    }
    template::require_always_restart(&template);
    pods::forbid_deadline(&template, "StatefulSet");
}

/// Validates the template as its pods will be: the controller sets their host names, and each claim is a volume.
fn validate_pods(spec: &FieldRef<'_>, template: &FieldRef<'_>, old: Option<&FieldRef<'_>>) {
    let claims = spec.at("volumeClaimTemplates");
    let named = |field: &str| !template.at("spec").at(field).is_empty();
    if claims.is_empty() && !named("subdomain") && !named("hostname") {
        return pods::validate_template(template, old);
    }
    let mut made = template.value().clone();
    let pod = made.child("spec");
    pod.take(&["subdomain"]);
    pod.take(&["hostname"]);
    let names: Vec<&str> = claims
        .items()
        .map(|claim| claim.at("metadata").at("name").str())
        .collect();
    let mut volumes: Vec<Tree> = names.iter().map(|name| claim_volume(name)).collect();
    let template_volumes = template
        .value()
        .at(&["spec"])
        .map_or(&[][..], |spec| spec.items("volumes"));
    let hidden = |volume: &&Tree| !names.contains(&volume.str_at(&["name"]).unwrap_or_default());
    volumes.extend(template_volumes.iter().filter(hidden).cloned());
    pod.set(&["volumes"], volumes);
    let shape = template.shape().expect("a template has a shape");
    pods::validate_template(&FieldRef::new(&made, shape, template.errors()), old);
}

fn claim_volume(name: &str) -> Tree {
    let source: Map = [("claimName", name)].into_iter().collect();
    let volume: Map = [
        ("name", Tree::from(name)),
        ("persistentVolumeClaim", Tree::from(source)),
    ]
    .into_iter()
    .collect();
    volume.into()
}
