//! Deployment: pods of one template, replaced step by step when the template changes.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::{counts, pods};
use crate::at::At;
use crate::columns::{self, Column};
use crate::core::pod::template;
use crate::shared::{int_or_percent, label_selector};
use crate::strategy::{Facts, Names, Rules, Strategy, Subresource};
use crate::{meta, parts};

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
        .about("How many pods are ready, of how many there should be."),
        Column::text("Up-to-date", |deployment, _| {
            Cell::from(deployment.at("status").at("updatedReplicas").int())
        })
        .about("How many pods are of the newest template."),
        Column::text("Available", |deployment, _| {
            Cell::from(deployment.at("status").at("availableReplicas").int())
        })
        .about("How many pods have been ready for long enough."),
        columns::AGE,
        template::CONTAINERS,
        template::IMAGES,
        Column::text("Selector", |deployment, _| Cell::from(selector(deployment)))
            .wide()
            .about("Which pods belong to it."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::SCALE, Subresource::STATUS];
    const RULES: Rules = Rules {
        tracks_generation: true,
        status_resets: &[&["spec"], &["metadata", "labels"]],
        inner_annotations: &["deprecated.deployment.rollback.to"],
        ..Rules::DEFAULT
    };

    fn default_fields(deployment: &mut Tree) {
        let spec = deployment.child("spec");
        spec.fill("replicas", 1);
        spec.fill("revisionHistoryLimit", 10);
        spec.fill("progressDeadlineSeconds", 600);
        let strategy = spec.child("strategy");
        strategy.fill("type", ROLLING_UPDATE);
        if strategy.str_at(&["type"]) == Some(ROLLING_UPDATE) {
            let rolling = strategy.child("rollingUpdate");
            rolling.fill("maxUnavailable", "25%");
            rolling.fill("maxSurge", "25%");
        }
        template::fill(spec.child("template"));
    }

    // Annotations are handed on to the sets of pods, so they are a part of what a Deployment asks for.
    fn prepare_update(deployment: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep(deployment, old, "status");
        let same = match (
            meta::find(deployment, "annotations"),
            meta::find(old, "annotations"),
        ) {
            (Some(new), Some(old)) => new.means_same(old),
            (new, old) => new.is_none() && old.is_none(),
        };
        if !same {
            meta::set(deployment, "generation", meta::int(old, "generation") + 1);
        }
    }

    fn prepare_status(deployment: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep_all_but(deployment, old, &["metadata", "status"]);
        meta::copy(deployment, old, "labels");
    }

    fn validate(deployment: &At<'_>) {
        validate_spec(&deployment.at("spec"), None);
    }

    fn validate_again(deployment: &At<'_>, old: &At<'_>) {
        validate_spec(&deployment.at("spec"), Some(&old.at("spec")));
    }

    fn validate_update(deployment: &At<'_>, old: &At<'_>) {
        deployment
            .at("spec")
            .at("selector")
            .immutable(&old.at("spec").at("selector"));
    }

    fn validate_status(deployment: &At<'_>, old: &At<'_>) {
        let status = deployment.at("status");
        let of_replicas = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        counts::validate(&status, &["observedGeneration", "replicas"]);
        counts::validate(&status, &of_replicas);
        counts::validate(
            &status,
            &["unavailableReplicas", "terminatingReplicas", "collisionCount"],
        );
        counts::validate_within(&status, &of_replicas);
        counts::validate_available(&status, "cannot be greater than readyReplicas");
        counts::validate_collisions(&status, &old.at("status"));
    }

    fn warnings(deployment: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
        pods::warnings(deployment, old)
    }
}

fn validate_spec(spec: &At<'_>, old: Option<&At<'_>>) {
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

fn validate_strategy(strategy: &At<'_>) {
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

fn validate_rolling(rolling: &At<'_>) {
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    int_or_percent::validate(&unavailable);
    int_or_percent::validate(&surge);
    if int_or_percent::number(&unavailable) == 0 && int_or_percent::number(&surge) == 0 {
        unavailable.invalid("may not be 0 when `maxSurge` is 0");
    }
    int_or_percent::validate_most(&unavailable);
}

fn selector(deployment: &At<'_>) -> String {
    match label_selector::parse(deployment.at("spec").at("selector").value()) {
        Ok(selector) => selector.to_string(),
        Err(_) => "<invalid>".to_owned(),
    }
}
