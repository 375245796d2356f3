//! CSIStorageCapacity: how much room a driver has for a class, in one part of the cluster.

use crate::at::At;
use crate::columns::{self, Column};
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

    fn validate(capacity: &At<'_>) {
        label_selector::validate(&capacity.at("nodeTopology"));
        name::check(&capacity.at("storageClassName"), name::subdomain);
        let amount = capacity.at("capacity");
        if amount.quantity().is_some_and(|amount| amount.is_negative()) {
            amount.invalid("must be greater than or equal to 0");
        }
    }

    fn validate_update(capacity: &At<'_>, old: &At<'_>) {
        for field in ["nodeTopology", "storageClassName"] {
            capacity.at(field).immutable(&old.at(field));
        }
    }

    fn warnings(capacity: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
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
