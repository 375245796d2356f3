//! ValidatingAdmissionWebhook: calls validating webhooks, all at the same time.

use std::collections::HashMap;

use futures_util::future::join_all;
use setpoint_api::{AuditAnnotation, Status};
use setpoint_registry_api::{AdmitFuture, Operation, Review};

use super::call::{self, Call, CallError, Failure};
use super::metrics::Step;
use super::response::AdmissionResponse;
use super::{Invocation, Source, Webhooks, invocation};
use crate::chain::{Plugin, WaitingPlugin};
use crate::object_form::VersionedObjects;

/// The key of an audit annotation, before the index of the webhook.
const FAILED_OPEN: &str = "failed-open.validating.webhook.admission.k8s.io/round_0_index_";

/// Calls validating webhooks.
#[derive(Debug)]
pub(crate) struct ValidatingAdmissionWebhook {
    /// Absent in a server without webhooks.
    webhooks: Option<Webhooks>,
    source: Source,
}

impl ValidatingAdmissionWebhook {
    pub(crate) fn new(webhooks: Option<Webhooks>) -> Self {
        Self {
            webhooks,
            source: Source::new("validatingwebhookconfigurations"),
        }
    }

    async fn dispatch(&self, webhooks: &Webhooks, review: &mut Review<'_>) -> Result<(), Status> {
        let configurations = self.source.configurations(review);
        let mut invocations = Vec::new();
        for webhook in configurations.iter().flat_map(|one| &one.webhooks) {
            invocations.extend(invocation(webhooks, webhook, review).await?);
        }
        if invocations.is_empty() {
            return Ok(());
        }
        let start = webhooks.clock.now();
        if start >= review.deadline {
            return Err(call::deadline_exceeded());
        }
        let outcomes = call_all(webhooks, review, &invocations).await?;
        let mut first_error = Ok(());
        for (index, (invocation, outcome)) in invocations.iter().zip(outcomes).enumerate() {
            let webhook = invocation.webhook;
            let outcome = outcome.and_then(|mut response| {
                call::add_effects(review, webhook, &mut response);
                match response.allowed {
                    true => Ok(()),
                    false => Err(CallError::Rejected(call::rejection(webhook, response.status))),
                }
            });
            call::observe(webhooks, review, (webhook, Step::Validating, start), &outcome);
            let Err(error) = outcome else { continue };
            match call::failure(webhooks, review, webhook, error) {
                Failure::Request(status) => first_error = first_error.and(Err(*status)),
                Failure::Skipped => {
                    let key = format!("{FAILED_OPEN}{index}");
                    let annotation = AuditAnnotation::new(key, webhook.name.clone());
                    review.audit_annotations.push(annotation);
                }
            }
        }
        first_error
    }
}

/// Calls the webhooks and waits for all of them. The object is written once in each version.
async fn call_all(
    webhooks: &Webhooks,
    review: &Review<'_>,
    invocations: &[Invocation<'_>],
) -> Result<Vec<Result<AdmissionResponse, CallError>>, Status> {
    let mut versions = HashMap::new();
    for invocation in invocations {
        let resource = &invocation.matched.resource;
        if !versions.contains_key(resource) {
            let written = VersionedObjects::json(review, &invocation.matched).await?;
            versions.insert(resource.clone(), written);
        }
    }
    let now = webhooks.clock.now();
    let calls = invocations.iter().map(|invocation| {
        let objects = &versions[&invocation.matched.resource];
        let call = Call::new(invocation, review, objects, (Step::Validating, now));
        async move { call?.send(webhooks).await }
    });
    Ok(join_all(calls).await)
}

impl Plugin for ValidatingAdmissionWebhook {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    fn mutates(&self, _operation: Operation) -> bool {
        false
    }

    fn waiting(&self) -> Option<&dyn WaitingPlugin> {
        Some(self)
    }
}

impl WaitingPlugin for ValidatingAdmissionWebhook {
    fn concerns(&self, review: &Review<'_>) -> bool {
        self.webhooks.is_some() && self.source.concerns(review)
    }

    fn validate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(async move {
            match &self.webhooks {
                Some(webhooks) => self.dispatch(webhooks, review).await,
                None => Ok(()),
            }
        })
    }
}
