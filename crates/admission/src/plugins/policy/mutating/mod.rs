//! MutatingAdmissionPolicy: changes objects by CEL expressions.

mod compiled;
mod patch;

use std::sync::{Arc, LazyLock};

use setpoint_api::Status;
use setpoint_api::status::StatusCause;
use setpoint_registry_api::{AdmitFuture, Review};
use setpoint_schema::Tree;

use super::bindings::{self, ConfigurationError, Invocation, Matches, PolicyResources};
use super::compile::PolicyBinding;
use super::objects::ReviewObjects;
use super::{Binding, FailurePolicy, Policy, has_conversion_webhook, is_exempt, resource, without_waiting};
use crate::admission_request::request_tree;
use crate::chain::{AccessChecker, Plugin, WaitingPlugin};
use crate::object_form::ObjectForm;
use crate::review::forbidden;
use compiled::MutatingPolicy;
use patch::{PatchError, patch};

const NAME: &str = "MutatingAdmissionPolicy";

/// The plugin.
#[derive(Debug)]
pub(crate) struct MutatingAdmissionPolicy(pub(crate) Option<Arc<dyn AccessChecker>>);

static RESOURCES: LazyLock<PolicyResources> = LazyLock::new(|| PolicyResources {
    policies: resource("mutatingadmissionpolicies"),
    bindings: resource("mutatingadmissionpolicybindings"),
});

impl Plugin for MutatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        without_waiting(self.apply_policies(review))
    }

    fn waiting(&self) -> Option<&dyn WaitingPlugin> {
        Some(self)
    }
}

impl WaitingPlugin for MutatingAdmissionPolicy {
    fn concerns(&self, review: &Review<'_>) -> bool {
        has_conversion_webhook(review)
    }

    fn shows_object(&self, review: &Review<'_>) -> bool {
        bindings::has_bindings(review, &RESOURCES)
    }

    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(self.apply_policies(review))
    }
}

impl MutatingAdmissionPolicy {
    /// Runs the policies that match. It waits only for a conversion webhook.
    async fn apply_policies(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let policies = bindings::bound_policies(review, &RESOURCES, |binding: &PolicyBinding| {
            &binding.spec.policy_name
        });
        if policies.is_empty() || is_exempt(review) {
            return Ok(());
        }
        let matches = bindings::matching_policies(review, policies);
        let mut errors = Errors::default();
        let invocations = errors.take_configuration_errors(matches);
        if !invocations.is_empty() {
            self.run(review, &invocations, &mut errors).await?;
        }
        errors.finish(review)
    }

    async fn run(
        &self,
        review: &mut Review<'_>,
        invocations: &[Invocation<MutatingPolicy, PolicyBinding>],
        errors: &mut Errors,
    ) -> Result<(), Status> {
        let mut objects = ReviewObjects::new(review, self.0.clone())?;
        if review.reinvocation.is_reinvocation() {
            let state = review.reinvocation.of(NAME);
            if state.has_changed(review.object.as_deref()) {
                state.require();
            }
        }
        for invocation in invocations {
            self.invoke(review, &mut objects, invocation, errors).await?;
        }
        let state = review.reinvocation.of(NAME);
        state.set_last_output(review.object.as_deref());
        Ok(())
    }

    /// Runs the mutations of one policy with one set of parameters, if its conditions are met.
    async fn invoke(
        &self,
        review: &mut Review<'_>,
        objects: &mut ReviewObjects,
        invocation: &Invocation<MutatingPolicy, PolicyBinding>,
        errors: &mut Errors,
    ) -> Result<(), Status> {
        let policy = &invocation.policy;
        let request = request_tree(review, &invocation.matched);
        objects.add_version(review, &invocation.matched).await?;
        let inputs = objects.inputs(&invocation.matched.kind, &request, invocation.param.as_ref());
        match policy.parts.conditions.evaluate(&inputs, &policy.parts.variables) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(message) => {
                errors.add(invocation, &message);
                return Ok(());
            }
        }
        let key = key_of(invocation);
        if review.reinvocation.is_reinvocation() && !review.reinvocation.of(NAME).is_eligible(&key) {
            return Ok(());
        }
        let before = review.object.as_deref().cloned();
        mutate(review, objects, invocation, &request, errors).await?;
        if has_changed(before.as_ref(), review.object.as_deref()) {
            review.reinvocation.of(NAME).require();
            review.reinvocation.request();
        }
        if policy.is_reinvoked {
            review.reinvocation.of(NAME).add_called(&key);
        }
        Ok(())
    }
}

/// Runs the mutations of a policy in order. One that fails is skipped.
async fn mutate(
    review: &mut Review<'_>,
    objects: &mut ReviewObjects,
    invocation: &Invocation<MutatingPolicy, PolicyBinding>,
    request: &Tree,
    errors: &mut Errors,
) -> Result<(), Status> {
    for mutation in &invocation.policy.mutations {
        if review.object.is_none() {
            return Ok(());
        }
        objects.add_version(review, &invocation.matched).await?;
        let form = ObjectForm::of(review, &invocation.matched)?;
        let outcome = {
            let inputs = objects.inputs(&invocation.matched.kind, request, invocation.param.as_ref());
            let variables = &invocation.policy.parts.variables;
            patch(
                review,
                (mutation, variables),
                (&invocation.matched.kind, &form),
                &inputs,
            )
        };
        match outcome {
            Ok(Some(patched)) => {
                let patched = form.to_request_version(review, patched).await?;
                if let Some(object) = review.object.as_deref_mut() {
                    *object = patched;
                }
                objects.clear();
            }
            Ok(None) => {}
            Err(PatchError::Message(message)) => errors.add(invocation, &message),
            Err(PatchError::Status(status)) => return Err(*status),
        }
    }
    Ok(())
}

fn has_changed(before: Option<&Tree>, now: Option<&Tree>) -> bool {
    match (before, now) {
        (Some(before), Some(now)) => !before.semantic_eq(now),
        _ => false,
    }
}

/// The name of an invocation in the state of reinvocation.
fn key_of(invocation: &Invocation<MutatingPolicy, PolicyBinding>) -> String {
    let param = invocation.param.as_ref().map(|param| param.key.to_string());
    let (policy, binding) = (invocation.policy.name(), invocation.binding.name());
    format!("{policy}/{binding}/{}", param.unwrap_or_default())
}

/// The errors of policies whose failure policy is `Fail`.
#[derive(Debug, Default)]
struct Errors {
    messages: Vec<String>,
    /// Of the first error; configuration errors have none.
    reason: Option<&'static str>,
}

impl Errors {
    /// Notes configuration errors, and returns what is left.
    fn take_configuration_errors(
        &mut self,
        matches: Matches<MutatingPolicy, PolicyBinding>,
    ) -> Vec<Invocation<MutatingPolicy, PolicyBinding>> {
        let mut invocations = Vec::new();
        for matched in matches {
            match matched {
                Ok(invocation) => invocations.push(invocation),
                Err(error) => self.add_configuration_error(&error),
            }
        }
        invocations
    }

    fn add_configuration_error(&mut self, error: &ConfigurationError<MutatingPolicy, PolicyBinding>) {
        if error.policy.failure_policy() == FailurePolicy::Ignore {
            return;
        }
        let policy = error.policy.name();
        self.messages.push(match &error.binding {
            Some(binding) => of_binding(policy, binding.name(), &error.message),
            None => format!("policy {policy:?} denied request: {}", error.message),
        });
    }

    fn add(&mut self, invocation: &Invocation<MutatingPolicy, PolicyBinding>, message: &str) {
        if invocation.policy.failure_policy() == FailurePolicy::Ignore {
            return;
        }
        if self.messages.is_empty() {
            self.reason = Some("Invalid");
        }
        let message = of_binding(invocation.policy.name(), invocation.binding.name(), message);
        self.messages.push(message);
    }

    /// The status of a rejected request: the text of the first error, and all of them as causes.
    fn finish(self, review: &Review<'_>) -> Result<(), Status> {
        let Some(first) = self.messages.first() else {
            return Ok(());
        };
        let mut status = forbidden(review, "");
        status.message.clone_from(first);
        if let Some(reason) = self.reason {
            status.reason = reason.to_owned();
        }
        let causes = self.messages.into_iter().map(|message| StatusCause {
            message,
            ..StatusCause::default()
        });
        status.details.get_or_insert_default().causes.extend(causes);
        Err(status)
    }
}

fn of_binding(policy: &str, binding: &str, message: &str) -> String {
    format!("policy '{policy}' with binding '{binding}' denied request: {message}")
}
