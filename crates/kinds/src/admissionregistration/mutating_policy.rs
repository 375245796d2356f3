//! MutatingAdmissionPolicy: CEL expressions that change an object before it is written.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

use super::expressions::{Compiler, OptionalVariables, ResultType};
use super::{CATEGORIES, GROUP, REINVOCATIONS, RULES, match_resources, policy};

const PATCH_TYPES: &[&str] = &["ApplyConfiguration", "JSONPatch"];

#[derive(Debug)]
pub struct MutatingAdmissionPolicy;

impl Strategy for MutatingAdmissionPolicy {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "MutatingAdmissionPolicy");
    const NAMES: Names =
        Names::new("mutatingadmissionpolicies", "mutatingadmissionpolicy").categories(CATEGORIES);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::number("Mutations", |policy, _| {
            let changes = policy.at(fields::SPEC).at(fields::MUTATIONS).len();
            Cell::from(i64::try_from(changes).expect("changes fit into memory"))
        })
        .description("The number of mutations."),
        policy::PARAM_KIND,
        columns::AGE,
    ];
    const RULES: Rules = RULES;

    fn default_fields(policy: &mut Tree) {
        policy::set_defaults(policy);
    }

    fn validate(policy: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_policy(policy, None);
    }

    fn validate_for_update(policy: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_policy(policy, Some(old));
    }
}

fn validate_policy(policy: &FieldRef<'_>, old: Option<&FieldRef<'_>>) {
    let spec = policy.at(fields::SPEC);
    policy::validate_match(&spec);
    match_resources::validate_mutable(&spec.at(fields::MATCH_CONSTRAINTS));
    policy::validate_conditions(&spec, old);
    let mut compiler = Compiler::with_composition();
    policy::validate_variables(&spec, &mut compiler);
    let mutations = spec.at(fields::MUTATIONS);
    if mutations.is_empty() {
        mutations.required("mutations must contain at least one item");
    }
    let optional = policy::optional_variables(&spec);
    for mutation in mutations.items() {
        validate_mutation(&mutation, &compiler, optional);
    }
    spec.at(fields::REINVOCATION_POLICY).require_one_of(REINVOCATIONS);
}

fn validate_mutation(mutation: &FieldRef<'_>, compiler: &Compiler, optional: OptionalVariables) {
    let kind = mutation.at(fields::PATCH_TYPE);
    let (required, other, result) = match kind.str() {
        "JSONPatch" => (
            fields::JSON_PATCH,
            fields::APPLY_CONFIGURATION,
            ResultType::JsonPatch,
        ),
        "ApplyConfiguration" => (
            fields::APPLY_CONFIGURATION,
            fields::JSON_PATCH,
            ResultType::ApplyConfiguration,
        ),
        _ => return kind.require_one_of(PATCH_TYPES),
    };
    let expression = mutation.at(required).at(fields::EXPRESSION);
    let source = expression.str().trim();
    if !mutation.at(required).is_set() {
        let why = format!("must be specified when patchType is {}", kind.str());
        mutation.at(required).required(&why);
    } else if source.is_empty() {
        expression.required("");
    } else {
        compiler.validate(&expression, source, optional, result);
    }
    if mutation.at(other).is_set() {
        let why = format!("must not be specified when patchType is {}", kind.str());
        mutation.at(other).invalid_as(format!("{{{other}}}"), &why);
    }
}
