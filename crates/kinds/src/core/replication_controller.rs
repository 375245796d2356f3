//! ReplicationController: so many pods of one template. The elder sibling of the ReplicaSet.

use setpoint_api::table::Cell;
use setpoint_schema::{Map, Tree};

use crate::apps::replica_set::{CURRENT, DESIRED, READY};
use crate::apps::{counts, pods};
use crate::at::At;
use crate::columns::{self, Column};
use crate::core::pod::template;
use crate::shared::name;
use crate::strategy::{Field, NameRule, Names, Rules, Strategy, Subresource};

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
        .about("Which pods belong to it."),
    ];
    const FIELDS: &'static [Field] = &[Field::new("status.replicas", &[&["status", "replicas"]]).or("0")];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::SCALE, Subresource::STATUS];
    const RULES: Rules = Rules {
        tracks_generation: true,
        orphans_dependents: true,
        kept_at: "controllers",
        name: NameRule::Own,
        ..Rules::DEFAULT
    };

    // What the template's labels are, the controller and its selector are where they say nothing.
    fn default_fields(controller: &mut Tree) {
        let labels = controller
            .at(&["spec", "template", "metadata", "labels"])
            .cloned();
        if let Some(labels @ Tree::Map(_)) = labels {
            fill_empty(controller.child("spec"), "selector", &labels);
            fill_empty(controller.child("metadata"), "labels", &labels);
        }
        let spec = controller.child("spec");
        spec.fill("replicas", 1);
        if let Some(template) = spec.find_mut("template") {
            template::fill(template);
        }
    }

    fn validate(controller: &At<'_>) {
        validate_spec(&controller.at("spec"), None);
        name::declared(&controller.at("metadata").at("name"), name::subdomain);
    }

    fn validate_again(controller: &At<'_>, old: &At<'_>) {
        validate_spec(&controller.at("spec"), Some(&old.at("spec")));
    }

    fn validate_status(controller: &At<'_>, _old: &At<'_>) {
        let status = controller.at("status");
        let of_replicas = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        counts::validate(&status, &["replicas"]);
        counts::validate(&status, &of_replicas);
        counts::validate(&status, &["observedGeneration"]);
        counts::validate_within(&status, &of_replicas);
        counts::validate_available(&status, "cannot be greater than readyReplicas");
    }

    fn warnings(controller: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
        pods::warnings(controller, old)
    }
}

fn fill_empty(object: &mut Tree, field: &str, labels: &Tree) {
    let empty = |value: &Tree| value.as_map().is_none_or(Map::is_empty);
    if object.get(field).is_none_or(empty) {
        object.set(&[field], labels.clone());
    }
}

fn validate_spec(spec: &At<'_>, old: Option<&At<'_>>) {
    spec.at("selector").require();
    if spec.at("template").is_set() {
        validate_template(spec, old);
    } else {
        spec.at("template").required("");
    }
    spec.at("replicas").not_negative();
    spec.at("minReadySeconds").not_negative();
}

fn validate_template(spec: &At<'_>, old: Option<&At<'_>>) {
    let (selector, template) = (spec.at("selector"), spec.at("template"));
    let labels = template.at("metadata").at("labels");
    let matches = |(label, value): (&str, At<'_>)| labels.key(label).find_str() == Some(value.str());
    if !selector.entries().all(matches) {
        labels.invalid(pods::MISMATCH);
    }
    pods::validate_template(&template, old);
    template::require_always_restart(&template);
    pods::forbid_deadline(&template, "ReplicationController");
}
