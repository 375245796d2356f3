//! Deployment: pods of one template, replaced step by step when the template changes.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::{pods, status_counts};
use crate::columns::{self, Column};
use crate::core::pod::template;
use crate::field::FieldRef;
use crate::shared::{int_or_percent, label_selector};
use crate::strategy::{Names, RequestFacts, Rules, Strategy, Subresource};
use crate::{meta, top_level};

const ROLLING_UPDATE: &str = "RollingUpdate";
const RECREATE: &str = "Recreate";

#[derive(Debug)]
pub struct Deployment;

impl Strategy for Deployment {
    const KIND: (&'static str, &'static str, &'static str) = ("apps", "v1", "Deployment");
    const NAMES: Names = Names::new("deployments", "deployment")
        .short(&["deploy"])
        .categories(&["all"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Ready", |deployment, _| {
            let ready = deployment.at("status").at("readyReplicas").int();
            let desired = deployment.at("spec").at("replicas").int();
            Cell::from(format!("{ready}/{desired}"))
        })
        .description("The number of ready pods, of those desired."),
        Column::text("Up-to-date", |deployment, _| {
            Cell::from(deployment.at("status").at("updatedReplicas").int())
        })
        .description("The number of pods of the current template."),
        Column::text("Available", |deployment, _| {
            Cell::from(deployment.at("status").at("availableReplicas").int())
        })
        .description("The number of available pods."),
        columns::AGE,
        template::CONTAINERS,
        template::IMAGES,
        Column::text("Selector", |deployment, _| Cell::from(selector(deployment)))
            .wide()
            .description("The label selector of its pods."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::SCALE, Subresource::STATUS];
    const RULES: Rules = Rules {
        tracks_generation: true,
        status_reset_fields: &[&["spec"], &["metadata", "labels"]],
        internal_field_annotations: &["deprecated.deployment.rollback.to"],
        ..Rules::DEFAULT
    };

    fn default_fields(deployment: &mut Tree) {
        let spec = deployment.child("spec");
        spec.set_default("replicas", 1);
        spec.set_default("revisionHistoryLimit", 10);
        spec.set_default("progressDeadlineSeconds", 600);
        let strategy = spec.child("strategy");
        strategy.set_default("type", ROLLING_UPDATE);
        if strategy.str_at(&["type"]) == Some(ROLLING_UPDATE) {
            let rolling = strategy.child("rollingUpdate");
            rolling.set_default("maxUnavailable", "25%");
            rolling.set_default("maxSurge", "25%");
        }
        template::set_defaults(spec.child("template"));
    }

    // Annotations are copied to the ReplicaSets, so changing them increments the generation.
    fn prepare_update(deployment: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(deployment, old, "status");
        let same = match (
            meta::find(deployment, "annotations"),
            meta::find(old, "annotations"),
        ) {
            (Some(new), Some(old)) => new.semantic_eq(old),
            (new, old) => new.is_none() && old.is_none(),
        };
        if !same {
            meta::set(deployment, "generation", meta::int(old, "generation") + 1);
        }
    }

    fn prepare_status(deployment: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep_all_except(deployment, old, &["metadata", "status"]);
        meta::copy(deployment, old, "labels");
    }

    fn validate(deployment: &FieldRef<'_>) {
        validate_spec(&deployment.at("spec"), None);
    }

    fn validate_for_update(deployment: &FieldRef<'_>, old: &FieldRef<'_>) {
        validate_spec(&deployment.at("spec"), Some(&old.at("spec")));
    }

    fn validate_update(deployment: &FieldRef<'_>, old: &FieldRef<'_>) {
        deployment
            .at("spec")
            .at("selector")
            .immutable(&old.at("spec").at("selector"));
    }

    fn validate_status(deployment: &FieldRef<'_>, old: &FieldRef<'_>) {
        let status = deployment.at("status");
        let of_replicas = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        status_counts::validate(&status, &["observedGeneration", "replicas"]);
        status_counts::validate(&status, &of_replicas);
        status_counts::validate(
            &status,
            &["unavailableReplicas", "terminatingReplicas", "collisionCount"],
        );
        status_counts::validate_within(&status, &of_replicas);
        status_counts::validate_available(&status, "cannot be greater than readyReplicas");
        status_counts::validate_collisions(&status, &old.at("status"));
    }

    fn warnings(deployment: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        pods::warnings(deployment, old)
    }
}

fn validate_spec(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>) {
    spec.at("replicas").not_negative();
    pods::validate(spec, old);
    validate_strategy(&spec.at("strategy"));
    spec.at("minReadySeconds").not_negative();
    spec.at("revisionHistoryLimit").not_negative();
    let deadline = spec.at("progressDeadlineSeconds");
    deadline.not_negative();
    if deadline.is_set() && deadline.int() <= spec.at("minReadySeconds").int() {
        deadline.invalid("must be greater than minReadySeconds");
    }
}

fn validate_strategy(strategy: &FieldRef<'_>) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").str() {
        RECREATE if rolling.is_set() => {
            rolling.forbidden("may not be specified when strategy `type` is 'Recreate'");
        }
        RECREATE => {}
        ROLLING_UPDATE => validate_rolling(&rolling),
        _ => strategy.not_supported(&[RECREATE, ROLLING_UPDATE]),
    }
}

fn validate_rolling(rolling: &FieldRef<'_>) {
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    int_or_percent::validate(&unavailable);
    int_or_percent::validate(&surge);
    if int_or_percent::number(&unavailable) == 0 && int_or_percent::number(&surge) == 0 {
        unavailable.invalid("may not be 0 when `maxSurge` is 0");
    }
    int_or_percent::validate_most(&unavailable);
}

fn selector(deployment: &FieldRef<'_>) -> String {
    match label_selector::parse(deployment.at("spec").at("selector").value()) {
        Ok(selector) => selector.to_string(),
        Err(_) => "<invalid>".to_owned(),
    }
}
