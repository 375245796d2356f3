//! StorageClass: how volumes for claims are provisioned.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::driver;
use crate::columns::{self, Column};
use crate::field::FieldRef;
use crate::meta;
use crate::shared::{name, node_selector};
use crate::strategy::{Names, Rules, Scope, Strategy};

/// The annotations that mark the default class, the newest first.
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
        .description("The provisioner."),
        Column::text("ReclaimPolicy", |class, _| {
            let policy = class.at("reclaimPolicy");
            Cell::from(policy.find_str().unwrap_or("Delete"))
        })
        .description("The reclaim policy."),
        Column::text("VolumeBindingMode", |class, _| {
            let mode = class.at("volumeBindingMode");
            Cell::from(mode.find_str().unwrap_or("Immediate"))
        })
        .description("The volume binding mode."),
        Column::text("AllowVolumeExpansion", |class, _| {
            Cell::Boolean(class.at("allowVolumeExpansion").bool())
        })
        .description("Whether volumes can be expanded."),
        columns::AGE,
    ];
    const RULES: Rules = Rules {
        returns_deleted: true,
        ..Rules::DEFAULT
    };

    fn default_fields(class: &mut Tree) {
        class.set_default("reclaimPolicy", "Delete");
        class.set_default("volumeBindingMode", "Immediate");
    }

    fn validate(class: &FieldRef<'_>) {
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

    fn validate_update(class: &FieldRef<'_>, old: &FieldRef<'_>) {
        for field in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
            class.at(field).declarative_immutable(&old.at(field));
        }
    }

    fn warnings(class: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
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

/// The name column, with `(default)` for the default class.
const NAME: Column = {
    let mut column = columns::NAME;
    column.cell = |class, _| {
        let name = class.at("metadata").at("name").str();
        let is_true =
            |annotation: &&str| meta::entry(class.value(), "annotations", annotation) == Some("true");
        if DEFAULT_ANNOTATIONS.iter().any(is_true) {
            Cell::from(format!("{name} (default)"))
        } else {
            Cell::from(name)
        }
    };
    column
};

/// Topology terms must be unique.
fn validate_topologies(topologies: &FieldRef<'_>) {
    let mut seen: Vec<BTreeMap<&str, BTreeSet<&str>>> = Vec::new();
    for topology in topologies.items() {
        let expressions = topology.at("matchLabelExpressions");
        let mut term = BTreeMap::new();
        for expression in expressions.items() {
            let values = validate_expression(&expression);
            let key = expression.at("key");
            if term.insert(key.str(), values).is_some() {
                key.duplicate();
            }
        }
        for _ in seen.iter().filter(|other| **other == term) {
            expressions.errors().duplicate("");
        }
        seen.push(term);
    }
}

fn validate_expression<'a>(expression: &FieldRef<'a>) -> BTreeSet<&'a str> {
    let values = expression.at("values");
    values.require();
    let mut seen = BTreeSet::new();
    for value in values.items() {
        if !seen.insert(value.str()) {
            value.duplicate();
        }
    }
    name::check(&expression.at("key"), name::check_qualified_name);
    seen
}
