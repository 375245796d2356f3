//! One call of a webhook: from the review to a verified response, or to the error of the request.

use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::{AuditAnnotation, Status};
use setpoint_registry_api::{Review, WebhookRequest};
use uuid::Uuid;

use super::configuration::{FailurePolicy, Webhook};
use super::metrics::{CallOutcome, ErrorType, Step};
use super::response::{self, AdmissionResponse, ResponseError};
use super::{Invocation, Webhooks, review_body};
use crate::object_form::VersionedObjects;

const SECOND: Duration = Duration::from_secs(1);

/// Why a call does not allow the request.
#[derive(Debug)]
pub(super) enum CallError {
    /// The webhook could not be called, or its response is invalid: its `failurePolicy` decides.
    Failed { reason: String, code: u16 },
    /// The webhook rejects the request.
    Rejected(Status),
    /// The request fails whatever the `failurePolicy` is.
    Internal(Status),
}

/// A call that is ready to be sent.
pub(super) struct Call<'a> {
    pub(super) webhook: &'a Webhook,
    step: Step,
    uid: String,
    request: WebhookRequest,
}

impl<'a> Call<'a> {
    /// Writes the AdmissionReview. Fails if the webhook cannot take part in a dry run, or knows no version of reviews.
    pub(super) fn new(
        invocation: &Invocation<'a>,
        review: &Review<'_>,
        objects: &VersionedObjects<Vec<u8>>,
        (step, now): (Step, Timestamp),
    ) -> Result<Self, CallError> {
        let webhook = invocation.webhook;
        check_dry_run(webhook, review)?;
        let version = webhook.review_version.ok_or_else(|| CallError::Failed {
            reason: "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)".to_owned(),
            code: 400,
        })?;
        let uid = Uuid::new_v4().to_string();
        let left = review
            .deadline
            .duration_since(now)
            .max(jiff::SignedDuration::ZERO);
        let timeout = webhook.timeout.min(left.unsigned_abs());
        Ok(Self {
            webhook,
            step,
            request: WebhookRequest {
                body: review_body::write((version, &uid), review, &invocation.matched, objects),
                query: timeout_query(timeout),
                timeout,
            },
            uid,
        })
    }

    /// Sends the review and verifies the response.
    pub(super) async fn send(self, webhooks: &Webhooks) -> Result<AdmissionResponse, CallError> {
        let webhook = self.webhook;
        let version = webhook.review_version.expect("a call has a version");
        let posted = webhooks.client.post(&webhook.endpoint, self.request).await;
        let body = posted.map_err(|error| CallError::Failed {
            reason: format!("failed to call webhook: {}", error.message),
            code: error.status.unwrap_or(503),
        })?;
        let read = response::read(&body, version, &self.uid, self.step == Step::Admit);
        read.map_err(|error| match error {
            ResponseError::Undecodable(why) => CallError::Failed {
                reason: format!("failed to call webhook: {why}"),
                code: 503,
            },
            ResponseError::Invalid(why) => CallError::Failed {
                reason: format!("received invalid webhook response: {why}"),
                code: 503,
            },
        })
    }
}

/// Adds the audit annotations and the warnings of a response to the review.
pub(super) fn add_effects(review: &mut Review<'_>, webhook: &Webhook, response: &mut AdmissionResponse) {
    let annotations = std::mem::take(&mut response.audit_annotations);
    let annotations = annotations.into_iter().map(|(key, value)| {
        let key = format!("{}/{key}", webhook.name);
        AuditAnnotation::new(key, value)
    });
    review.audit_annotations.extend(annotations);
    review.warnings.append(&mut response.warnings);
}

/// The status of a request that a webhook rejects. Its code is an error, and its message names the webhook.
pub(super) fn rejection(webhook: &Webhook, status: Option<Status>) -> Status {
    let mut status = status.unwrap_or_default();
    status.code = status.code.max(400);
    if matches!(status.status.as_str(), "" | "Success") {
        "Failure".clone_into(&mut status.status);
    }
    let denied_by = format!("admission webhook {:?} denied the request", webhook.name);
    status.message = match (status.message.as_str(), status.reason.as_str()) {
        ("", "") => format!("{denied_by} without explanation"),
        ("", reason) => format!("{denied_by}: {reason}"),
        (message, _) => format!("{denied_by}: {message}"),
    };
    status
}

/// The outcome of a call for the request: the error that fails it, or none if the webhook is skipped.
pub(super) fn failure(
    webhooks: &Webhooks,
    review: &Review<'_>,
    webhook: &Webhook,
    error: CallError,
) -> Failure {
    match error {
        CallError::Rejected(status) | CallError::Internal(status) => Failure::of_request(status),
        CallError::Failed { reason, .. } => {
            let message = format!("failed calling webhook {:?}: {reason}", webhook.name);
            let is_late = webhooks.clock.now() >= review.deadline;
            match webhook.failure_policy {
                // The caller's own timeout is not the failure of the webhook.
                _ if is_late && review.options.timeout().is_some() => Failure::of_request(Status::timeout(
                    "Timeout: request did not complete within the allotted timeout",
                )),
                FailurePolicy::Fail => Failure::of_request(Status::internal(message)),
                FailurePolicy::Ignore if is_late => Failure::of_request(deadline_exceeded()),
                FailurePolicy::Ignore => {
                    tracing::warn!(message, "failing open");
                    Failure::Skipped
                }
            }
        }
    }
}

/// What follows from a failed call.
pub(super) enum Failure {
    Request(Box<Status>),
    /// The `failurePolicy` ignores the failure.
    Skipped,
}

impl Failure {
    fn of_request(status: Status) -> Self {
        Self::Request(Box::new(status))
    }
}

pub(super) fn deadline_exceeded() -> Status {
    Status::timeout("Timeout: request did not complete within requested timeout")
}

/// Counts a call in the metrics.
pub(super) fn observe<T>(
    webhooks: &Webhooks,
    review: &Review<'_>,
    (webhook, step, start): (&Webhook, Step, Timestamp),
    outcome: &Result<T, CallError>,
) {
    let ignores = webhook.failure_policy == FailurePolicy::Ignore;
    let (code, error_type) = match outcome {
        Ok(_) => (200, None),
        Err(CallError::Failed { code, .. }) => (*code, (!ignores).then_some(ErrorType::CallingWebhook)),
        Err(CallError::Rejected(status)) => (status.code, Some(ErrorType::NoError)),
        Err(CallError::Internal(_)) => (0, Some(ErrorType::ApiServerInternal)),
    };
    let took = webhooks.clock.now().duration_since(start).unsigned_abs();
    webhooks.metrics.observe(&CallOutcome {
        name: &webhook.name,
        step,
        operation: review.operation,
        code,
        error_type,
        failed_open: ignores && matches!(outcome, Err(CallError::Failed { .. })),
        took,
    });
}

/// The remaining time in whole seconds, rounded up, so that the webhook can end in time.
fn timeout_query(timeout: Duration) -> String {
    match timeout.as_nanos().div_ceil(SECOND.as_nanos()) {
        0 => String::new(),
        seconds => format!("timeout={seconds}s"),
    }
}

fn check_dry_run(webhook: &Webhook, review: &Review<'_>) -> Result<(), CallError> {
    match (review.dry_run, webhook.allows_dry_run) {
        (true, None) => Err(CallError::Failed {
            reason: "Webhook SideEffects is nil".to_owned(),
            code: 400,
        }),
        (true, Some(false)) => {
            let message = format!("admission webhook {:?} does not support dry run", webhook.name);
            Err(CallError::Internal(Status::bad_request(message)))
        }
        _ => Ok(()),
    }
}
