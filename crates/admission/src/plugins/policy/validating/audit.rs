//! Audit annotations of validating policies.

use std::collections::BTreeMap;

use serde::Serialize;
use setpoint_api::AuditAnnotation;

use super::super::Binding;
use super::super::compile::PolicyBinding;

/// The annotation of validations that failed, of bindings with the action `Audit`.
const FAILURES_KEY: &str = "validation.policy.admission.k8s.io/validation_failure";
/// At most so many failures are logged, to bound the size of the audit log.
const MAX_FAILURES: usize = 50;
/// A longer value is cut off.
const MAX_VALUE_BYTES: usize = 10 * 1024;

/// The annotations of one review.
#[derive(Debug, Default)]
pub(super) struct AuditAnnotations {
    /// Values by the name of the policy and the key, each once: several parameters may compute different ones.
    values: BTreeMap<String, Vec<String>>,
    failures: Vec<Failure>,
}

/// A validation that failed (upstream: `ValidationFailureValue`).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Failure {
    message: String,
    policy: String,
    binding: String,
    expression_index: usize,
    validation_actions: Vec<String>,
}

impl AuditAnnotations {
    pub(super) fn add(&mut self, policy: &str, key: &str, value: &str) {
        let cut = value.floor_char_boundary(MAX_VALUE_BYTES);
        let values = self.values.entry(format!("{policy}/{key}")).or_default();
        if !values.iter().any(|known| *known == value[..cut]) {
            values.push(value[..cut].to_owned());
        }
    }

    pub(super) fn add_failure(&mut self, binding: &PolicyBinding, index: usize, message: &str) {
        self.failures.push(Failure {
            message: message.to_owned(),
            policy: binding.spec.policy_name.clone(),
            binding: binding.name().to_owned(),
            expression_index: index,
            validation_actions: binding.spec.validation_actions.clone().unwrap_or_default(),
        });
    }

    pub(super) fn finish(mut self) -> Vec<AuditAnnotation> {
        let values = self.values.into_iter();
        let mut annotations: Vec<AuditAnnotation> = values
            .map(|(key, values)| AuditAnnotation::new(key, values.join(", ")))
            .collect();
        if !self.failures.is_empty() {
            self.failures.truncate(MAX_FAILURES);
            let json = serde_json::to_string(&self.failures).expect("failures are texts and numbers");
            annotations.push(AuditAnnotation::new(FAILURES_KEY, json));
        }
        annotations
    }
}
