//! StorageClass: how volumes are made that claims ask for.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::driver;
use crate::at::At;
use crate::columns::{self, Column};
use crate::meta;
use crate::shared::{name, node_selector};
use crate::strategy::{Names, Rules, Scope, Strategy};

/// The annotations that make a class the default one, the newest first.
const DEFAULT_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

#[derive(Debug)]
pub struct StorageClass;

impl Strategy for StorageClass {
    const KIND: (&'static str, &'static str, &'static str) = ("storage.k8s.io", "v1", "StorageClass");
    const NAMES: Names = Names::new("storageclasses", "storageclass").short(&["sc"]);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        NAME,
        Column::text("Provisioner", |class, _| {
            columns::or_empty(&class.at("provisioner"))
        })
        .about("Who makes the volumes."),
        Column::text("ReclaimPolicy", |class, _| {
            let policy = class.at("reclaimPolicy");
            Cell::from(policy.find_str().unwrap_or("Delete"))
        })
        .about("What becomes of a volume that is released."),
        Column::text("VolumeBindingMode", |class, _| {
            let mode = class.at("volumeBindingMode");
            Cell::from(mode.find_str().unwrap_or("Immediate"))
        })
        .about("When a volume is made."),
        Column::text("AllowVolumeExpansion", |class, _| {
            Cell::Boolean(class.at("allowVolumeExpansion").bool())
        })
        .about("Whether volumes may grow."),
        columns::AGE,
    ];
    const RULES: Rules = Rules {
        returns_deleted: true,
        ..Rules::DEFAULT
    };

    fn default_fields(class: &mut Tree) {
        class.fill("reclaimPolicy", "Delete");
        class.fill("volumeBindingMode", "Immediate");
    }

    fn validate(class: &At<'_>) {
        driver::validate(&class.at("provisioner"));
        driver::validate_parameters(&class.at("parameters"));
        class.at("reclaimPolicy").one_of(&["Delete", "Retain"]);
        let mode = class.at("volumeBindingMode");
        if mode.is_set() && !matches!(mode.str(), "Immediate" | "WaitForFirstConsumer") {
            mode.not_supported(&["Immediate", "WaitForFirstConsumer"]);
        }
        validate_topologies(&class.at("allowedTopologies"));
        class.at("provisioner").require();
    }

    fn validate_update(class: &At<'_>, old: &At<'_>) {
        for field in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
            class.at(field).declared_immutable(&old.at(field));
        }
    }

    fn warnings(class: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
        let mut warnings = Vec::new();
        for topology in class.at("allowedTopologies").items() {
            for expression in topology.at("matchLabelExpressions").items() {
                let key = expression.at("key");
                if let Some(advice) = node_selector::deprecated(key.str()) {
                    warnings.push(format!("{}: {advice}", key.errors().path()));
                }
            }
        }
        warnings
    }
}

/// The name says whether the class is the default one.
const NAME: Column = {
    let mut column = columns::NAME;
    column.cell = |class, _| {
        let name = class.at("metadata").at("name").str();
        let says = |annotation: &&str| meta::entry(class.value(), "annotations", annotation) == Some("true");
        if DEFAULT_ANNOTATIONS.iter().any(says) {
            Cell::from(format!("{name} (default)"))
        } else {
            Cell::from(name)
        }
    };
    column
};

/// No two topologies may say the same.
fn validate_topologies(topologies: &At<'_>) {
    let mut seen: Vec<BTreeMap<&str, BTreeSet<&str>>> = Vec::new();
    for topology in topologies.items() {
        let expressions = topology.at("matchLabelExpressions");
        let mut own = BTreeMap::new();
        for expression in expressions.items() {
            let values = validate_expression(&expression);
            let key = expression.at("key");
            if own.insert(key.str(), values).is_some() {
                key.duplicate();
            }
        }
        for _ in seen.iter().filter(|other| **other == own) {
            expressions.errors().duplicate("");
        }
        seen.push(own);
    }
}

fn validate_expression<'a>(expression: &At<'a>) -> BTreeSet<&'a str> {
    let values = expression.at("values");
    values.require();
    let mut seen = BTreeSet::new();
    for value in values.items() {
        if !seen.insert(value.str()) {
            value.duplicate();
        }
    }
    name::check(&expression.at("key"), name::qualified);
    seen
}
