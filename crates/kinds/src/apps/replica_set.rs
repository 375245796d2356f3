//! ReplicaSet: so many pods of one template, no more and no less.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::{counts, pods};
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
        DESIRED,
        CURRENT,
        READY,
        columns::AGE,
        template::CONTAINERS,
        template::IMAGES,
        SELECTOR,
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
        validate_spec(&set.at("spec"), None);
    }

    fn validate_again(set: &At<'_>, old: &At<'_>) {
        validate_spec(&set.at("spec"), Some(&old.at("spec")));
    }

    fn validate_update(set: &At<'_>, old: &At<'_>) {
        set.at("spec")
            .at("selector")
            .immutable(&old.at("spec").at("selector"));
    }

    fn validate_status(set: &At<'_>, _old: &At<'_>) {
        let status = set.at("status");
        let of_replicas = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        counts::validate(&status, &["replicas"]);
        counts::validate(&status, &of_replicas);
        counts::validate(&status, &["observedGeneration", "terminatingReplicas"]);
        counts::validate_within(&status, &of_replicas);
        counts::validate_available(&status, "cannot be greater than readyReplicas");
    }

    fn warnings(set: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
        pods::warnings(set, old)
    }
}

fn validate_spec(spec: &At<'_>, old: Option<&At<'_>>) {
    spec.at("replicas").not_negative();
    spec.at("minReadySeconds").not_negative();
    pods::validate(spec, old);
}

/// How many pods there should be.
pub(crate) const DESIRED: Column = Column::number("Desired", |set, _| {
    Cell::from(set.at("spec").at("replicas").int())
})
.about("How many pods there should be.");

/// How many pods there are.
pub(crate) const CURRENT: Column = Column::number("Current", |set, _| {
    Cell::from(set.at("status").at("replicas").int())
})
.about("How many pods there are.");

/// How many pods are ready.
pub(crate) const READY: Column = Column::number("Ready", |set, _| {
    Cell::from(set.at("status").at("readyReplicas").int())
})
.about("How many pods are ready.");

/// Which pods belong to the object.
pub(crate) const SELECTOR: Column = Column::text("Selector", |set, _| {
    Cell::from(label_selector::print(&set.at("spec").at("selector")))
})
.wide()
.about("Which pods belong to it.");
