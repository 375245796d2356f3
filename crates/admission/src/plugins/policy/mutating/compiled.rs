//! [`MutatingPolicy`]: the compiled form of a MutatingAdmissionPolicy.

use serde::Deserialize;
use setpoint_kinds::admissionregistration::expressions::{Compiler, OptionalVariables, ResultType};

use super::super::Policy;
use super::super::compile::{Metadata, PolicyParts, PolicySpec};
use crate::expressions::CompiledExpression;

/// A compiled policy. It is a view of the stored object.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "PolicyObject")]
pub(super) struct MutatingPolicy {
    pub(super) parts: PolicyParts,
    pub(super) mutations: Vec<CompiledMutation>,
    /// Whether the policy runs again after another one has changed the object.
    pub(super) is_reinvoked: bool,
}

/// A change of the object.
#[derive(Debug)]
pub(super) enum CompiledMutation {
    /// Merges the fields of `Object{...}`.
    ApplyConfiguration(CompiledExpression),
    /// Executes a list of `JSONPatch{...}`.
    JsonPatch(CompiledExpression),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PolicyObject {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(flatten)]
    common: PolicySpec,
    mutations: Option<Vec<Mutation>>,
    reinvocation_policy: String,
}

/// A mutation: the patch type decides which of the expressions is set.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Mutation {
    apply_configuration: Option<PatchExpression>,
    json_patch: Option<PatchExpression>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PatchExpression {
    expression: String,
}

impl From<PolicyObject> for MutatingPolicy {
    fn from(policy: PolicyObject) -> Self {
        let optional = OptionalVariables {
            params: policy.spec.common.param_kind.is_some(),
            authorizer: true,
        };
        let mut compiler = Compiler::with_composition();
        let parts = PolicyParts::compile(policy.metadata.name, policy.spec.common, &mut compiler);
        let compile = |source: &str, result| {
            CompiledExpression::new(source, compiler.compile(source, optional, result))
        };
        let mutation = |mutation: Mutation| match (mutation.apply_configuration, mutation.json_patch) {
            (Some(patch), _) => Some(CompiledMutation::ApplyConfiguration(compile(
                &patch.expression,
                ResultType::ApplyConfiguration,
            ))),
            (None, Some(patch)) => Some(CompiledMutation::JsonPatch(compile(
                &patch.expression,
                ResultType::JsonPatch,
            ))),
            (None, None) => None,
        };
        let mutations = policy.spec.mutations.unwrap_or_default();
        Self {
            mutations: mutations.into_iter().filter_map(mutation).collect(),
            parts,
            is_reinvoked: policy.spec.reinvocation_policy == "IfNeeded",
        }
    }
}

impl Policy for MutatingPolicy {
    fn parts(&self) -> &PolicyParts {
        &self.parts
    }
}
