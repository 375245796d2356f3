//! DeviceTaintRule: taints all selected devices.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::{GROUP, format, taint};
use crate::columns::{self, Column};
use crate::field::FieldRef;
use crate::shared::{condition, name};
use crate::strategy::{Names, RequestFacts, Rules, Scope, Strategy, Subresource};
use crate::top_level;

const MAX_CONDITIONS: usize = 8;

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
        .description("The key of the taint."),
        Column::text("Value", |rule, _| {
            columns::or_empty(&rule.at("spec").at("taint").at("value"))
        })
        .description("The value of the taint."),
        Column::text("Effect", |rule, _| {
            columns::or_empty(&rule.at("spec").at("taint").at("effect"))
        })
        .description("The effect on pods that do not tolerate the taint."),
        Column::text("TimeAdded", |rule, now| -> Cell {
            columns::age_cell(&rule.at("spec").at("taint").at("timeAdded"), now)
        })
        .description("The time since the taint was added."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules {
        tracks_generation: true,
        unconditional_update: false,
        discovery_storage_version: "v1beta2",
        ..Rules::DEFAULT
    };

    fn default_for_request(rule: &mut Tree, facts: &RequestFacts) {
        taint::default_time_added(rule.child("spec").child("taint"), facts);
    }

    /// A changed effect sets a new `timeAdded`.
    fn prepare_update(rule: &mut Tree, old: &Tree, facts: &RequestFacts) {
        top_level::keep(rule, old, "status");
        let taint = rule.child("spec").child("taint");
        let before = old.at(&["spec", "taint"]);
        let same = |field: &str| taint.get(field) == before.and_then(|before| before.get(field));
        if !same("effect") && same("timeAdded") {
            taint.take(&["timeAdded"]);
            taint::default_time_added(taint, facts);
        }
    }

    fn validate(rule: &FieldRef<'_>) {
        let spec = rule.at("spec");
        let selector = spec.at("deviceSelector");
        if selector.at("driver").is_set() {
            format::check_driver(&selector.at("driver"));
        }
        if selector.at("pool").is_set() {
            format::check_pool(&selector.at("pool"));
        }
        if selector.at("device").is_set() {
            name::check(&selector.at("device"), name::check_dns1123_label);
        }
        taint::validate(&spec.at("taint"));
        taint::validate_declarative(&spec.at("taint"));
    }

    fn validate_status(rule: &FieldRef<'_>, _old: &FieldRef<'_>) {
        let conditions = rule.at("status").at("conditions");
        condition::validate(&conditions);
        format::check_max_items(&conditions, MAX_CONDITIONS);
    }
}
