//! [`Manifests`]: all of them, in the order in which they are to be applied.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde_json::{Value, json};
use setpoint_codec::{json, yaml};
use setpoint_runtime::Rights;

use crate::hooks::{self, Hook};
use crate::roles;

/// The manifests of one controller program.
///
/// ```
/// use setpoint_manifests::Manifests;
/// use setpoint_runtime::Manager;
///
/// let manager = Manager::unconnected();
/// let yaml = Manifests::new("shop-operator", "shop").rights(manager.rights()).to_yaml();
/// assert!(yaml.contains("kind: ClusterRole\n"));
/// ```
#[derive(Debug, Clone)]
pub struct Manifests {
    name: String,
    namespace: String,
    definitions: Vec<CustomResourceDefinition>,
    rights: Rights,
    hooks: Vec<Hook>,
    image: Option<String>,
    endpoints: bool,
}

/// Where the pods of a program with webhooks listen.
const HOOK_PORT: i32 = 9443;
/// Where they answer probes and tell their figures.
const ENDPOINT_PORT: i32 = 8080;

impl Manifests {
    /// A program of this name that runs in this namespace.
    pub fn new(name: &str, namespace: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            definitions: Vec::new(),
            rights: Rights::default(),
            hooks: Vec::new(),
            image: None,
            endpoints: false,
        }
    }

    /// One more kind: `Foo::crd()` of a type with `#[derive(CustomResource)]`.
    #[must_use]
    pub fn define(mut self, definition: CustomResourceDefinition) -> Self {
        self.definitions.push(definition);
        self
    }

    /// What the program must be allowed to do: `manager.rights()` once its controllers are added.
    #[must_use]
    pub fn rights(mut self, rights: Rights) -> Self {
        self.rights.extend(&rights);
        self
    }

    /// One more webhook that the program answers.
    #[must_use]
    pub fn hook(mut self, hook: Hook) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Runs this image in the cluster. Without one, only what the program needs is told.
    #[must_use]
    pub fn image(mut self, image: &str) -> Self {
        self.image = Some(image.to_owned());
        self
    }

    /// Lets the cluster ask the pods of the image whether they live and are ready, where the environment variable
    /// `ENDPOINTS` tells them to answer: `manager.serve(TcpListener::bind(address).await?)`.
    #[must_use]
    pub fn endpoints(mut self) -> Self {
        self.endpoints = true;
        self
    }

    /// All objects, in the order in which they are to be applied.
    pub fn objects(&self) -> Vec<Value> {
        let mut objects: Vec<Value> = self.definitions.iter().map(value).collect();
        objects.push(value(&self.namespace()));
        objects.push(value(&self.account()));
        objects.push(value(&roles::role(&self.name, &self.rights)));
        objects.push(value(&roles::binding(&self.name, &self.namespace)));
        objects.extend(self.image.iter().map(|image| value(&self.deployment(image))));
        if !self.hooks.is_empty() {
            objects.push(value(&self.service()));
            objects.extend(hooks::configurations(&self.name, &self.namespace, &self.hooks));
        }
        objects
    }

    /// All objects as one file, as `kubectl apply -f -` takes it.
    pub fn to_yaml(&self) -> String {
        let documents: Vec<String> = self.objects().iter().map(document).collect();
        documents.join("---\n")
    }

    fn namespace(&self) -> Namespace {
        from(json!({"metadata": {"name": self.namespace}}))
    }

    fn account(&self) -> ServiceAccount {
        from(json!({"metadata": {"name": self.name, "namespace": self.namespace}}))
    }

    /// One replica at a time leads, if there is an election; the others stand by.
    fn deployment(&self, image: &str) -> Deployment {
        let labels = json!({"app": self.name});
        let mut container = json!({
            "name": "controller", "image": image,
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        });
        let mut ports = Vec::new();
        if !self.hooks.is_empty() {
            ports.push(json!({"name": "webhooks", "containerPort": HOOK_PORT}));
        }
        if self.endpoints {
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
            "spec": {"selector": {"app": self.name}, "ports": [{"port": 443, "targetPort": HOOK_PORT}]},
        }))
    }
}

/// The object with its type in front. Fields that say nothing are left out.
pub(crate) fn value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).expect("objects of the API go to JSON")
}

/// Types catch what is misspelt here: a field that nobody knows would be missing from the golden file.
pub(crate) fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("what is written here is of the type")
}

fn document(object: &Value) -> String {
    let tree = json::parse(object.to_string().as_bytes());
    yaml::write(&tree.expect("a JSON value is written as JSON"))
}

#[cfg(test)]
mod tests;
