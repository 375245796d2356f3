//! DaemonSet: one pod on every node that fits.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::replica_set::SELECTOR;
use super::{counts, pods};
use crate::at::At;
use crate::columns::{self, Column};
use crate::core::pod::template;
use crate::shared::{int_or_percent, label_selector, resources};
use crate::strategy::{Facts, Names, Rules, Strategy, Subresource};
use crate::{meta, parts};

const ROLLING_UPDATE: &str = "RollingUpdate";
const ON_DELETE: &str = "OnDelete";
/// Where the object carries how often its template has changed.
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
        Column::number("Desired", |set, _| count(set, "desiredNumberScheduled"))
            .about("How many nodes should run its pod."),
        Column::number("Current", |set, _| count(set, "currentNumberScheduled"))
            .about("How many nodes that should run its pod have one."),
        Column::number("Ready", |set, _| count(set, "numberReady")).about("How many of its pods are ready."),
        Column::number("Up-to-date", |set, _| count(set, "updatedNumberScheduled"))
            .about("How many nodes run a pod of the newest template."),
        Column::number("Available", |set, _| count(set, "numberAvailable"))
            .about("How many of its pods have been ready for long enough."),
        Column::text("Node Selector", |set, _| {
            let selector = set.at("spec").at("template").at("spec").at("nodeSelector");
            Cell::from(columns::labels(&selector))
        })
        .about("Which labels its nodes have."),
        columns::AGE,
        template::CONTAINERS,
        template::IMAGES,
        SELECTOR,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        tracks_generation: true,
        inner_annotations: &[TEMPLATE_GENERATION],
        ..Rules::DEFAULT
    };

    fn default_fields(set: &mut Tree) {
        let generation = template_generation(set);
        set_template_generation(set, generation);
        let spec = set.child("spec");
        spec.fill("revisionHistoryLimit", 10);
        let strategy = spec.child("updateStrategy");
        strategy.fill("type", ROLLING_UPDATE);
        if strategy.str_at(&["type"]) == Some(ROLLING_UPDATE) {
            let rolling = strategy.child("rollingUpdate");
            rolling.fill("maxUnavailable", 1);
            rolling.fill("maxSurge", 0);
        }
        template::fill(spec.child("template"));
    }

    fn prepare_create(set: &mut Tree, _facts: &Facts) {
        parts::drop(set, "status");
        let generation = template_generation(set).max(1);
        set_template_generation(set, generation);
    }

    fn prepare_update(set: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep(set, old, "status");
        let null = Tree::Null;
        let template = |set: &Tree| set.at(&["spec", "template"]).unwrap_or(&null).clone();
        let changed = !template(set).means_same(&template(old));
        set_template_generation(set, template_generation(old) + i64::from(changed));
    }

    fn prepare_status(set: &mut Tree, old: &Tree, _facts: &Facts) {
        parts::keep_all_but(set, old, &["metadata", "status"]);
        set_template_generation(set, template_generation(old));
    }

    fn validate(set: &At<'_>) {
        validate_spec(&set.at("spec"), None);
    }

    // What may not follow is told before what is wrong by itself.
    fn validate_again(set: &At<'_>, old: &At<'_>) {
        let (spec, before) = (set.at("spec"), old.at("spec"));
        spec.at("selector").immutable(&before.at("selector"));
        validate_spec(&spec, Some(&before));
    }

    fn validate_status(set: &At<'_>, old: &At<'_>) {
        let status = set.at("status");
        counts::validate(
            &status,
            &[
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ],
        );
        counts::validate_collisions(&status, &old.at("status"));
    }

    fn warnings(set: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
        pods::template_warnings(&set.at("spec"), old.map(|old| old.at("spec")).as_ref())
    }
}

fn validate_spec(spec: &At<'_>, old: Option<&At<'_>>) {
    let (selector, template) = (spec.at("selector"), spec.at("template"));
    label_selector::validate(&selector);
    let labels = template.at("metadata").at("labels");
    if label_selector::selects(&selector, &labels) == Some(false) {
        labels.invalid(pods::MISMATCH);
    }
    if selector.is_set() && label_selector::is_empty(&selector) {
        selector.invalid("empty selector is invalid for daemonset");
    }
    pods::validate_template(&template, old);
    template::require_always_restart(&template);
    pods::forbid_deadline(&template, "DaemonSet");
    spec.at("minReadySeconds").not_negative();
    validate_strategy(&spec.at("updateStrategy"));
    spec.at("revisionHistoryLimit").not_negative();
}

fn validate_strategy(strategy: &At<'_>) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").str() {
        ON_DELETE => {}
        ROLLING_UPDATE if !rolling.is_set() => rolling.required(""),
        ROLLING_UPDATE => validate_rolling(&rolling),
        _ => strategy.not_supported(&[ROLLING_UPDATE, ON_DELETE]),
    }
}

/// Old pods go first or new ones come first, never both.
fn validate_rolling(rolling: &At<'_>) {
    let amounts = [rolling.at("maxUnavailable"), rolling.at("maxSurge")];
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
    let text = meta::entry(set, "annotations", TEMPLATE_GENERATION);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn set_template_generation(set: &mut Tree, generation: i64) {
    let annotations = set.child("metadata").child("annotations").map_or_default();
    annotations.insert(TEMPLATE_GENERATION, generation.to_string());
    resources::sort(annotations);
}

fn count(set: &At<'_>, field: &str) -> Cell {
    Cell::from(set.at("status").at(field).int())
}
