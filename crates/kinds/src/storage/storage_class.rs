//! StorageClass: how volumes for claims are provisioned.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy, meta, name};

use super::driver;
use crate::shared::node_selector;

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
            columns::or_empty(&class.at(fields::PROVISIONER))
        })
        .description("The provisioner."),
        Column::text("ReclaimPolicy", |class, _| {
            let policy = class.at(fields::RECLAIM_POLICY);
            Cell::from(policy.find_str().unwrap_or("Delete"))
        })
        .description("The reclaim policy."),
        Column::text("VolumeBindingMode", |class, _| {
            let mode = class.at(fields::VOLUME_BINDING_MODE);
            Cell::from(mode.find_str().unwrap_or("Immediate"))
        })
        .description("The volume binding mode."),
        Column::text("AllowVolumeExpansion", |class, _| {
            Cell::Boolean(class.at(fields::ALLOW_VOLUME_EXPANSION).bool())
        })
        .description("Whether volumes can be expanded."),
        columns::AGE,
    ];
    const RULES: Rules = Rules::DEFAULT.returns_deleted();

    fn default_fields(class: &mut Tree) {
        class.set_default(fields::RECLAIM_POLICY, "Delete");
        class.set_default(fields::VOLUME_BINDING_MODE, "Immediate");
    }

    fn validate(class: &FieldRef<'_>, _facts: &RequestFacts) {
        driver::validate(&class.at(fields::PROVISIONER));
        driver::validate_parameters(&class.at(fields::PARAMETERS));
        class.at(fields::RECLAIM_POLICY).one_of(&["Delete", "Retain"]);
        let mode = class.at(fields::VOLUME_BINDING_MODE);
        if mode.is_set() && !matches!(mode.str(), "Immediate" | "WaitForFirstConsumer") {
            mode.not_supported(&["Immediate", "WaitForFirstConsumer"]);
        }
        validate_topologies(&class.at(fields::ALLOWED_TOPOLOGIES));
        class.at(fields::PROVISIONER).require();
    }

    fn validate_update(class: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        for field in [
            fields::PROVISIONER,
            fields::PARAMETERS,
            fields::RECLAIM_POLICY,
            fields::VOLUME_BINDING_MODE,
        ] {
            class.at(field).declarative_immutable(&old.at(field));
        }
    }

    fn warnings(class: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
        let mut warnings = Vec::new();
        for topology in class.at(fields::ALLOWED_TOPOLOGIES).items() {
            for expression in topology.at(fields::MATCH_LABEL_EXPRESSIONS).items() {
                let key = expression.at(fields::KEY);
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
        let name = class.at(fields::METADATA).at(fields::NAME).str();
        let is_true =
            |annotation: &&str| meta::entry(class.value(), fields::ANNOTATIONS, annotation) == Some("true");
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
        let expressions = topology.at(fields::MATCH_LABEL_EXPRESSIONS);
        let mut term = BTreeMap::new();
        for expression in expressions.items() {
            let values = validate_expression(&expression);
            let key = expression.at(fields::KEY);
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
    let values = expression.at(fields::VALUES);
    values.require();
    let mut seen = BTreeSet::new();
    for value in values.items() {
        if !seen.insert(value.str()) {
            value.duplicate();
        }
    }
    name::check(&expression.at(fields::KEY), name::check_qualified_name);
    seen
}
