//! Webhooks: which requests the server asks the program about.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use serde_json::{Value, json};
use setpoint_api::Gvr;
use setpoint_client::Object;

use crate::list::{from, value};

/// One webhook. It is asked about objects that are made or changed, unless it says otherwise.
#[derive(Debug, Clone)]
pub struct Hook {
    role: Role,
    resource: Gvr,
    path: String,
    operations: Vec<&'static str>,
    failure_policy: FailurePolicy,
    timeout_seconds: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Mutates,
    Validates,
}

/// What becomes of a request when the webhook does not answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It is refused.
    #[default]
    Fail,
    /// It is admitted.
    Ignore,
}

impl Hook {
    /// One that fills in what a user left out.
    pub fn mutates<T: Object>(path: &str) -> Self {
        Self::new::<T>(Role::Mutates, path)
    }

    /// One that refuses what must not be.
    pub fn validates<T: Object>(path: &str) -> Self {
        Self::new::<T>(Role::Validates, path)
    }

    /// To be asked about these: `CREATE`, `UPDATE`, `DELETE`, `CONNECT`.
    #[must_use]
    pub fn on(mut self, operations: &[&'static str]) -> Self {
        self.operations = operations.to_vec();
        self
    }

    #[must_use]
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.failure_policy = policy;
        self
    }

    /// How long the server waits for an answer: 1 to 30.
    #[must_use]
    pub fn timeout_seconds(mut self, seconds: u8) -> Self {
        self.timeout_seconds = seconds;
        self
    }

    fn new<T: Object>(role: Role, path: &str) -> Self {
        Self {
            role,
            resource: T::resource(),
            path: path.to_owned(),
            operations: vec!["CREATE", "UPDATE"],
            failure_policy: FailurePolicy::default(),
            timeout_seconds: 10,
        }
    }

    /// The name must be that of a domain with three parts at least.
    fn to_json(&self, service: &str, namespace: &str) -> Value {
        let word = match self.role {
            Role::Mutates => "mutate",
            Role::Validates => "validate",
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
            "name": format!("{word}.{resource}.{}", if group.is_empty() { "core.k8s.io" } else { group }),
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

/// One configuration for those that change objects, one for those that judge them.
pub(crate) fn configurations(name: &str, namespace: &str, hooks: &[Hook]) -> Vec<Value> {
    let of = |role: Role| -> Vec<Value> {
        let hooks = hooks.iter().filter(|hook| hook.role == role);
        hooks.map(|hook| hook.to_json(name, namespace)).collect()
    };
    let document = |webhooks: &[Value]| json!({"metadata": {"name": name}, "webhooks": webhooks});
    let mut configurations = Vec::new();
    if let mutating @ [_, ..] = &of(Role::Mutates)[..] {
        let typed: MutatingWebhookConfiguration = from(document(mutating));
        configurations.push(value(&typed));
    }
    if let validating @ [_, ..] = &of(Role::Validates)[..] {
        let typed: ValidatingWebhookConfiguration = from(document(validating));
        configurations.push(value(&typed));
    }
    configurations
}
