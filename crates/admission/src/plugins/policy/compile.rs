//! The fields that both kinds of policies have, and the compilation of their variables and match conditions.

use serde::Deserialize;
use setpoint_kinds::admissionregistration::expressions::{Compiler, OptionalVariables};

use super::params::{ParamKind, ParamRef};
use super::{Binding, FailurePolicy};
use crate::expressions::{CompiledExpression, CompiledVariable, MatchCondition, MatchConditions};
use crate::matching::MatchCriteria;

/// The metadata of a policy or a binding.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    pub(super) name: String,
}

/// The fields of a policy's spec that both kinds of policies have.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PolicySpec {
    pub(super) param_kind: Option<ParamKind>,
    match_constraints: Option<MatchCriteria>,
    failure_policy: Option<FailurePolicy>,
    match_conditions: Option<Vec<MatchCondition>>,
    variables: Option<Vec<Variable>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Variable {
    name: String,
    expression: String,
}

/// What both kinds of policies compile.
#[derive(Debug, Default)]
pub(super) struct PolicyParts {
    pub(super) name: String,
    pub(super) criteria: MatchCriteria,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) failure_policy: FailurePolicy,
    pub(super) variables: Vec<CompiledVariable>,
    pub(super) conditions: MatchConditions,
}

impl PolicyParts {
    /// Compiles variables and match conditions. The compiler then knows the variables.
    pub(super) fn compile(name: String, spec: PolicySpec, compiler: &mut Compiler) -> Self {
        let optional = OptionalVariables {
            params: spec.param_kind.is_some(),
            authorizer: true,
        };
        let variables = spec.variables.unwrap_or_default();
        let variables = variables.into_iter().map(|variable| {
            let compiled = compiler.add_variable(&variable.name, &variable.expression, optional);
            CompiledVariable {
                expression: CompiledExpression::new(&variable.expression, compiled),
                name: variable.name,
            }
        });
        let variables = variables.collect();
        let conditions = spec.match_conditions.unwrap_or_default();
        Self {
            name,
            criteria: spec.match_constraints.unwrap_or_default(),
            param_kind: spec.param_kind,
            failure_policy: spec.failure_policy.unwrap_or_default(),
            variables,
            conditions: MatchConditions::compile(compiler, &conditions, optional),
        }
    }
}

/// A binding of either kind of policies.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PolicyBinding {
    metadata: Metadata,
    pub(super) spec: BindingSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct BindingSpec {
    pub(super) policy_name: String,
    param_ref: Option<ParamRef>,
    match_resources: Option<MatchCriteria>,
    /// Of a validating policy: `Deny`, `Warn` and `Audit`.
    pub(super) validation_actions: Option<Vec<String>>,
}

impl Binding for PolicyBinding {
    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn criteria(&self) -> Option<&MatchCriteria> {
        self.spec.match_resources.as_ref()
    }

    fn param_ref(&self) -> Option<&ParamRef> {
        self.spec.param_ref.as_ref()
    }
}
