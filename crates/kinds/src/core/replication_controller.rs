//! ReplicationController: a fixed number of pods of one template. Predecessor of the ReplicaSet.

use setpoint_api::table::Cell;
use setpoint_schema::{Map, Tree};

use crate::apps::replica_set::{CURRENT, DESIRED, READY};
use crate::apps::{pods, status_counts};
use crate::columns::{self, Column};
use crate::core::pod::template;
use crate::field::FieldRef;
use crate::shared::name;
use crate::strategy::{FieldLabel, NameRule, Names, Rules, Strategy, Subresource};

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
            Cell::from(columns::labels(&controller.at("spec").at("selector")))
        })
        .wide()
        .description("The label selector of its pods."),
    ];
    const FIELDS: &'static [FieldLabel] =
        &[FieldLabel::new("status.replicas", &[&["status", "replicas"]]).or("0")];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::SCALE, Subresource::STATUS];
    const RULES: Rules = Rules {
        tracks_generation: true,
        orphans_dependents: true,
        error_storage_path: "controllers",
        name: NameRule::Custom,
        ..Rules::DEFAULT
    };

    // Labels and selector default to the template's labels.
    fn default_fields(controller: &mut Tree) {
        let labels = controller
            .at(&["spec", "template", "metadata", "labels"])
            .cloned();
        if let Some(labels @ Tree::Map(_)) = labels {
            default_labels(controller.child("spec"), "selector", &labels);
            default_labels(controller.child("metadata"), "labels", &labels);
        }
        let spec = controller.child("spec");
        spec.set_default("replicas", 1);
        if let Some(template) = spec.find_mut("template") {
            template::set_defaults(template);
        }
    }

    fn validate(controller: &FieldRef<'_>) {
        validate_spec(&controller.at("spec"), None);
        name::check_declarative(
            &controller.at("metadata").at("name"),
            name::check_dns1123_subdomain,
        );
    }

    fn validate_for_update(controller: &FieldRef<'_>, old: &FieldRef<'_>) {
        validate_spec(&controller.at("spec"), Some(&old.at("spec")));
    }

    fn validate_status(controller: &FieldRef<'_>, _old: &FieldRef<'_>) {
        let status = controller.at("status");
        let of_replicas = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        status_counts::validate(&status, &["replicas"]);
        status_counts::validate(&status, &of_replicas);
        status_counts::validate(&status, &["observedGeneration"]);
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

fn validate_spec(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>) {
    spec.at("selector").require();
    if spec.at("template").is_set() {
        validate_template(spec, old);
    } else {
        spec.at("template").required("");
    }
    spec.at("replicas").not_negative();
    spec.at("minReadySeconds").not_negative();
}

fn validate_template(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>) {
    let (selector, template) = (spec.at("selector"), spec.at("template"));
    let labels = template.at("metadata").at("labels");
    let matches = |(label, value): (&str, FieldRef<'_>)| labels.key(label).find_str() == Some(value.str());
    if !selector.entries().all(matches) {
        labels.invalid(pods::MISMATCH);
    }
    pods::validate_template(&template, old);
    template::require_always_restart(&template);
    pods::forbid_deadline(&template, "ReplicationController");
}
