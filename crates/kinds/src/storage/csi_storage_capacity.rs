//! CSIStorageCapacity: the available capacity of a storage class in one topology segment.

use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy, label_selector, name};

use crate::shared::node_selector;

#[derive(Debug)]
pub struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    const KIND: (&'static str, &'static str, &'static str) = ("storage.k8s.io", "v1", "CSIStorageCapacity");
    const NAMES: Names = Names::new("csistoragecapacities", "csistoragecapacity");
    const COLUMNS: &'static [Column] = &[columns::NAME, columns::CREATED_AT];
    const RULES: Rules = Rules::DEFAULT.no_unconditional_update();

    fn validate(capacity: &FieldRef<'_>, _facts: &RequestFacts) {
        label_selector::validate(&capacity.at(fields::NODE_TOPOLOGY));
        name::check(
            &capacity.at(fields::STORAGE_CLASS_NAME),
            name::check_dns1123_subdomain,
        );
        let amount = capacity.at(fields::CAPACITY);
        if amount.quantity().is_some_and(|amount| amount.is_negative()) {
            amount.invalid("must be greater than or equal to 0");
        }
    }

    fn validate_update(capacity: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        for field in [fields::NODE_TOPOLOGY, fields::STORAGE_CLASS_NAME] {
            capacity.at(field).immutable(&old.at(field));
        }
    }

    fn warnings(capacity: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
        let topology = capacity.at(fields::NODE_TOPOLOGY);
        let mut warnings = Vec::new();
        for expression in topology.at(fields::MATCH_EXPRESSIONS).items() {
            let key = expression.at(fields::KEY);
            if let Some(advice) = node_selector::deprecated(key.str()) {
                warnings.push(format!("{}: {} is {advice}", key.errors().path(), key.str()));
            }
        }
        let labels = topology.at(fields::MATCH_LABELS);
        for (label, _) in labels.entries() {
            if let Some(advice) = node_selector::deprecated(label) {
                warnings.push(format!("{}: {advice}", labels.errors().at(label).path()));
            }
        }
        warnings
    }
}
