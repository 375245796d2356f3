//! Deployment: pods of one template, replaced step by step when the template changes.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{
    FieldRef, Names, RequestFacts, Rules, Strategy, Subresource, label_selector, meta, top_level,
};

use super::{pods, status_counts};
use crate::core::pod::template;
use crate::shared::int_or_percent;

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
            let ready = deployment.at(fields::STATUS).at(fields::READY_REPLICAS).int();
            let desired = deployment.at(fields::SPEC).at(fields::REPLICAS).int();
            Cell::from(format!("{ready}/{desired}"))
        })
        .description("The number of ready pods, of those desired."),
        Column::text("Up-to-date", |deployment, _| {
            Cell::from(deployment.at(fields::STATUS).at(fields::UPDATED_REPLICAS).int())
        })
        .description("The number of pods of the current template."),
        Column::text("Available", |deployment, _| {
            Cell::from(deployment.at(fields::STATUS).at(fields::AVAILABLE_REPLICAS).int())
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
    const RULES: Rules = Rules::DEFAULT
        .tracks_generation()
        .status_reset_fields(&[&[fields::SPEC], &[fields::METADATA, fields::LABELS]])
        .internal_field_annotations(&["deprecated.deployment.rollback.to"]);

    fn default_fields(deployment: &mut Tree) {
        let spec = deployment.child(fields::SPEC);
        spec.set_default(fields::REPLICAS, 1);
        spec.set_default(fields::REVISION_HISTORY_LIMIT, 10);
        spec.set_default(fields::PROGRESS_DEADLINE_SECONDS, 600);
        let strategy = spec.child(fields::STRATEGY);
        strategy.set_default(fields::TYPE, ROLLING_UPDATE);
        if strategy.str_at(&[fields::TYPE]) == Some(ROLLING_UPDATE) {
            let rolling = strategy.child(fields::ROLLING_UPDATE);
            rolling.set_default(fields::MAX_UNAVAILABLE, "25%");
            rolling.set_default(fields::MAX_SURGE, "25%");
        }
        template::set_defaults(spec.child(fields::TEMPLATE));
    }

    // Annotations are copied to the ReplicaSets, so changing them increments the generation.
    fn prepare_update(deployment: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(deployment, old, fields::STATUS);
        let same = match (
            meta::find(deployment, fields::ANNOTATIONS),
            meta::find(old, fields::ANNOTATIONS),
        ) {
            (Some(new), Some(old)) => new.semantic_eq(old),
            (new, old) => new.is_none() && old.is_none(),
        };
        if !same {
            meta::set(
                deployment,
                fields::GENERATION,
                meta::int(old, fields::GENERATION) + 1,
            );
        }
    }

    fn prepare_status(deployment: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep_all_except(deployment, old, &[fields::METADATA, fields::STATUS]);
        meta::copy(deployment, old, fields::LABELS);
    }

    fn validate(deployment: &FieldRef<'_>, facts: &RequestFacts) {
        validate_spec(&deployment.at(fields::SPEC), None, facts);
    }

    fn validate_for_update(deployment: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        validate_spec(&deployment.at(fields::SPEC), Some(&old.at(fields::SPEC)), facts);
    }

    fn validate_update(deployment: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        deployment
            .at(fields::SPEC)
            .at(fields::SELECTOR)
            .immutable(&old.at(fields::SPEC).at(fields::SELECTOR));
    }

    fn validate_status(deployment: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let status = deployment.at(fields::STATUS);
        let of_replicas = [
            fields::UPDATED_REPLICAS,
            fields::READY_REPLICAS,
            fields::AVAILABLE_REPLICAS,
        ];
        status_counts::validate(&status, &[fields::OBSERVED_GENERATION, fields::REPLICAS]);
        status_counts::validate(&status, &of_replicas);
        status_counts::validate(
            &status,
            &[
                fields::UNAVAILABLE_REPLICAS,
                fields::TERMINATING_REPLICAS,
                fields::COLLISION_COUNT,
            ],
        );
        status_counts::validate_within(&status, &of_replicas);
        status_counts::validate_available(&status, "cannot be greater than readyReplicas");
        status_counts::validate_collisions(&status, &old.at(fields::STATUS));
    }

    fn warnings(deployment: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        pods::warnings(deployment, old)
    }
}

fn validate_spec(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>, facts: &RequestFacts) {
    spec.at(fields::REPLICAS).not_negative();
    pods::validate(spec, old, facts);
    validate_strategy(&spec.at(fields::STRATEGY));
    spec.at(fields::MIN_READY_SECONDS).not_negative();
    spec.at(fields::REVISION_HISTORY_LIMIT).not_negative();
    let deadline = spec.at(fields::PROGRESS_DEADLINE_SECONDS);
    deadline.not_negative();
    if deadline.is_set() && deadline.int() <= spec.at(fields::MIN_READY_SECONDS).int() {
        deadline.invalid("must be greater than minReadySeconds");
    }
}

fn validate_strategy(strategy: &FieldRef<'_>) {
    let rolling = strategy.at(fields::ROLLING_UPDATE);
    match strategy.at(fields::TYPE).str() {
        RECREATE if rolling.is_set() => {
            rolling.forbidden("may not be specified when strategy `type` is 'Recreate'");
        }
        RECREATE => {}
        ROLLING_UPDATE => validate_rolling(&rolling),
        _ => strategy.not_supported(&[RECREATE, ROLLING_UPDATE]),
    }
}

fn validate_rolling(rolling: &FieldRef<'_>) {
    let (unavailable, surge) = (rolling.at(fields::MAX_UNAVAILABLE), rolling.at(fields::MAX_SURGE));
    int_or_percent::validate(&unavailable);
    int_or_percent::validate(&surge);
    if int_or_percent::number(&unavailable) == 0 && int_or_percent::number(&surge) == 0 {
        unavailable.invalid("may not be 0 when `maxSurge` is 0");
    }
    int_or_percent::validate_most(&unavailable);
}

fn selector(deployment: &FieldRef<'_>) -> String {
    match label_selector::parse(deployment.at(fields::SPEC).at(fields::SELECTOR).value()) {
        Ok(selector) => selector.to_string(),
        Err(_) => "<invalid>".to_owned(),
    }
}
