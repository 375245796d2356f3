//! RuntimeClass: a container runtime handler, the nodes that support it, and its overhead.

use crate::columns::{self, Column};
use crate::field::FieldRef;
use crate::meta;
use crate::shared::{name, resources};
use crate::strategy::{Names, Rules, Scope, Strategy};

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
        Column::text("Handler", |class, _| columns::or_empty(&class.at("handler")))
            .description("The runtime handler."),
        columns::AGE,
    ];
    const RULES: Rules = Rules {
        create_on_update: true,
        unconditional_update: false,
        ..Rules::DEFAULT
    };

    fn validate(class: &FieldRef<'_>) {
        let overhead = class.at("overhead");
        resources::validate_overhead(&overhead.at("podFixed"), overhead.errors());
        let scheduling = class.at("scheduling");
        meta::validate_labels(&scheduling.at("nodeSelector"));
        validate_tolerations(&scheduling.at("tolerations"));
        if class.at("handler").require() {
            name::check_declarative(&class.at("handler"), name::check_dns1123_label);
        }
    }

    fn validate_for_update(_class: &FieldRef<'_>, _old: &FieldRef<'_>) {}

    fn validate_update(class: &FieldRef<'_>, old: &FieldRef<'_>) {
        if !class.at("handler").is_same(&old.at("handler")) {
            class.at("handler").invalid_as((), "field is immutable");
        }
    }
}

fn validate_tolerations(tolerations: &FieldRef<'_>) {
    for toleration in tolerations.items() {
        validate_toleration(&toleration);
    }
    let identity = |toleration: &FieldRef<'_>| {
        ["key", "operator", "value", "effect"].map(|field| toleration.at(field).str().to_owned())
    };
    let mut seen = Vec::new();
    for toleration in tolerations.items() {
        let key = identity(&toleration);
        if seen.contains(&key) {
            toleration.duplicate();
        }
        seen.push(key);
    }
}

fn validate_toleration(toleration: &FieldRef<'_>) {
    let (key, operator) = (toleration.at("key"), toleration.at("operator"));
    let (value, effect) = (toleration.at("value"), toleration.at("effect"));
    if !key.is_empty() {
        name::check(&key, name::check_qualified_name);
    }
    if key.is_empty() && operator.str() != "Exists" {
        operator.invalid(
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        );
    }
    if toleration.at("tolerationSeconds").is_set() && effect.str() != "NoExecute" {
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
