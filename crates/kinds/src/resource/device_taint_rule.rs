//! DeviceTaintRule: taints every device that is selected.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::{GROUP, form, taint};
use crate::at::At;
use crate::columns::{self, Column};
use crate::parts;
use crate::shared::{condition, name};
use crate::strategy::{Facts, Names, Rules, Scope, Strategy, Subresource};

const MOST_CONDITIONS: usize = 8;

#[derive(Debug)]
pub struct DeviceTaintRule;

impl Strategy for DeviceTaintRule {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "DeviceTaintRule");
    const NAMES: Names = Names::new("devicetaintrules", "devicetaintrule");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Key", |rule, _| {
            columns::or_empty(&rule.at("spec").at("taint").at("key"))
        })
        .about("What the taint is called."),
        Column::text("Value", |rule, _| {
            columns::or_empty(&rule.at("spec").at("taint").at("value"))
        })
        .about("What it says."),
        Column::text("Effect", |rule, _| {
            columns::or_empty(&rule.at("spec").at("taint").at("effect"))
        })
        .about("What it does to those who do not put up with it."),
        Column::text("TimeAdded", |rule, now| -> Cell {
            columns::since(&rule.at("spec").at("taint").at("timeAdded"), now)
        })
        .about("The time since it is there."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        tracks_generation: true,
        unconditional_update: false,
        said_stored: "v1beta2",
        ..Rules::DEFAULT
    };

    fn default_by_facts(rule: &mut Tree, facts: &Facts) {
        taint::fill_time(rule.child("spec").child("taint"), facts);
    }

    /// A taint with another effect is a new one.
    fn prepare_update(rule: &mut Tree, old: &Tree, facts: &Facts) {
        parts::keep(rule, old, "status");
        let taint = rule.child("spec").child("taint");
        let before = old.at(&["spec", "taint"]);
        let same = |field: &str| taint.get(field) == before.and_then(|before| before.get(field));
        if !same("effect") && same("timeAdded") {
            taint.take(&["timeAdded"]);
            taint::fill_time(taint, facts);
        }
    }

    fn validate(rule: &At<'_>) {
        let spec = rule.at("spec");
        let selector = spec.at("deviceSelector");
        if selector.at("driver").is_set() {
            form::driver(&selector.at("driver"));
        }
        if selector.at("pool").is_set() {
            form::pool(&selector.at("pool"));
        }
        if selector.at("device").is_set() {
            name::check(&selector.at("device"), name::label);
        }
        taint::validate(&spec.at("taint"));
        taint::declared(&spec.at("taint"));
    }

    fn validate_status(rule: &At<'_>, _old: &At<'_>) {
        let conditions = rule.at("status").at("conditions");
        condition::validate(&conditions);
        form::at_most(&conditions, MOST_CONDITIONS);
    }
}
