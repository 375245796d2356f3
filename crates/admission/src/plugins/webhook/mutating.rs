//! MutatingAdmissionWebhook: calls mutating webhooks one after the other, each with the object as the one before left it.

use serde_json::json;
use setpoint_api::{AuditAnnotation, Status};
use setpoint_codec::json as codec_json;
use setpoint_registry_api::{AdmitFuture, Operation, Review};
use setpoint_schema::Tree;
use setpoint_schema::apply::ManagedFields;
use setpoint_strategy::meta;

use super::call::{self, Call, CallError, Failure};
use super::configuration::Webhook;
use super::metrics::Step;
use super::patch::{self, AppliedPatch};
use super::{Invocation, Source, Webhooks, invocation};
use crate::chain::{Plugin, WaitingPlugin};
use crate::object_form::VersionedObjects;

const NAME: &str = "MutatingAdmissionWebhook";
const MANAGED_FIELDS: &str = "managedFields";

/// The keys of audit annotations, before the round and the index of the webhook.
const MUTATION: &str = "mutation.webhook.admission.k8s.io/";
const PATCH: &str = "patch.webhook.admission.k8s.io/";
const FAILED_OPEN: &str = "failed-open.mutation.webhook.admission.k8s.io/";

/// Calls mutating webhooks.
#[derive(Debug)]
pub(crate) struct MutatingAdmissionWebhook {
    /// Absent in a server without webhooks.
    webhooks: Option<Webhooks>,
    source: Source,
}

impl MutatingAdmissionWebhook {
    pub(crate) fn new(webhooks: Option<Webhooks>) -> Self {
        Self {
            webhooks,
            source: Source::new("mutatingwebhookconfigurations"),
        }
    }

    async fn dispatch(&self, webhooks: &Webhooks, review: &mut Review<'_>) -> Result<(), Status> {
        let object = review.object.as_deref();
        let is_second = review.reinvocation.is_reinvocation();
        let state = review.reinvocation.of(NAME);
        if is_second && state.has_changed(object) {
            state.require();
        }
        let managed_fields = object
            .and_then(|object| meta::find(object, MANAGED_FIELDS))
            .cloned();
        let called = self.call_all(webhooks, review).await;
        restore_managed_fields(review, managed_fields);
        let object = review.object.as_deref();
        review.reinvocation.of(NAME).set_last_output(object);
        called
    }

    async fn call_all(&self, webhooks: &Webhooks, review: &mut Review<'_>) -> Result<(), Status> {
        let configurations = self.source.configurations(review);
        let mut all: Vec<(&str, &Webhook)> = Vec::new();
        for configuration in &configurations {
            let name = configuration.name.as_str();
            all.extend(configuration.webhooks.iter().map(|webhook| (name, webhook)));
        }
        for (index, (configuration, webhook)) in all.into_iter().enumerate() {
            let Some(invocation) = invocation(webhooks, webhook, review).await? else {
                continue;
            };
            let is_second = review.reinvocation.is_reinvocation();
            // The second round calls no webhook for the first time.
            if is_second && !review.reinvocation.of(NAME).is_eligible(&webhook.uid) {
                continue;
            }
            let index = format!("round_{}_index_{index}", u8::from(is_second));
            call_one(webhooks, review, &invocation, (configuration, &index)).await?;
        }
        Ok(())
    }
}

impl Plugin for MutatingAdmissionWebhook {
    fn name(&self) -> &'static str {
        NAME
    }

    fn mutates(&self, _operation: Operation) -> bool {
        true
    }

    fn waiting(&self) -> Option<&dyn WaitingPlugin> {
        Some(self)
    }
}

impl WaitingPlugin for MutatingAdmissionWebhook {
    fn concerns(&self, review: &Review<'_>) -> bool {
        self.webhooks.is_some() && self.source.concerns(review)
    }

    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(async move {
            match &self.webhooks {
                Some(webhooks) => self.dispatch(webhooks, review).await,
                None => Ok(()),
            }
        })
    }
}

/// Restores the managed fields if a webhook has made them invalid.
fn restore_managed_fields(review: &mut Review<'_>, before: Option<Tree>) {
    let Some(object) = review.object.as_deref_mut() else {
        return;
    };
    let Err(error) = ManagedFields::of(object) else {
        return;
    };
    match before {
        Some(before) => meta::set(object, MANAGED_FIELDS, before),
        None => meta::clear(object, MANAGED_FIELDS),
    }
    review.warnings.push(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: {error}"
    ));
}

/// Calls one webhook and applies its patch.
async fn call_one(
    webhooks: &Webhooks,
    review: &mut Review<'_>,
    invocation: &Invocation<'_>,
    (configuration, index): (&str, &str),
) -> Result<(), Status> {
    let webhook = invocation.webhook;
    let start = webhooks.clock.now();
    let outcome = invoke(webhooks, review, invocation).await;
    call::observe(webhooks, review, (webhook, Step::Admit, start), &outcome);
    let applied = match &outcome {
        Ok(applied) => applied.as_ref(),
        Err(_) => None,
    };
    annotate(review, (configuration, webhook), index, applied);
    if applied.is_some_and(|applied| applied.changed) {
        review.reinvocation.of(NAME).require();
        review.reinvocation.request();
    }
    if webhook.is_reinvocable {
        review.reinvocation.of(NAME).add_called(&webhook.uid);
    }
    let Err(error) = outcome else {
        return Ok(());
    };
    match call::failure(webhooks, review, webhook, error) {
        Failure::Request(status) => Err(*status),
        Failure::Skipped => {
            let key = format!("{FAILED_OPEN}{index}");
            let annotation = AuditAnnotation::new(key, webhook.name.clone());
            review.audit_annotations.push(annotation);
            Ok(())
        }
    }
}

async fn invoke(
    webhooks: &Webhooks,
    review: &mut Review<'_>,
    invocation: &Invocation<'_>,
) -> Result<Option<AppliedPatch>, CallError> {
    let (webhook, matched) = (invocation.webhook, &invocation.matched);
    let objects = VersionedObjects::json(review, matched).await;
    let objects = objects.map_err(CallError::Internal)?;
    let call = Call::new(invocation, review, &objects, (Step::Admit, webhooks.clock.now()))?;
    let mut response = call.send(webhooks).await?;
    call::add_effects(review, webhook, &mut response);
    if !response.allowed {
        return Err(CallError::Rejected(call::rejection(webhook, response.status)));
    }
    patch::apply(review, (webhook, matched), &objects, response).await
}

/// Adds the annotations that show whether and how the webhook has changed the object.
fn annotate(
    review: &mut Review<'_>,
    (configuration, webhook): (&str, &Webhook),
    index: &str,
    applied: Option<&AppliedPatch>,
) {
    if let Some(applied) = applied {
        let patch = String::from_utf8_lossy(&codec_json::write(&applied.patch)).into_owned();
        let names = json!({"configuration": configuration, "webhook": webhook.name}).to_string();
        let names = names.trim_end_matches('}');
        review.audit_annotations.push(AuditAnnotation {
            is_request_content: true,
            ..AuditAnnotation::new(
                format!("{PATCH}{index}"),
                format!("{names},\"patch\":{patch},\"patchType\":\"JSONPatch\"}}"),
            )
        });
    }
    let mutated = applied.is_some_and(|applied| applied.changed);
    let value = json!({"configuration": configuration, "webhook": webhook.name, "mutated": mutated});
    let key = format!("{MUTATION}{index}");
    let annotation = AuditAnnotation::new(key, value.to_string());
    review.audit_annotations.push(annotation);
}
