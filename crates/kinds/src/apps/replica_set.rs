//! ReplicaSet: a fixed number of pods of one template.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy, Subresource, label_selector};

use super::{pods, status_counts};
use crate::core::pod::template;

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
    const RULES: Rules = Rules::DEFAULT.tracks_generation();

    fn default_fields(set: &mut Tree) {
        let spec = set.child(fields::SPEC);
        spec.set_default(fields::REPLICAS, 1);
        template::set_defaults(spec.child(fields::TEMPLATE));
    }

    fn validate(set: &FieldRef<'_>, facts: &RequestFacts) {
        validate_spec(&set.at(fields::SPEC), None, facts);
    }

    fn validate_for_update(set: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        validate_spec(&set.at(fields::SPEC), Some(&old.at(fields::SPEC)), facts);
    }

    fn validate_update(set: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        set.at(fields::SPEC)
            .at(fields::SELECTOR)
            .immutable(&old.at(fields::SPEC).at(fields::SELECTOR));
    }

    fn validate_status(set: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        let status = set.at(fields::STATUS);
        let of_replicas = [
            fields::FULLY_LABELED_REPLICAS,
            fields::READY_REPLICAS,
            fields::AVAILABLE_REPLICAS,
        ];
        status_counts::validate(&status, &[fields::REPLICAS]);
        status_counts::validate(&status, &of_replicas);
        status_counts::validate(
            &status,
            &[fields::OBSERVED_GENERATION, fields::TERMINATING_REPLICAS],
        );
        status_counts::validate_within(&status, &of_replicas);
        status_counts::validate_available(&status, "cannot be greater than readyReplicas");
    }

    fn warnings(set: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        pods::warnings(set, old)
    }
}

fn validate_spec(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>, facts: &RequestFacts) {
    spec.at(fields::REPLICAS).not_negative();
    spec.at(fields::MIN_READY_SECONDS).not_negative();
    pods::validate(spec, old, facts);
}

/// The number of pods in the spec.
pub(crate) const DESIRED: Column = Column::number("Desired", |set, _| {
    Cell::from(set.at(fields::SPEC).at(fields::REPLICAS).int())
})
.description("The desired number of pods.");

/// The number of pods in the status.
pub(crate) const CURRENT: Column = Column::number("Current", |set, _| {
    Cell::from(set.at(fields::STATUS).at(fields::REPLICAS).int())
})
.description("The current number of pods.");

/// The number of ready pods.
pub(crate) const READY: Column = Column::number("Ready", |set, _| {
    Cell::from(set.at(fields::STATUS).at(fields::READY_REPLICAS).int())
})
.description("The number of ready pods.");

/// Which pods belong to the object.
pub(crate) const SELECTOR: Column = Column::text("Selector", |set, _| {
    Cell::from(label_selector::print(&set.at(fields::SPEC).at(fields::SELECTOR)))
})
.wide()
.description("The label selector of its pods.");
