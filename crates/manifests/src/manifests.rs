//! [`Manifests`]: the manifests of a controller, in the order in which they are to be applied.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde_json::{Value, json};
use setpoint_codec::{json, yaml};
use setpoint_runtime::RbacRules;

use crate::roles;
use crate::webhooks::{self, Webhook};

/// The manifests of a controller.
///
/// ```
/// use setpoint_manifests::Manifests;
/// use setpoint_runtime::Manager;
///
/// let manager = Manager::unconnected();
/// let yaml = Manifests::new("site-operator", "sites").rbac_rules(manager.rbac_rules()).to_yaml();
/// assert!(yaml.contains("kind: ClusterRole\n"));
/// ```
#[derive(Debug, Clone)]
pub struct Manifests {
    name: String,
    namespace: String,
    crds: Vec<CustomResourceDefinition>,
    rbac_rules: RbacRules,
    webhooks: Vec<Webhook>,
    image: Option<String>,
    probes: bool,
}

/// The port for webhooks.
const WEBHOOK_PORT: i32 = 9443;
/// The port for probes and metrics.
const ENDPOINT_PORT: i32 = 8080;

impl Manifests {
    /// The manifests of a controller of this name in this namespace.
    pub fn new(name: &str, namespace: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            crds: Vec::new(),
            rbac_rules: RbacRules::default(),
            webhooks: Vec::new(),
            image: None,
            probes: false,
        }
    }

    /// Adds a CustomResourceDefinition: `Foo::crd()` of a type with `#[derive(CustomResource)]`.
    #[must_use]
    pub fn crd(mut self, crd: CustomResourceDefinition) -> Self {
        self.crds.push(crd);
        self
    }

    /// The RBAC rules of the controller: `manager.rbac_rules()` once its controllers are added.
    #[must_use]
    pub fn rbac_rules(mut self, rbac_rules: RbacRules) -> Self {
        self.rbac_rules.extend(&rbac_rules);
        self
    }

    /// Adds a webhook of the controller.
    #[must_use]
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.webhooks.push(webhook);
        self
    }

    /// Adds a Deployment of this image. Without it, the controller runs outside the cluster.
    #[must_use]
    pub fn image(mut self, image: &str) -> Self {
        self.image = Some(image.to_owned());
        self
    }

    /// Adds liveness and readiness probes to the Deployment, and the environment variable `ENDPOINTS` with the address that
    /// the controller must serve them at: `manager.serve_endpoints(TcpListener::bind(address).await?)`.
    #[must_use]
    pub fn probes(mut self) -> Self {
        self.probes = true;
        self
    }

    /// All objects, in the order in which they are to be applied.
    pub fn objects(&self) -> Vec<Value> {
        let mut objects: Vec<Value> = self.crds.iter().map(value).collect();
        objects.push(value(&self.namespace()));
        objects.push(value(&self.account()));
        objects.push(value(&roles::role(&self.name, &self.rbac_rules)));
        objects.push(value(&roles::binding(&self.name, &self.namespace)));
        objects.extend(self.image.iter().map(|image| value(&self.deployment(image))));
        if !self.webhooks.is_empty() {
            objects.push(value(&self.service()));
            objects.extend(webhooks::configurations(
                &self.name,
                &self.namespace,
                &self.webhooks,
            ));
        }
        objects
    }

    /// All objects as YAML, for `kubectl apply -f -`.
    pub fn to_yaml(&self) -> String {
        let documents: Vec<String> = self.objects().iter().map(to_yaml_document).collect();
        documents.join("---\n")
    }

    fn namespace(&self) -> Namespace {
        from(json!({"metadata": {"name": self.namespace}}))
    }

    fn account(&self) -> ServiceAccount {
        from(json!({"metadata": {"name": self.name, "namespace": self.namespace}}))
    }

    /// With one replica. With leader election there may be more.
    fn deployment(&self, image: &str) -> Deployment {
        let labels = json!({"app": self.name});
        let mut container = json!({
            "name": "controller", "image": image,
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        });
        let mut ports = Vec::new();
        if !self.webhooks.is_empty() {
            ports.push(json!({"name": "webhooks", "containerPort": WEBHOOK_PORT}));
        }
        if self.probes {
            ports.push(json!({"name": "endpoints", "containerPort": ENDPOINT_PORT}));
            container["env"] = json!([{"name": "ENDPOINTS", "value": format!("0.0.0.0:{ENDPOINT_PORT}")}]);
            for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
                container[probe] = json!({"httpGet": {"path": path, "port": "endpoints"}});
            }
        }
        if !ports.is_empty() {
            container["ports"] = json!(ports);
        }
        from(json!({
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {"serviceAccountName": self.name, "securityContext": {"runAsNonRoot": true},
                    "containers": [container]},
            }},
        }))
    }

    fn service(&self) -> Service {
        from(json!({
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {"selector": {"app": self.name}, "ports": [{"port": 443, "targetPort": WEBHOOK_PORT}]},
        }))
    }
}

/// The object as JSON, with its type fields.
pub(crate) fn value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).expect("API objects can be encoded as JSON")
}

/// A typed object from JSON. A misspelt field is dropped, and so would be missing from the golden file.
pub(crate) fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the JSON is of the type")
}

fn to_yaml_document(object: &Value) -> String {
    let tree = json::parse(object.to_string().as_bytes());
    yaml::write(&tree.expect("a JSON value can be parsed"))
}

#[cfg(test)]
mod tests;
