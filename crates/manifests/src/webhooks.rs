//! Admission webhook configurations.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use serde_json::{Value, json};
use setpoint_api::Gvr;
use setpoint_client::Object;

use crate::manifests::{from, value};

/// An admission webhook. By default it is called for creates and updates.
#[derive(Debug, Clone)]
pub struct Webhook {
    type_: WebhookType,
    resource: Gvr,
    path: String,
    operations: Vec<&'static str>,
    failure_policy: FailurePolicy,
    timeout_seconds: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WebhookType {
    Mutating,
    Validating,
}

/// What happens to a request when the webhook cannot be called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It is rejected.
    #[default]
    Fail,
    /// It is admitted.
    Ignore,
}

impl Webhook {
    /// A mutating webhook at this path.
    pub fn mutating<T: Object>(path: &str) -> Self {
        Self::new::<T>(WebhookType::Mutating, path)
    }

    /// A validating webhook at this path.
    pub fn validating<T: Object>(path: &str) -> Self {
        Self::new::<T>(WebhookType::Validating, path)
    }

    /// Sets the operations it is called for: `CREATE`, `UPDATE`, `DELETE`, `CONNECT`.
    #[must_use]
    pub fn operations(mut self, operations: &[&'static str]) -> Self {
        self.operations = operations.to_vec();
        self
    }

    #[must_use]
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.failure_policy = policy;
        self
    }

    /// How long the API server waits for a response: 1 to 30.
    #[must_use]
    pub fn timeout_seconds(mut self, seconds: u8) -> Self {
        self.timeout_seconds = seconds;
        self
    }

    fn new<T: Object>(type_: WebhookType, path: &str) -> Self {
        Self {
            type_,
            resource: T::resource(),
            path: path.to_owned(),
            operations: vec!["CREATE", "UPDATE"],
            failure_policy: FailurePolicy::default(),
            timeout_seconds: 10,
        }
    }

    /// The name must be a domain with at least three labels.
    fn to_json(&self, service: &str, namespace: &str) -> Value {
        let prefix = match self.type_ {
            WebhookType::Mutating => "mutate",
            WebhookType::Validating => "validate",
        };
        let Gvr {
            group,
            version,
            resource,
        } = &self.resource;
        let policy = match self.failure_policy {
            FailurePolicy::Fail => "Fail",
            FailurePolicy::Ignore => "Ignore",
        };
        json!({
            "name": format!("{prefix}.{resource}.{}", if group.is_empty() { "core.k8s.io" } else { group }),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": policy,
            "timeoutSeconds": self.timeout_seconds,
            "clientConfig": {"service": {"name": service, "namespace": namespace, "path": self.path}},
            "rules": [{
                "apiGroups": [group], "apiVersions": [version], "resources": [resource],
                "operations": self.operations,
            }],
        })
    }
}

/// One MutatingWebhookConfiguration and one ValidatingWebhookConfiguration, where there are such webhooks.
pub(crate) fn configurations(name: &str, namespace: &str, webhooks: &[Webhook]) -> Vec<Value> {
    let of = |type_: WebhookType| -> Vec<Value> {
        let webhooks = webhooks.iter().filter(|webhook| webhook.type_ == type_);
        webhooks.map(|webhook| webhook.to_json(name, namespace)).collect()
    };
    let configuration = |webhooks: &[Value]| json!({"metadata": {"name": name}, "webhooks": webhooks});
    let mut configurations = Vec::new();
    if let mutating @ [_, ..] = &of(WebhookType::Mutating)[..] {
        let typed: MutatingWebhookConfiguration = from(configuration(mutating));
        configurations.push(value(&typed));
    }
    if let validating @ [_, ..] = &of(WebhookType::Validating)[..] {
        let typed: ValidatingWebhookConfiguration = from(configuration(validating));
        configurations.push(value(&typed));
    }
    configurations
}
