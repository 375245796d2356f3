//! ReplicationController: a fixed number of pods of one template. Predecessor of the ReplicaSet.

use setpoint_api::table::Cell;
use setpoint_schema::{Map, Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{
    FieldLabel, FieldRef, NameRule, Names, RequestFacts, Rules, Strategy, Subresource, name,
};

use crate::apps::replica_set::{CURRENT, DESIRED, READY};
use crate::apps::{pods, status_counts};
use crate::core::pod::template;

#[derive(Debug)]
pub struct ReplicationController;

impl Strategy for ReplicationController {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "ReplicationController");
    const NAMES: Names = Names::new("replicationcontrollers", "replicationcontroller")
        .short(&["rc"])
        .categories(&["all"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        DESIRED,
        CURRENT,
        READY,
        columns::AGE,
        template::CONTAINERS,
        template::IMAGES,
        Column::text("Selector", |controller, _| {
            Cell::from(columns::labels(&controller.at(fields::SPEC).at(fields::SELECTOR)))
        })
        .wide()
        .description("The label selector of its pods."),
    ];
    const FIELDS: &'static [FieldLabel] =
        &[FieldLabel::new("status.replicas", &[&[fields::STATUS, fields::REPLICAS]]).or("0")];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::SCALE, Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT
        .tracks_generation()
        .orphans_dependents()
        .error_storage_path("controllers")
        .name(NameRule::Custom);

    // Labels and selector default to the template's labels.
    fn default_fields(controller: &mut Tree) {
        let labels = controller
            .at(&[fields::SPEC, fields::TEMPLATE, fields::METADATA, fields::LABELS])
            .cloned();
        if let Some(labels @ Tree::Map(_)) = labels {
            default_labels(controller.child(fields::SPEC), fields::SELECTOR, &labels);
            default_labels(controller.child(fields::METADATA), fields::LABELS, &labels);
        }
        let spec = controller.child(fields::SPEC);
        spec.set_default(fields::REPLICAS, 1);
        if let Some(template) = spec.find_mut(fields::TEMPLATE) {
            template::set_defaults(template);
        }
    }

    fn validate(controller: &FieldRef<'_>, facts: &RequestFacts) {
        validate_spec(&controller.at(fields::SPEC), None, facts);
        name::check_declarative(
            &controller.at(fields::METADATA).at(fields::NAME),
            name::check_dns1123_subdomain,
        );
    }

    fn validate_for_update(controller: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        validate_spec(&controller.at(fields::SPEC), Some(&old.at(fields::SPEC)), facts);
    }

    fn validate_status(controller: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        let status = controller.at(fields::STATUS);
        let of_replicas = [
            fields::FULLY_LABELED_REPLICAS,
            fields::READY_REPLICAS,
            fields::AVAILABLE_REPLICAS,
        ];
        status_counts::validate(&status, &[fields::REPLICAS]);
        status_counts::validate(&status, &of_replicas);
        status_counts::validate(&status, &[fields::OBSERVED_GENERATION]);
        status_counts::validate_within(&status, &of_replicas);
        status_counts::validate_available(&status, "cannot be greater than readyReplicas");
    }

    fn warnings(controller: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        pods::warnings(controller, old)
    }
}

fn default_labels(object: &mut Tree, field: &str, labels: &Tree) {
    let empty = |value: &Tree| value.as_map().is_none_or(Map::is_empty);
    if object.get(field).is_none_or(empty) {
        object.set(&[field], labels.clone());
    }
}

fn validate_spec(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>, facts: &RequestFacts) {
    spec.at(fields::SELECTOR).require();
    if spec.at(fields::TEMPLATE).is_set() {
        validate_template(spec, old, facts);
    } else {
        spec.at(fields::TEMPLATE).required("");
    }
    spec.at(fields::REPLICAS).not_negative();
    spec.at(fields::MIN_READY_SECONDS).not_negative();
}

fn validate_template(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>, facts: &RequestFacts) {
    let (selector, template) = (spec.at(fields::SELECTOR), spec.at(fields::TEMPLATE));
    let labels = template.at(fields::METADATA).at(fields::LABELS);
    let matches = |(label, value): (&str, FieldRef<'_>)| labels.key(label).find_str() == Some(value.str());
    if !selector.entries().all(matches) {
        labels.invalid(pods::MISMATCH);
    }
    pods::validate_template(&template, old, facts);
    template::require_always_restart(&template);
    pods::forbid_deadline(&template, "ReplicationController");
}
