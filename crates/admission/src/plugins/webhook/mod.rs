//! MutatingAdmissionWebhook and ValidatingAdmissionWebhook: call the webhooks of MutatingWebhookConfigurations and
//! ValidatingWebhookConfigurations.
//!
//! A configuration is parsed once per change ([`configuration`]) and read from the cache. A request that its rules,
//! selectors and match conditions concern is sent as an AdmissionReview ([`review_body`]) in a version of the webhook's
//! choice; the response ([`response`]) allows it, rejects it, or has a patch of the object ([`patch`]). Mutating webhooks
//! are called one after the other ([`mutating`]), validating ones at the same time ([`validating`]).
//!
//! A webhook that cannot be called, or responds with garbage, fails the request or is skipped, as its `failurePolicy`
//! specifies. Nothing waits longer than its timeout and the deadline of the request.
//!
//! The rules are those of `staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook` in Kubernetes.

mod call;
mod conditions;
mod configuration;
mod metrics;
mod mutating;
mod patch;
mod response;
mod review_body;
mod validating;

use std::sync::Arc;

use setpoint_api::{Clock, GroupResource, Status, Stored};
use setpoint_registry_api::{Review, WebhookClient};

use crate::chain::AccessChecker;
use crate::matching::MatchedResource;
use configuration::{Configuration, Webhook};

pub use metrics::WebhookMetrics;
pub(crate) use mutating::MutatingAdmissionWebhook;
pub(crate) use validating::ValidatingAdmissionWebhook;

const ADMISSION_GROUP: &str = "admissionregistration.k8s.io";

/// What the webhook plugins need besides the caches.
#[derive(Debug, Clone)]
pub struct Webhooks {
    /// Calls the webhooks.
    pub client: Arc<dyn WebhookClient>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<WebhookMetrics>,
    /// Authorization checks of match conditions; without it all users are allowed everything.
    pub access: Option<Arc<dyn AccessChecker>>,
}

/// The configurations of one of the two kinds, read from the cache.
#[derive(Debug)]
struct Source {
    resource: GroupResource,
}

/// A webhook that is to be called, and the names under which it gets the object.
#[derive(Debug)]
struct Invocation<'a> {
    webhook: &'a Webhook,
    matched: MatchedResource,
}

impl Source {
    fn new(resource: &str) -> Self {
        Self {
            resource: GroupResource::new(ADMISSION_GROUP, resource),
        }
    }

    /// Whether there is a configuration, and requests of this kind are sent to webhooks at all.
    fn concerns(&self, review: &Review<'_>) -> bool {
        let cache = review.caches().cache(&self.resource);
        cache.is_some_and(|cache| !cache.snapshot().is_empty()) && !is_excluded(review)
    }

    /// The configurations, by name.
    fn configurations(&self, review: &Review<'_>) -> Vec<Arc<Configuration>> {
        let cache = review.caches().cache(&self.resource);
        let snapshot = cache.map(|cache| cache.snapshot());
        let configurations = snapshot.iter().flat_map(|snapshot| snapshot.iter());
        configurations.filter_map(|object| parsed(object)).collect()
    }
}

/// The parsed configuration, which is shared with every other request until the object changes.
fn parsed(object: &Stored) -> Option<Arc<Configuration>> {
    let parsed = object.view::<Configuration>();
    parsed
        .inspect_err(
            |error| tracing::warn!(%error, object = %object.key(), "cannot read a webhook configuration"),
        )
        .ok()
}

/// Webhooks must not be able to lock the cluster: their own configurations and those of policies are never sent to them,
/// nor are the reviews by which users are authenticated and authorized.
fn is_excluded(review: &Review<'_>) -> bool {
    let info = review.kind;
    let is_review = !info.rules.resource.stored
        && matches!(
            info.gvk.group.as_str(),
            "authentication.k8s.io" | "authorization.k8s.io"
        );
    let is_configuration = info.gvk.group == ADMISSION_GROUP
        && (info.gvk.kind.ends_with("WebhookConfiguration")
            || info.gvk.kind.ends_with("AdmissionPolicy")
            || info.gvk.kind.ends_with("AdmissionPolicyBinding"));
    is_review || is_configuration
}

/// The invocation of a webhook, if it concerns the request.
async fn invocation<'a>(
    webhooks: &Webhooks,
    webhook: &'a Webhook,
    review: &Review<'_>,
) -> Result<Option<Invocation<'a>>, Status> {
    let Some(matched) = webhook.criteria.matches(review)? else {
        return Ok(None);
    };
    let holds = conditions::hold(webhook, review, &matched, webhooks.access.as_ref()).await?;
    Ok(holds.then_some(Invocation { webhook, matched }))
}
