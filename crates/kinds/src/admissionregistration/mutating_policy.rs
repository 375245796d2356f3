//! MutatingAdmissionPolicy: CEL expressions that change an object before it is written.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

use super::{CATEGORIES, GROUP, REINVOCATIONS, RULES, conditions, match_resources, policy};

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
        let spec = policy.at(fields::SPEC);
        policy::validate_match(&spec);
        match_resources::validate_mutable(&spec.at(fields::MATCH_CONSTRAINTS));
        conditions::validate(&spec.at(fields::MATCH_CONDITIONS));
        policy::validate_variables(&spec.at(fields::VARIABLES));
        let mutations = spec.at(fields::MUTATIONS);
        if mutations.is_empty() {
            mutations.required("mutations must contain at least one item");
        }
        for mutation in mutations.items() {
            validate_mutation(&mutation);
        }
        spec.at(fields::REINVOCATION_POLICY).require_one_of(REINVOCATIONS);
    }
}

fn validate_mutation(mutation: &FieldRef<'_>) {
    let kind = mutation.at(fields::PATCH_TYPE);
    let (required, other) = match kind.str() {
        "JSONPatch" => (fields::JSON_PATCH, fields::APPLY_CONFIGURATION),
        "ApplyConfiguration" => (fields::APPLY_CONFIGURATION, fields::JSON_PATCH),
        _ => return kind.require_one_of(PATCH_TYPES),
    };
    if !mutation.at(required).is_set() {
        let why = format!("must be specified when patchType is {}", kind.str());
        mutation.at(required).required(&why);
    } else if mutation
        .at(required)
        .at(fields::EXPRESSION)
        .str()
        .trim()
        .is_empty()
    {
        mutation.at(required).at(fields::EXPRESSION).required("");
    }
    if mutation.at(other).is_set() {
        let why = format!("must not be specified when patchType is {}", kind.str());
        mutation.at(other).invalid_as(format!("{{{other}}}"), &why);
    }
}
