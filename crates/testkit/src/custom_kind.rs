//! CustomResourceDefinitions that a test installs while its cluster runs.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use setpoint_api::Gvr;

use crate::cluster::Cluster;

impl Cluster {
    /// Creates a CustomResourceDefinition, and waits until its kind is served.
    pub async fn install_crd(&self, crd: &CustomResourceDefinition) {
        let created = self.client("test").all().create(crd).await;
        created.expect("the CRD is valid");
        let spec = &crd.spec;
        let served = spec.versions.iter().filter(|version| version.served);
        let resources: Vec<Gvr> = served
            .map(|version| Gvr::new(&spec.group, &version.name, &spec.names.plural))
            .collect();
        let are_there = |cluster: &Self| {
            let kinds = cluster.registry().kinds();
            let is_there = |gvr: &Gvr| kinds.iter().any(|kind| kind.info().gvr == *gvr);
            resources.iter().all(is_there)
        };
        self.until("the installed kind", are_there).await;
    }

    /// Installs a namespaced custom kind of the group `example.com` that accepts any fields, and waits until it is served.
    pub async fn define_custom_kind(&self, plural: &str, kind: &str) -> Gvr {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        });
        let crds = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        let crds = self.client("test").dynamic(crds, "");
        let created = crds.create(crd.to_string()).await;
        created.expect("the CRD is valid");
        let gvr = Gvr::new("example.com", "v1", plural);
        let is_it = |cluster: &Self| {
            let kinds = cluster.registry().kinds();
            kinds.iter().any(|kind| kind.info().gvr == gvr)
        };
        self.until("the defined kind", is_it).await;
        gvr
    }
}
