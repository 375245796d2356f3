//! ReplicaSet: so many pods of one template, no more and no less.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use crate::at::At;
use crate::columns::{self, Column};
use crate::core::pod::template;
use crate::shared::label_selector;
use crate::strategy::{Names, Rules, Strategy, Subresource};

#[derive(Debug)]
pub struct ReplicaSet;

impl Strategy for ReplicaSet {
    const KIND: (&'static str, &'static str, &'static str) = ("apps", "v1", "ReplicaSet");
    const NAMES: Names = Names::new("replicasets", "replicaset")
        .short(&["rs"])
        .categories(&["all"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::number("Desired", |set, _| {
            Cell::from(set.at("spec").at("replicas").int())
        })
        .about("How many pods there should be."),
        Column::number("Current", |set, _| {
            Cell::from(set.at("status").at("replicas").int())
        })
        .about("How many pods there are."),
        Column::number("Ready", |set, _| {
            Cell::from(set.at("status").at("readyReplicas").int())
        })
        .about("How many pods are ready."),
        columns::AGE,
        template::CONTAINERS,
        template::IMAGES,
        Column::text("Selector", |set, _| {
            Cell::from(label_selector::print(&set.at("spec").at("selector")))
        })
        .wide()
        .about("Which pods belong to it."),
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::SCALE, Subresource::STATUS];
    const RULES: Rules = Rules {
        tracks_generation: true,
        ..Rules::DEFAULT
    };

    fn default_fields(set: &mut Tree) {
        let spec = set.child("spec");
        spec.fill("replicas", 1);
        template::fill(spec.child("template"));
    }

    fn validate(set: &At<'_>) {
        let spec = set.at("spec");
        spec.at("replicas").not_negative();
        spec.at("minReadySeconds").not_negative();
        validate_selector(&spec);
    }

    fn validate_update(set: &At<'_>, old: &At<'_>) {
        set.at("spec")
            .at("selector")
            .immutable(&old.at("spec").at("selector"));
    }

    fn validate_status(set: &At<'_>, _old: &At<'_>) {
        let status = set.at("status");
        let counts = [
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
        ];
        counts.iter().for_each(|count| status.at(count).not_negative());
        for count in &counts[1..] {
            if status.at(count).int() > status.at("replicas").int() {
                status.at(count).invalid("cannot be greater than status.replicas");
            }
        }
        if status.at("availableReplicas").int() > status.at("readyReplicas").int() {
            status
                .at("availableReplicas")
                .invalid("cannot be greater than readyReplicas");
        }
    }
}

fn validate_selector(spec: &At<'_>) {
    let selector = spec.at("selector");
    let empty = label_selector::is_empty(&selector);
    label_selector::validate(&selector);
    if empty {
        selector.required("");
    }
    let template = spec.at("template");
    let labels = template.at("metadata").at("labels");
    if let Ok(selector) = label_selector::parse(selector.value())
        && (empty || !label_selector::matches(&selector, &labels))
    {
        labels.invalid("`selector` does not match template `labels`");
    }
    template::validate(&template);
    template::require_always_restart(&template);
}
