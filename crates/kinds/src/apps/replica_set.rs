//! ReplicaSet: a fixed number of pods of one template.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::{pods, status_counts};
use crate::columns::{self, Column};
use crate::core::pod::template;
use crate::field::FieldRef;
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
        spec.set_default("replicas", 1);
        template::set_defaults(spec.child("template"));
    }

    fn validate(set: &FieldRef<'_>) {
        validate_spec(&set.at("spec"), None);
    }

    fn validate_for_update(set: &FieldRef<'_>, old: &FieldRef<'_>) {
        validate_spec(&set.at("spec"), Some(&old.at("spec")));
    }

    fn validate_update(set: &FieldRef<'_>, old: &FieldRef<'_>) {
        set.at("spec")
            .at("selector")
            .immutable(&old.at("spec").at("selector"));
    }

    fn validate_status(set: &FieldRef<'_>, _old: &FieldRef<'_>) {
        let status = set.at("status");
        let of_replicas = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        status_counts::validate(&status, &["replicas"]);
        status_counts::validate(&status, &of_replicas);
        status_counts::validate(&status, &["observedGeneration", "terminatingReplicas"]);
        status_counts::validate_within(&status, &of_replicas);
        status_counts::validate_available(&status, "cannot be greater than readyReplicas");
    }

    fn warnings(set: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        pods::warnings(set, old)
    }
}

fn validate_spec(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>) {
    spec.at("replicas").not_negative();
    spec.at("minReadySeconds").not_negative();
    pods::validate(spec, old);
}

/// The number of pods in the spec.
pub(crate) const DESIRED: Column = Column::number("Desired", |set, _| {
    Cell::from(set.at("spec").at("replicas").int())
})
.description("The desired number of pods.");

/// The number of pods in the status.
pub(crate) const CURRENT: Column = Column::number("Current", |set, _| {
    Cell::from(set.at("status").at("replicas").int())
})
.description("The current number of pods.");

/// The number of ready pods.
pub(crate) const READY: Column = Column::number("Ready", |set, _| {
    Cell::from(set.at("status").at("readyReplicas").int())
})
.description("The number of ready pods.");

/// Which pods belong to the object.
pub(crate) const SELECTOR: Column = Column::text("Selector", |set, _| {
    Cell::from(label_selector::print(&set.at("spec").at("selector")))
})
.wide()
.description("The label selector of its pods.");
