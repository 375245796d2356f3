//! Kinds that a test defines while its cluster runs.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use setpoint_api::Gvr;

use crate::cluster::Cluster;

impl Cluster {
    /// Defines a kind as its author does, and waits until it is served.
    pub async fn install(&self, definition: &CustomResourceDefinition) {
        let created = self.client("test").all().create(definition).await;
        created.expect("the definition is fine");
        let spec = &definition.spec;
        let served = spec.versions.iter().filter(|version| version.served);
        let resources: Vec<Gvr> = served
            .map(|version| Gvr::new(&spec.group, &version.name, &spec.names.plural))
            .collect();
        let are_there = |cluster: &Self| {
            let kinds = cluster.registry().kinds();
            let is_there = |gvr: &Gvr| kinds.iter().any(|kind| kind.about().gvr == *gvr);
            resources.iter().all(is_there)
        };
        self.until("the kind that was installed", are_there).await;
    }

    /// Defines a kind in namespaces, of the group `example.com`, and waits until it is served. Anything may stand in it.
    pub async fn define(&self, plural: &str, kind: &str) -> Gvr {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        });
        let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        let definitions = self.client("test").dynamic(definitions, "");
        let created = definitions.create(definition.to_string()).await;
        created.expect("the definition is fine");
        let gvr = Gvr::new("example.com", "v1", plural);
        let is_it = |cluster: &Self| {
            let kinds = cluster.registry().kinds();
            kinds.iter().any(|kind| kind.about().gvr == gvr)
        };
        self.until("the kind that was defined", is_it).await;
        gvr
    }
}
