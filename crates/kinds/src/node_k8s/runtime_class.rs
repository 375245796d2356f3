//! RuntimeClass: a container runtime handler, the nodes that support it, and its overhead.

use std::collections::HashSet;

use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy, meta, name};

use crate::shared::resources;

const OPERATORS: &[&str] = &["Equal", "Exists"];
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

#[derive(Debug)]
pub struct RuntimeClass;

impl Strategy for RuntimeClass {
    const KIND: (&'static str, &'static str, &'static str) = ("node.k8s.io", "v1", "RuntimeClass");
    const NAMES: Names = Names::new("runtimeclasses", "runtimeclass");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Handler", |class, _| {
            columns::or_empty(&class.at(fields::HANDLER))
        })
        .description("The runtime handler."),
        columns::AGE,
    ];
    const RULES: Rules = Rules::DEFAULT
        .create_on_update()
        .no_unconditional_update()
        .unqualified_finalizers();

    fn validate(class: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_pods(class);
        if class.at(fields::HANDLER).require() {
            name::check_declarative(&class.at(fields::HANDLER), name::check_dns1123_label);
        }
    }

    fn validate_for_update(class: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        let handler = class.at(fields::HANDLER);
        if !handler.is_empty() {
            name::check(&handler, name::check_dns1123_label);
        }
        validate_pods(class);
    }

    fn validate_update(class: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let handler = class.at(fields::HANDLER);
        if !handler.is_same(&old.at(fields::HANDLER)) {
            handler.invalid_as((), "field is immutable");
            handler.require();
        }
    }
}

/// Validates what the class sets on its pods: their overhead and where they are scheduled.
fn validate_pods(class: &FieldRef<'_>) {
    let overhead = class.at(fields::OVERHEAD);
    resources::validate_overhead(&overhead.at(fields::POD_FIXED), overhead.errors());
    let scheduling = class.at(fields::SCHEDULING);
    meta::validate_labels(&scheduling.at(fields::NODE_SELECTOR));
    validate_tolerations(&scheduling.at(fields::TOLERATIONS));
}

fn validate_tolerations(tolerations: &FieldRef<'_>) {
    for toleration in tolerations.items() {
        validate_toleration(&toleration);
    }
    let identity = |toleration: &FieldRef<'_>| {
        [fields::KEY, fields::OPERATOR, fields::VALUE, fields::EFFECT]
            .map(|field| toleration.at(field).str().to_owned())
    };
    let mut seen = HashSet::new();
    for toleration in tolerations.items() {
        if !seen.insert(identity(&toleration)) {
            toleration.duplicate();
        }
    }
}

fn validate_toleration(toleration: &FieldRef<'_>) {
    let (key, operator) = (toleration.at(fields::KEY), toleration.at(fields::OPERATOR));
    let (value, effect) = (toleration.at(fields::VALUE), toleration.at(fields::EFFECT));
    if !key.is_empty() {
        name::check(&key, name::check_qualified_name);
    }
    if key.is_empty() && operator.str() != "Exists" {
        operator.invalid(
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        );
    }
    if toleration.at(fields::TOLERATION_SECONDS).is_set() && effect.str() != "NoExecute" {
        effect.invalid("effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    match operator.str() {
        "Equal" | "" => {
            let violations = name::check_label_value(value.str());
            if !violations.is_empty() {
                operator.invalid_as(value.str(), &violations.join(";"));
            }
        }
        "Exists" => {
            if !value.is_empty() {
                operator.invalid_as(value.str(), "value must be empty when `operator` is 'Exists'");
            }
        }
        _ => operator.not_supported(OPERATORS),
    }
    effect.one_of(EFFECTS);
}
