//! RuntimeClass: a way to run pods, where it is found, and what it costs.

use crate::at::At;
use crate::columns::{self, Column};
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
            .about("What the node calls this way to run pods."),
        columns::AGE,
    ];
    const RULES: Rules = Rules {
        create_on_update: true,
        unconditional_update: false,
        ..Rules::DEFAULT
    };

    fn validate(class: &At<'_>) {
        let overhead = class.at("overhead");
        resources::validate_overhead(&overhead.at("podFixed"), overhead.errors());
        let scheduling = class.at("scheduling");
        meta::validate_labels(&scheduling.at("nodeSelector"));
        validate_tolerations(&scheduling.at("tolerations"));
        if class.at("handler").require() {
            name::declared(&class.at("handler"), name::label);
        }
    }

    fn validate_again(_class: &At<'_>, _old: &At<'_>) {}

    fn validate_update(class: &At<'_>, old: &At<'_>) {
        if !class.at("handler").is_same(&old.at("handler")) {
            class.at("handler").invalid_as((), "field is immutable");
        }
    }
}

fn validate_tolerations(tolerations: &At<'_>) {
    for toleration in tolerations.items() {
        validate_toleration(&toleration);
    }
    let told = |toleration: &At<'_>| {
        ["key", "operator", "value", "effect"].map(|field| toleration.at(field).str().to_owned())
    };
    let mut seen = Vec::new();
    for toleration in tolerations.items() {
        let key = told(&toleration);
        if seen.contains(&key) {
            toleration.duplicate();
        }
        seen.push(key);
    }
}

fn validate_toleration(toleration: &At<'_>) {
    let (key, operator) = (toleration.at("key"), toleration.at("operator"));
    let (value, effect) = (toleration.at("value"), toleration.at("effect"));
    if !key.is_empty() {
        name::check(&key, name::qualified);
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
            let complaints = name::label_value(value.str());
            if !complaints.is_empty() {
                operator.invalid_as(value.str(), &complaints.join(";"));
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
