//! [`ValidatingPolicy`]: the compiled form of a ValidatingAdmissionPolicy.

use serde::Deserialize;
use setpoint_kinds::admissionregistration::expressions::{Compiler, OptionalVariables, ResultType};

use super::super::Policy;
use super::super::compile::{Metadata, PolicyParts, PolicySpec};
use crate::expressions::CompiledExpression;

/// A compiled policy. It is a view of the stored object.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "PolicyObject")]
pub(super) struct ValidatingPolicy {
    pub(super) parts: PolicyParts,
    pub(super) validations: Vec<CompiledValidation>,
    pub(super) annotations: Vec<CompiledAnnotation>,
}

/// A rule of the policy.
#[derive(Debug)]
pub(super) struct CompiledValidation {
    pub(super) expression: CompiledExpression,
    pub(super) message: String,
    pub(super) message_expression: Option<CompiledExpression>,
    pub(super) reason: String,
}

/// An annotation of the audit event.
#[derive(Debug)]
pub(super) struct CompiledAnnotation {
    pub(super) key: String,
    pub(super) value: CompiledExpression,
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
    validations: Option<Vec<Validation>>,
    audit_annotations: Option<Vec<AuditAnnotation>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Validation {
    expression: String,
    message: String,
    message_expression: String,
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AuditAnnotation {
    key: String,
    value_expression: String,
}

impl From<PolicyObject> for ValidatingPolicy {
    fn from(policy: PolicyObject) -> Self {
        let optional = OptionalVariables {
            params: policy.spec.common.param_kind.is_some(),
            authorizer: true,
        };
        let mut compiler = Compiler::with_composition();
        let parts = PolicyParts::compile(policy.metadata.name, policy.spec.common, &mut compiler);
        let validations = policy.spec.validations.unwrap_or_default();
        let annotations = policy.spec.audit_annotations.unwrap_or_default();
        Self {
            parts,
            validations: validations
                .into_iter()
                .map(|validation| validation.compile(&compiler, optional))
                .collect(),
            annotations: annotations
                .into_iter()
                .map(|annotation| annotation.compile(&compiler, optional))
                .collect(),
        }
    }
}

impl Validation {
    fn compile(self, compiler: &Compiler, optional: OptionalVariables) -> CompiledValidation {
        let for_message = OptionalVariables {
            authorizer: false,
            ..optional
        };
        let compile = |source: &str, optional, result| {
            CompiledExpression::new(source, compiler.compile(source, optional, result))
        };
        CompiledValidation {
            expression: compile(&self.expression, optional, ResultType::Bool),
            message_expression: match self.message_expression.as_str() {
                "" => None,
                source => Some(compile(source, for_message, ResultType::String)),
            },
            message: self.message,
            reason: self.reason.unwrap_or_else(|| "Invalid".to_owned()),
        }
    }
}

impl AuditAnnotation {
    fn compile(self, compiler: &Compiler, optional: OptionalVariables) -> CompiledAnnotation {
        let compiled = compiler.compile(&self.value_expression, optional, ResultType::StringOrNull);
        CompiledAnnotation {
            key: self.key,
            value: CompiledExpression::new(&self.value_expression, compiled),
        }
    }
}

impl Policy for ValidatingPolicy {
    fn parts(&self) -> &PolicyParts {
        &self.parts
    }
}
