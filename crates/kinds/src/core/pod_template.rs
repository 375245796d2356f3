//! PodTemplate: a template by itself, for whoever wants to make pods of it.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::pod::template;
use crate::at::At;
use crate::columns::{self, Column, NONE};
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
        .about("The containers of the template."),
        Column::text("Images", |object, _| {
            Cell::from(template::of_containers(&object.at("template"), "image"))
        })
        .about("The images of the template."),
        Column::text("Pod Labels", |object, _| Cell::from(labels(object))).about("The labels of its pods."),
    ];
    const RULES: Rules = Rules {
        tracks_generation: true,
        ..Rules::DEFAULT
    };

    fn default_fields(object: &mut Tree) {
        template::fill(object.child("template"));
    }

    fn validate(object: &At<'_>) {
        template::validate(&object.at("template"));
    }

    fn validate_again(object: &At<'_>, old: &At<'_>) {
        template::validate_again(&object.at("template"), &old.at("template"));
    }

    fn warnings(object: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
        template::warnings(&object.at("template"))
    }
}

fn labels(object: &At<'_>) -> String {
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
