//! Webhook authorization: a remote server decides by SubjectAccessReviews.
//!
//! The rules are those of `staging/src/k8s.io/apiserver/plugin/pkg/authorizer/webhook` in Kubernetes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use setpoint_api::selector::FieldSelector;
use setpoint_api::{Clock, User};

use super::{AccessTarget, Attributes, Authorize, Decision, MatchConditions, Reason, UserRules};
use crate::expiring_cache::ExpiringCache;
use crate::maybe_future::MaybeFuture;
use crate::remote::{self, ReviewClient};

const MAX_CACHED_RESPONSES: usize = 8192;
/// Requests whose attributes are longer are not cached: they may be meant to fill the cache.
const MAX_CACHED_ATTRIBUTES_BYTES: usize = 10_000;

/// Authorizes requests by a webhook.
pub struct WebhookAuthorizer {
    options: WebhookOptions,
    client: Box<dyn ReviewClient>,
    clock: Arc<dyn Clock>,
    /// Responses by the spec of their review, in JSON.
    cache: ExpiringCache<Vec<u8>, ReviewStatus>,
}

/// The settings of a webhook authorizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookOptions {
    /// The API version of SubjectAccessReviews: `v1` or `v1beta1`.
    pub version: String,
    /// How long allowing responses are cached; zero to cache none.
    pub authorized_ttl: Duration,
    /// How long other responses are cached; zero to cache none.
    pub unauthorized_ttl: Duration,
    pub failure_policy: FailurePolicy,
    /// Conditions that requests must meet for the webhook to be called.
    pub match_conditions: MatchConditions,
}

/// The decision if the webhook cannot be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    NoOpinion,
    Deny,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    kind: &'static str,
    api_version: String,
    metadata: BTreeMap<String, String>,
    spec: &'a serde_json::value::RawValue,
    status: ReviewStatus,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReviewSpec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_attributes: Option<ResourceAttributes<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    non_resource_attributes: Option<PathAttributes<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    user: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'a [String],
    /// The groups in `v1beta1`.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    group: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'a BTreeMap<String, Vec<String>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceAttributes<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    verb: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    subresource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_selector: Option<FieldSelectorAttributes<'a>>,
}

#[derive(Debug, Serialize)]
struct FieldSelectorAttributes<'a> {
    requirements: Vec<FieldRequirement<'a>>,
}

#[derive(Debug, Serialize)]
struct FieldRequirement<'a> {
    key: &'a str,
    operator: &'static str,
    values: [&'a str; 1],
}

#[derive(Debug, Serialize)]
struct PathAttributes<'a> {
    path: &'a str,
    verb: &'a str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReviewResponse {
    status: ReviewStatus,
}

/// The status of a review; sent empty.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct ReviewStatus {
    allowed: bool,
    #[serde(skip_serializing)]
    denied: bool,
    #[serde(skip_serializing)]
    reason: String,
}

// === impl WebhookAuthorizer ===

impl WebhookAuthorizer {
    /// Calls the webhook of this client. The error is an unsupported version.
    pub fn new(
        options: WebhookOptions,
        client: Box<dyn ReviewClient>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        if !["v1", "v1beta1"].contains(&options.version.as_str()) {
            return Err(format!(
                "unsupported webhook authorizer version {:?}, supported versions are \"v1\", \"v1beta1\"",
                options.version
            ));
        }
        Ok(Self {
            options,
            client,
            clock,
            cache: ExpiringCache::new(MAX_CACHED_RESPONSES),
        })
    }

    async fn review(&self, spec: Vec<u8>, is_cacheable: bool) -> Decision {
        match self.send(&spec).await {
            Ok(status) => {
                let ttl = match status.allowed {
                    true => self.options.authorized_ttl,
                    false => self.options.unauthorized_ttl,
                };
                if is_cacheable {
                    self.cache.insert(spec, status.clone(), self.clock.now(), ttl);
                }
                status.into_decision()
            }
            Err(error) => {
                tracing::error!(%error, "failed to make webhook authorizer request");
                self.decision_on_error(error)
            }
        }
    }

    fn decision_on_error(&self, error: String) -> Decision {
        match self.options.failure_policy {
            FailurePolicy::NoOpinion => Decision::NoOpinion(Reason::Failed(error)),
            FailurePolicy::Deny => Decision::Denied(Reason::Failed(error)),
        }
    }

    /// The decision if the request does not meet the match conditions; none if the webhook has to be called.
    fn decide_by_conditions(&self, user: &User, attributes: &Attributes<'_>) -> Option<Decision> {
        let conditions = &self.options.match_conditions;
        if conditions.is_empty() {
            return None;
        }
        match conditions.evaluate(user, attributes) {
            Ok(true) => None,
            Ok(false) => Some(Decision::NO_OPINION),
            Err(error) => Some(self.decision_on_error(error)),
        }
    }

    async fn send(&self, spec: &[u8]) -> Result<ReviewStatus, String> {
        let review = Review {
            kind: "SubjectAccessReview",
            api_version: format!("authorization.k8s.io/{}", self.options.version),
            metadata: BTreeMap::new(),
            spec: serde_json::from_slice(spec).map_err(|error| error.to_string())?,
            status: ReviewStatus::default(),
        };
        let review = setpoint_api::json::to_vec(&review).map_err(|error| error.to_string())?;
        let response = remote::send_with_retries(&*self.client, &*self.clock, review).await;
        let json = response.map_err(|error| error.message)?;
        let response: ReviewResponse =
            setpoint_api::json::from_slice(&json).map_err(|error| error.to_string())?;
        Ok(response.status)
    }
}

impl Authorize for WebhookAuthorizer {
    fn authorize<'a>(&'a self, user: &'a User, attributes: &'a Attributes<'a>) -> MaybeFuture<'a, Decision> {
        if let Some(decision) = self.decide_by_conditions(user, attributes) {
            return decision.into();
        }
        let spec = ReviewSpec::new(user, attributes, self.options.version == "v1");
        let spec = setpoint_api::json::to_vec(&spec).expect("a spec has only strings");
        if let Some(status) = self.cache.find(&spec, self.clock.now()) {
            return status.into_decision().into();
        }
        MaybeFuture::pending(self.review(spec, length(attributes) < MAX_CACHED_ATTRIBUTES_BYTES))
    }

    fn rules_for(&self, _: &User, _: &str) -> UserRules {
        UserRules::unsupported("webhook authorizer does not support user rule resolution")
    }
}

/// The length of the attributes that the requester controls.
fn length(attributes: &Attributes<'_>) -> usize {
    let lengths = |parts: &[&str]| parts.iter().map(|part| part.len()).sum::<usize>();
    let target = match attributes.target {
        AccessTarget::Path(path) => path.len(),
        AccessTarget::Resource {
            group,
            resource,
            subresource,
            namespace,
            name,
        } => lengths(&[group, resource, subresource, namespace, name]),
    };
    target + lengths(&[attributes.verb, attributes.version])
}

impl fmt::Debug for WebhookAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookAuthorizer")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

// === impl ReviewSpec ===

impl<'a> ReviewSpec<'a> {
    fn new(user: &'a User, attributes: &'a Attributes<'_>, is_v1: bool) -> Self {
        let (groups, group) = match is_v1 {
            true => (user.groups.as_slice(), &[][..]),
            false => (&[][..], user.groups.as_slice()),
        };
        let mut spec = Self {
            resource_attributes: None,
            non_resource_attributes: None,
            user: &user.name,
            groups,
            group,
            extra: &user.extra,
            uid: &user.uid,
        };
        let verb = attributes.verb;
        match attributes.target {
            AccessTarget::Path(path) => spec.non_resource_attributes = Some(PathAttributes { path, verb }),
            AccessTarget::Resource {
                group,
                resource,
                subresource,
                namespace,
                name,
            } => {
                spec.resource_attributes = Some(ResourceAttributes {
                    namespace,
                    verb,
                    group,
                    version: attributes.version,
                    resource,
                    subresource,
                    name,
                    field_selector: attributes.fields.and_then(FieldSelectorAttributes::new),
                });
            }
        }
        spec
    }
}

impl<'a> FieldSelectorAttributes<'a> {
    /// None if the selector selects every object.
    fn new(selector: &'a FieldSelector) -> Option<Self> {
        let requirement = |(key, value, equal): (&'a str, &'a str, bool)| FieldRequirement {
            key,
            operator: if equal { "In" } else { "NotIn" },
            values: [value],
        };
        (!selector.is_empty()).then(|| Self {
            requirements: selector.terms().map(requirement).collect(),
        })
    }
}

// === impl ReviewStatus ===

impl ReviewStatus {
    fn into_decision(self) -> Decision {
        let reason = match self.reason.is_empty() {
            true => Reason::None,
            false => Reason::from(self.reason),
        };
        match (self.denied, self.allowed) {
            (true, true) => {
                let error = "webhook subject access review returned both allow and deny response";
                Decision::Denied(Reason::Failed(error.to_owned()))
            }
            (true, false) => Decision::Denied(reason),
            (false, true) => Decision::Allowed(reason),
            (false, false) => Decision::NoOpinion(reason),
        }
    }
}

#[cfg(test)]
mod tests;
