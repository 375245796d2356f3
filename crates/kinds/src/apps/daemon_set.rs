//! DaemonSet: one pod on every eligible node.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{
    FieldRef, Names, RequestFacts, Rules, Strategy, Subresource, label_selector, meta, top_level,
};

use super::replica_set::SELECTOR;
use super::{pods, status_counts};
use crate::core::pod::template;
use crate::shared::{int_or_percent, resources};

const ROLLING_UPDATE: &str = "RollingUpdate";
const ON_DELETE: &str = "OnDelete";
/// The annotation that counts changes of the template.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

#[derive(Debug)]
pub struct DaemonSet;

impl Strategy for DaemonSet {
    const KIND: (&'static str, &'static str, &'static str) = ("apps", "v1", "DaemonSet");
    const NAMES: Names = Names::new("daemonsets", "daemonset")
        .short(&["ds"])
        .categories(&["all"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::number("Desired", |set, _| {
            status_count(set, fields::DESIRED_NUMBER_SCHEDULED)
        })
        .description("The number of nodes that should run the pod."),
        Column::number("Current", |set, _| {
            status_count(set, fields::CURRENT_NUMBER_SCHEDULED)
        })
        .description("The number of eligible nodes that run the pod."),
        Column::number("Ready", |set, _| status_count(set, fields::NUMBER_READY))
            .description("The number of ready pods."),
        Column::number("Up-to-date", |set, _| {
            status_count(set, fields::UPDATED_NUMBER_SCHEDULED)
        })
        .description("The number of nodes that run the pod of the current template."),
        Column::number("Available", |set, _| status_count(set, fields::NUMBER_AVAILABLE))
            .description("The number of available pods."),
        Column::text("Node Selector", |set, _| {
            let selector = set
                .at(fields::SPEC)
                .at(fields::TEMPLATE)
                .at(fields::SPEC)
                .at(fields::NODE_SELECTOR);
            Cell::from(columns::labels(&selector))
        })
        .description("The node selector of the pods."),
        columns::AGE,
        template::CONTAINERS,
        template::IMAGES,
        SELECTOR,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT
        .tracks_generation()
        .internal_field_annotations(&[TEMPLATE_GENERATION]);

    fn default_fields(set: &mut Tree) {
        let generation = template_generation(set);
        set_template_generation(set, generation);
        let spec = set.child(fields::SPEC);
        spec.set_default(fields::REVISION_HISTORY_LIMIT, 10);
        let strategy = spec.child(fields::UPDATE_STRATEGY);
        strategy.set_default(fields::TYPE, ROLLING_UPDATE);
        if strategy.str_at(&[fields::TYPE]) == Some(ROLLING_UPDATE) {
            let rolling = strategy.child(fields::ROLLING_UPDATE);
            rolling.set_default(fields::MAX_UNAVAILABLE, 1);
            rolling.set_default(fields::MAX_SURGE, 0);
        }
        template::set_defaults(spec.child(fields::TEMPLATE));
    }

    fn prepare_create(set: &mut Tree, _facts: &RequestFacts) {
        top_level::drop(set, fields::STATUS);
        let generation = template_generation(set).max(1);
        set_template_generation(set, generation);
    }

    fn prepare_update(set: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep(set, old, fields::STATUS);
        let null = Tree::Null;
        let template = |set: &Tree| set.at(&[fields::SPEC, fields::TEMPLATE]).unwrap_or(&null).clone();
        let changed = !template(set).semantic_eq(&template(old));
        set_template_generation(set, template_generation(old) + i64::from(changed));
    }

    fn prepare_status(set: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        top_level::keep_all_except(set, old, &[fields::METADATA, fields::STATUS]);
        set_template_generation(set, template_generation(old));
    }

    fn validate(set: &FieldRef<'_>, facts: &RequestFacts) {
        validate_spec(&set.at(fields::SPEC), None, facts);
    }

    // Kubernetes reports the update rules before those of the object itself.
    fn validate_for_update(set: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        let (spec, before) = (set.at(fields::SPEC), old.at(fields::SPEC));
        spec.at(fields::SELECTOR).immutable(&before.at(fields::SELECTOR));
        validate_spec(&spec, Some(&before), facts);
    }

    fn validate_status(set: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let status = set.at(fields::STATUS);
        status_counts::validate(
            &status,
            &[
                fields::CURRENT_NUMBER_SCHEDULED,
                fields::NUMBER_MISSCHEDULED,
                fields::DESIRED_NUMBER_SCHEDULED,
                fields::NUMBER_READY,
                fields::OBSERVED_GENERATION,
                fields::UPDATED_NUMBER_SCHEDULED,
                fields::NUMBER_AVAILABLE,
                fields::NUMBER_UNAVAILABLE,
                fields::COLLISION_COUNT,
            ],
        );
        status_counts::validate_collisions(&status, &old.at(fields::STATUS));
    }

    fn warnings(set: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        pods::template_warnings(
            &set.at(fields::SPEC),
            old.map(|old| old.at(fields::SPEC)).as_ref(),
        )
    }
}

fn validate_spec(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>, facts: &RequestFacts) {
    let (selector, template) = (spec.at(fields::SELECTOR), spec.at(fields::TEMPLATE));
    label_selector::validate(&selector);
    let labels = template.at(fields::METADATA).at(fields::LABELS);
    if label_selector::selects(&selector, &labels) == Some(false) {
        labels.invalid(pods::MISMATCH);
    }
    if selector.is_set() && label_selector::is_empty(&selector) {
        selector.invalid("empty selector is invalid for daemonset");
    }
    pods::validate_template(&template, old, facts);
    template::require_always_restart(&template);
    pods::forbid_deadline(&template, "DaemonSet");
    spec.at(fields::MIN_READY_SECONDS).not_negative();
    validate_strategy(&spec.at(fields::UPDATE_STRATEGY));
    spec.at(fields::REVISION_HISTORY_LIMIT).not_negative();
}

fn validate_strategy(strategy: &FieldRef<'_>) {
    let rolling = strategy.at(fields::ROLLING_UPDATE);
    match strategy.at(fields::TYPE).str() {
        ON_DELETE => {}
        ROLLING_UPDATE if !rolling.is_set() => rolling.required(""),
        ROLLING_UPDATE => validate_rolling(&rolling),
        _ => strategy.not_supported(&[ROLLING_UPDATE, ON_DELETE]),
    }
}

/// Either `maxUnavailable` or `maxSurge` is nonzero, never both.
fn validate_rolling(rolling: &FieldRef<'_>) {
    let amounts = [rolling.at(fields::MAX_UNAVAILABLE), rolling.at(fields::MAX_SURGE)];
    amounts.iter().for_each(int_or_percent::validate);
    amounts.iter().for_each(int_or_percent::validate_most);
    let [unavailable, surge] = amounts;
    match (
        int_or_percent::number(&unavailable) != 0,
        int_or_percent::number(&surge) != 0,
    ) {
        (true, true) => surge.invalid("may not be set when maxUnavailable is non-zero"),
        (false, false) => unavailable.required("cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

fn template_generation(set: &Tree) -> i64 {
    let text = meta::entry(set, fields::ANNOTATIONS, TEMPLATE_GENERATION);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn set_template_generation(set: &mut Tree, generation: i64) {
    let annotations = set
        .child(fields::METADATA)
        .child(fields::ANNOTATIONS)
        .map_or_default();
    annotations.insert(TEMPLATE_GENERATION, generation.to_string());
    resources::sort(annotations);
}

fn status_count(set: &FieldRef<'_>, field: &str) -> Cell {
    Cell::from(set.at(fields::STATUS).at(field).int())
}
