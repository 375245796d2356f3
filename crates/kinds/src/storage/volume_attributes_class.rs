//! VolumeAttributesClass: how a driver sets up volumes that can be changed while they are in use.

use super::driver;
use crate::at::At;
use crate::columns::{self, Column};
use crate::strategy::{Names, Rules, Scope, Strategy};

#[derive(Debug)]
pub struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    const KIND: (&'static str, &'static str, &'static str) =
        ("storage.k8s.io", "v1", "VolumeAttributesClass");
    const NAMES: Names = Names::new("volumeattributesclasses", "volumeattributesclass").short(&["vac"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("DriverName", |class, _| {
            columns::or_empty(&class.at("driverName"))
        })
        .about("The driver that knows the parameters."),
        columns::AGE,
    ];
    const RULES: Rules = Rules {
        returns_deleted: true,
        ..Rules::DEFAULT
    };

    fn validate(class: &At<'_>) {
        class.at("driverName").require();
        driver::validate(&class.at("driverName"));
        let parameters = class.at("parameters");
        driver::validate_parameters(&parameters);
        if parameters.is_empty() {
            parameters.required("must contain at least one key/value pair");
        }
    }

    fn validate_again(_class: &At<'_>, _old: &At<'_>) {}

    fn validate_update(class: &At<'_>, old: &At<'_>) {
        for field in ["driverName", "parameters"] {
            if !class.at(field).is_same(&old.at(field)) {
                class
                    .at(field)
                    .forbidden(&format!("updates to {field} are forbidden."));
            }
        }
        Self::validate(class);
    }
}
