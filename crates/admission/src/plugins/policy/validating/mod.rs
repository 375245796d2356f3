//! ValidatingAdmissionPolicy: rejects requests, or warns about them, by CEL expressions.

mod audit;
mod compiled;
mod decision;

use std::sync::{Arc, LazyLock};

use setpoint_api::Status;
use setpoint_api::status::StatusCause;
use setpoint_registry_api::{AdmitFuture, Review};

use super::bindings::{self, ConfigurationError, Invocation, PolicyResources};
use super::compile::PolicyBinding;
use super::objects::ReviewObjects;
use super::{Binding, FailurePolicy, Policy, has_conversion_webhook, is_exempt, resource, without_waiting};
use crate::admission_request::request_tree;
use crate::chain::{AccessChecker, Plugin, WaitingPlugin};
use crate::review::forbidden;
use audit::AuditAnnotations;
use compiled::ValidatingPolicy;
use decision::{Decision, evaluate};

/// The plugin.
#[derive(Debug)]
pub(crate) struct ValidatingAdmissionPolicy(pub(crate) Option<Arc<dyn AccessChecker>>);

static RESOURCES: LazyLock<PolicyResources> = LazyLock::new(|| PolicyResources {
    policies: resource("validatingadmissionpolicies"),
    bindings: resource("validatingadmissionpolicybindings"),
});

impl Plugin for ValidatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        without_waiting(self.apply_policies(review))
    }

    fn waiting(&self) -> Option<&dyn WaitingPlugin> {
        Some(self)
    }
}

impl WaitingPlugin for ValidatingAdmissionPolicy {
    fn concerns(&self, review: &Review<'_>) -> bool {
        has_conversion_webhook(review)
    }

    fn shows_object(&self, review: &Review<'_>) -> bool {
        bindings::has_bindings(review, &RESOURCES)
    }

    fn validate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(self.apply_policies(review))
    }
}

impl ValidatingAdmissionPolicy {
    /// Runs the policies that match. It waits only for a conversion webhook.
    async fn apply_policies(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let policies = bindings::bound_policies(review, &RESOURCES, |binding: &PolicyBinding| {
            &binding.spec.policy_name
        });
        if policies.is_empty() || is_exempt(review) {
            return Ok(());
        }
        let matches = bindings::matching_policies(review, policies);
        if matches.is_empty() {
            return Ok(());
        }
        let mut outcome = Outcome::default();
        let mut objects: Option<ReviewObjects> = None;
        for matched in matches {
            match matched {
                Err(error) => outcome.add_configuration_error(&error),
                Ok(invocation) => {
                    let objects = match &mut objects {
                        Some(objects) => objects,
                        none => none.insert(ReviewObjects::new(review, self.0.clone())?),
                    };
                    outcome.evaluate(review, objects, &invocation).await;
                }
            }
        }
        outcome.finish(review)
    }
}

/// What the policies decide about a review.
#[derive(Debug, Default)]
struct Outcome {
    /// The first decision that rejects the request: the only one that the response has.
    denied: Option<Denial>,
    warnings: Vec<String>,
    annotations: AuditAnnotations,
}

#[derive(Debug)]
struct Denial {
    message: String,
    /// Why a validation fails, in upstream's words; empty for errors.
    reason: String,
}

impl Outcome {
    fn add_configuration_error(&mut self, error: &ConfigurationError<ValidatingPolicy, PolicyBinding>) {
        if error.policy.failure_policy() == FailurePolicy::Fail {
            let binding = error.binding.as_deref().map(Binding::name);
            self.deny(error.policy.name(), binding, &error.message, "");
        }
    }

    async fn evaluate(
        &mut self,
        review: &Review<'_>,
        objects: &mut ReviewObjects,
        invocation: &Invocation<ValidatingPolicy, PolicyBinding>,
    ) {
        let Invocation {
            policy,
            binding,
            param,
            matched,
        } = invocation;
        if let Err(status) = objects.add_version(review, matched).await {
            self.add_configuration_error(&ConfigurationError {
                policy: policy.clone(),
                binding: Some(binding.clone()),
                message: format!(
                    "failed to configure binding: failed to convert object version: {}",
                    status.message
                ),
            });
            return;
        }
        let request = request_tree(review, matched);
        let evaluation = evaluate(policy, &objects.inputs(&matched.kind, &request, param.as_ref()));
        for (index, decision) in evaluation.decisions.iter().enumerate() {
            self.act(policy, binding, index, decision);
        }
        for (key, value) in evaluation.annotations {
            match value {
                Ok(value) => self.annotations.add(policy.name(), &key, &value),
                Err(message) => self.deny(policy.name(), Some(binding.name()), &message, ""),
            }
        }
    }

    /// Carries out the actions of a binding for a validation that failed.
    fn act(&mut self, policy: &ValidatingPolicy, binding: &PolicyBinding, index: usize, decision: &Decision) {
        let Decision::Deny { message, reason } = decision else {
            return;
        };
        let actions = binding.spec.validation_actions.as_deref().unwrap_or_default();
        for action in actions {
            match action.as_str() {
                "Deny" => self.deny(policy.name(), Some(binding.name()), message, reason),
                "Warn" => self.warnings.push(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                    policy.name(),
                    binding.name()
                )),
                _ => self.annotations.add_failure(binding, index, message),
            }
        }
    }

    fn deny(&mut self, policy: &str, binding: Option<&str>, message: &str, reason: &str) {
        let with = binding.map_or(String::new(), |binding| format!(" with binding '{binding}'"));
        self.denied.get_or_insert_with(|| Denial {
            message: format!("ValidatingAdmissionPolicy '{policy}'{with} denied request: {message}"),
            reason: reason.to_owned(),
        });
    }

    fn finish(self, review: &mut Review<'_>) -> Result<(), Status> {
        review.warnings.extend(self.warnings);
        review.audit_annotations.extend(self.annotations.finish());
        match self.denied {
            None => Ok(()),
            Some(denial) => Err(rejection(review, denial)),
        }
    }
}

/// The status of a rejected request. Its text is that of a forbidden request, whatever the reason is.
fn rejection(review: &Review<'_>, denial: Denial) -> Status {
    let mut status = forbidden(review, &denial.message);
    status.reason = match denial.reason.as_str() {
        "" => "Invalid".to_owned(),
        _ => denial.reason,
    };
    status.code = match status.reason.as_str() {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    let details = status.details.get_or_insert_default();
    details.causes.push(StatusCause {
        message: denial.message,
        ..StatusCause::default()
    });
    status
}
