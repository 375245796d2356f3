//! CSIStorageCapacity: the available capacity of a storage class in one topology segment.

use crate::columns::{self, Column};
use crate::field::FieldRef;
use crate::shared::{label_selector, name, node_selector};
use crate::strategy::{Names, Rules, Strategy};

#[derive(Debug)]
pub struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    const KIND: (&'static str, &'static str, &'static str) = ("storage.k8s.io", "v1", "CSIStorageCapacity");
    const NAMES: Names = Names::new("csistoragecapacities", "csistoragecapacity");
    const COLUMNS: &'static [Column] = &[columns::NAME, columns::CREATED_AT];
    const RULES: Rules = Rules {
        unconditional_update: false,
        ..Rules::DEFAULT
    };

    fn validate(capacity: &FieldRef<'_>) {
        label_selector::validate(&capacity.at("nodeTopology"));
        name::check(&capacity.at("storageClassName"), name::check_dns1123_subdomain);
        let amount = capacity.at("capacity");
        if amount.quantity().is_some_and(|amount| amount.is_negative()) {
            amount.invalid("must be greater than or equal to 0");
        }
    }

    fn validate_update(capacity: &FieldRef<'_>, old: &FieldRef<'_>) {
        for field in ["nodeTopology", "storageClassName"] {
            capacity.at(field).immutable(&old.at(field));
        }
    }

    fn warnings(capacity: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
        let topology = capacity.at("nodeTopology");
        let mut warnings = Vec::new();
        for expression in topology.at("matchExpressions").items() {
            let key = expression.at("key");
            if let Some(advice) = node_selector::deprecated(key.str()) {
                warnings.push(format!("{}: {} is {advice}", key.errors().path(), key.str()));
            }
        }
        let labels = topology.at("matchLabels");
        for (label, _) in labels.entries() {
            if let Some(advice) = node_selector::deprecated(label) {
                warnings.push(format!("{}: {advice}", labels.errors().at(label).path()));
            }
        }
        warnings
    }
}
