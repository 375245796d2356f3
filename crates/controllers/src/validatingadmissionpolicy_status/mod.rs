//! Records the observed generation of every ValidatingAdmissionPolicy, and warnings about the types of its expressions.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use serde::{Deserialize, Serialize};
use serde_json::json;
use setpoint_api::Key;
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::Config;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "validatingadmissionpolicy-status-controller";

/// Checks the types of a policy's expressions. The API server has the types: it serves the kinds that policies match.
#[derive(Clone)]
pub struct PolicyTypeChecker(Arc<CheckPolicy>);

/// Returns the warnings about a policy in JSON.
type CheckPolicy = dyn Fn(&[u8]) -> Vec<ExpressionWarning> + Send + Sync;

/// A warning about an expression (`status.typeChecking.expressionWarnings`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpressionWarning {
    pub field_ref: String,
    pub warning: String,
}

impl PolicyTypeChecker {
    /// `check` gets a policy in JSON.
    pub fn new(check: impl Fn(&[u8]) -> Vec<ExpressionWarning> + Send + Sync + 'static) -> Self {
        Self(Arc::new(check))
    }
}

/// Without types there are no warnings.
impl Default for PolicyTypeChecker {
    fn default() -> Self {
        Self::new(|_| Vec::new())
    }
}

impl fmt::Debug for PolicyTypeChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PolicyTypeChecker")
    }
}

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = PolicyStatus {
        policies: context.lister()?,
        types: config.policy_type_checker.clone(),
    };
    Controller::new(NAME, reconciler)
        .reconciles::<ValidatingAdmissionPolicy>()
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct PolicyStatus {
    policies: Lister<ValidatingAdmissionPolicy>,
    types: PolicyTypeChecker,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Policy {
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    observed_generation: i64,
}

impl Reconcile for PolicyStatus {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(policy) = self.policies.find(key) else {
            return Ok(Next::Done);
        };
        let generation = policy.header().generation;
        if policy.view::<Policy>()?.status.observed_generation == generation {
            return Ok(Next::Done);
        }
        let warnings = (self.types.0)(policy.json());
        let checked = match warnings.is_empty() {
            true => json!({}),
            false => json!({"expressionWarnings": warnings}),
        };
        let status = json!({"observedGeneration": generation, "typeChecking": checked});
        let applied = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": key.name(), "uid": policy.uid()}, "status": status,
        });
        let patch = Patch::apply(&applied, NAME)?.force();
        let handle = client.dynamic(ValidatingAdmissionPolicy::resource(), "");
        match handle.patch_subresource(key.name(), "status", &patch).await {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| Next::Done)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_testkit::{Cluster, Component};

    use super::*;

    fn observed(cluster: &Cluster) -> Option<i64> {
        let policy: Option<ValidatingAdmissionPolicy> = cluster.find("few");
        let status = policy?.status?;
        status.type_checking.and(status.observed_generation)
    }

    #[tokio::test]
    async fn every_generation_is_observed() {
        let (cluster, _components) =
            Cluster::with([Component::Controller("validatingadmissionpolicy-status")]).await;
        let rule = json!({
            "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"],
        });
        let policy = json!({
            "metadata": {"name": "few"},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "object.spec.replicas <= 5"}],
            },
        });
        let handle = cluster
            .client("test")
            .dynamic(ValidatingAdmissionPolicy::resource(), "");
        handle.create(policy.to_string()).await.unwrap();
        cluster
            .until("the first", |cluster| observed(cluster) == Some(1))
            .await;
        let validations = json!([{"expression": "object.spec.replicas <= 6"}]);
        let patch = Patch::merge(&json!({"spec": {"validations": validations}})).unwrap();
        handle.patch("few", &patch).await.unwrap();
        cluster
            .until("the second", |cluster| observed(cluster) == Some(2))
            .await;
    }
}
