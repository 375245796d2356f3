//! VolumeAttributesClass: volume attributes that a driver can change while the volume is in use.

use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

use super::driver;

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
            columns::or_empty(&class.at(fields::DRIVER_NAME))
        })
        .description("The driver of the class."),
        columns::AGE,
    ];
    const RULES: Rules = Rules::DEFAULT.returns_deleted();

    fn validate(class: &FieldRef<'_>, _facts: &RequestFacts) {
        class.at(fields::DRIVER_NAME).require();
        driver::validate(&class.at(fields::DRIVER_NAME));
        let parameters = class.at(fields::PARAMETERS);
        driver::validate_parameters(&parameters);
        if parameters.is_empty() {
            parameters.required("must contain at least one key/value pair");
        }
    }

    fn validate_for_update(_class: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {}

    fn validate_update(class: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        for field in [fields::DRIVER_NAME, fields::PARAMETERS] {
            if !class.at(field).is_same(&old.at(field)) {
                class
                    .at(field)
                    .forbidden(&format!("updates to {field} are forbidden."));
            }
        }
        Self::validate(class, facts);
    }
}
