//! PodTemplate: a stand-alone pod template.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::pod::template;
use crate::columns::{self, Column, NONE};
use crate::field::FieldRef;
use crate::strategy::{Names, Rules, Strategy};

#[derive(Debug)]
pub struct PodTemplate;

impl Strategy for PodTemplate {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "PodTemplate");
    const NAMES: Names = Names::new("podtemplates", "podtemplate");
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Containers", |object, _| {
            Cell::from(template::of_containers(&object.at("template"), "name"))
        })
        .description("The containers of the pod template."),
        Column::text("Images", |object, _| {
            Cell::from(template::of_containers(&object.at("template"), "image"))
        })
        .description("The images of the pod template."),
        Column::text("Pod Labels", |object, _| Cell::from(labels(object)))
            .description("The labels of its pods."),
    ];
    const RULES: Rules = Rules {
        tracks_generation: true,
        ..Rules::DEFAULT
    };

    fn default_fields(object: &mut Tree) {
        template::set_defaults(object.child("template"));
    }

    fn validate(object: &FieldRef<'_>) {
        template::validate(&object.at("template"));
    }

    fn validate_for_update(object: &FieldRef<'_>, old: &FieldRef<'_>) {
        template::validate_for_update(&object.at("template"), &old.at("template"));
    }

    fn warnings(object: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
        template::warnings(&object.at("template"))
    }
}

fn labels(object: &FieldRef<'_>) -> String {
    let labels = object.at("template").at("metadata").at("labels");
    if labels.is_empty() {
        return NONE.to_owned();
    }
    let pairs: Vec<String> = labels
        .entries()
        .map(|(label, value)| format!("{label}={}", value.str()))
        .collect();
    pairs.join(",")
}
