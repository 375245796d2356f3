//! PodTemplate: a stand-alone pod template.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column, NONE};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy};

use super::pod::template;

#[derive(Debug)]
pub struct PodTemplate;

impl Strategy for PodTemplate {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "PodTemplate");
    const NAMES: Names = Names::new("podtemplates", "podtemplate");
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Containers", |object, _| {
            Cell::from(template::of_containers(
                &object.at(fields::TEMPLATE),
                fields::NAME,
            ))
        })
        .description("The containers of the pod template."),
        Column::text("Images", |object, _| {
            Cell::from(template::of_containers(
                &object.at(fields::TEMPLATE),
                fields::IMAGE,
            ))
        })
        .description("The images of the pod template."),
        Column::text("Pod Labels", |object, _| Cell::from(labels(object)))
            .description("The labels of its pods."),
    ];
    const RULES: Rules = Rules::DEFAULT.tracks_generation();

    fn default_fields(object: &mut Tree) {
        template::set_defaults(object.child(fields::TEMPLATE));
    }

    fn validate(object: &FieldRef<'_>, facts: &RequestFacts) {
        template::validate(&object.at(fields::TEMPLATE), facts);
    }

    fn validate_for_update(object: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        template::validate_for_update(&object.at(fields::TEMPLATE), &old.at(fields::TEMPLATE), facts);
    }

    fn warnings(object: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
        template::warnings(&object.at(fields::TEMPLATE))
    }
}

fn labels(object: &FieldRef<'_>) -> String {
    let labels = object
        .at(fields::TEMPLATE)
        .at(fields::METADATA)
        .at(fields::LABELS);
    if labels.is_empty() {
        return NONE.to_owned();
    }
    let pairs: Vec<String> = labels
        .entries()
        .map(|(label, value)| format!("{label}={}", value.str()))
        .collect();
    pairs.join(",")
}
