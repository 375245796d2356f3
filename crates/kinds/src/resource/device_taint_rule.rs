//! DeviceTaintRule: taints all selected devices.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{
    EtcdEncoding, FieldRef, Names, RequestFacts, Rules, Scope, Strategy, Subresource, name, top_level,
};

use super::{GROUP, format, taint};
use crate::shared::condition;

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
            columns::or_empty(&rule.at(fields::SPEC).at(fields::TAINT).at(fields::KEY))
        })
        .description("The key of the taint."),
        Column::text("Value", |rule, _| {
            columns::or_empty(&rule.at(fields::SPEC).at(fields::TAINT).at(fields::VALUE))
        })
        .description("The value of the taint."),
        Column::text("Effect", |rule, _| {
            columns::or_empty(&rule.at(fields::SPEC).at(fields::TAINT).at(fields::EFFECT))
        })
        .description("The effect on pods that do not tolerate the taint."),
        Column::text("TimeAdded", |rule, now| -> Cell {
            columns::age_cell(
                &rule.at(fields::SPEC).at(fields::TAINT).at(fields::TIME_ADDED),
                now,
            )
        })
        .description("The time since the taint was added."),
        columns::AGE,
    ];
    const SUBRESOURCES: &'static [Subresource] = &[Subresource::STATUS];
    const RULES: Rules = Rules::DEFAULT
        .tracks_generation()
        .no_unconditional_update()
        .discovery_storage_version("v1beta2")
        .etcd_encoding(EtcdEncoding::ProtobufIn("v1beta2"));

    fn default_for_request(rule: &mut Tree, facts: &RequestFacts) {
        taint::default_time_added(rule.child(fields::SPEC).child(fields::TAINT), facts);
    }

    /// A changed effect sets a new `timeAdded`.
    fn prepare_update(rule: &mut Tree, old: &Tree, facts: &RequestFacts) {
        top_level::keep(rule, old, fields::STATUS);
        let taint = rule.child(fields::SPEC).child(fields::TAINT);
        let before = old.at(&[fields::SPEC, fields::TAINT]);
        let same = |field: &str| taint.get(field) == before.and_then(|before| before.get(field));
        if !same(fields::EFFECT) && same(fields::TIME_ADDED) {
            taint.take(&[fields::TIME_ADDED]);
            taint::default_time_added(taint, facts);
        }
    }

    fn validate(rule: &FieldRef<'_>, _facts: &RequestFacts) {
        let spec = rule.at(fields::SPEC);
        let selector = spec.at(fields::DEVICE_SELECTOR);
        if selector.at(fields::DRIVER).is_set() {
            format::check_driver(&selector.at(fields::DRIVER));
        }
        if selector.at(fields::POOL).is_set() {
            format::check_pool(&selector.at(fields::POOL));
        }
        if selector.at(fields::DEVICE).is_set() {
            name::check(&selector.at(fields::DEVICE), name::check_dns1123_label);
        }
        taint::validate(&spec.at(fields::TAINT));
        taint::validate_declarative(&spec.at(fields::TAINT));
    }

    fn validate_status(rule: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        let conditions = rule.at(fields::STATUS).at(fields::CONDITIONS);
        condition::validate(&conditions);
        format::check_max_items(&conditions, MAX_CONDITIONS);
    }
}
