//! Targets of requests: the resources in a server's discovery.

use anyhow::{Context, Result};
use serde_json::Value;

use super::NAMESPACE;
use crate::wire::{Client, Request};

/// A resource and its paths.
#[derive(Debug, Clone)]
pub struct Target {
    /// `/api/v1` or `/apis/group/version`.
    pub base: String,
    pub resource: String,
    pub is_namespaced: bool,
    pub subresources: Vec<String>,
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Every resource in discovery.
pub(super) fn discover(client: &mut Client) -> Result<Vec<Target>> {
    let mut targets = Vec::new();
    for root in ["/api", "/apis"] {
        let response = client.send(&Request::new("GET", root).header("Accept", AGGREGATED))?;
        let discovery = response
            .json()
            .with_context(|| format!("discovery at {root} is not JSON"))?;
        for group in items(&discovery, "items") {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            for version in items(group, "versions") {
                let base = [root, name, text(version, "version")]
                    .join("/")
                    .replace("//", "/");
                targets.extend(
                    items(version, "resources")
                        .iter()
                        .map(|resource| Target::new(&base, resource)),
                );
            }
        }
    }
    Ok(targets)
}

impl Target {
    fn new(base: &str, resource: &Value) -> Self {
        Self {
            base: base.to_owned(),
            resource: text(resource, "resource").to_owned(),
            is_namespaced: text(resource, "scope") == "Namespaced",
            subresources: items(resource, "subresources")
                .iter()
                .map(|subresource| text(subresource, "subresource").to_owned())
                .collect(),
        }
    }

    /// The path of the collection.
    pub(super) fn collection(&self) -> String {
        match self.is_namespaced {
            true => format!("{}/namespaces/{NAMESPACE}/{}", self.base, self.resource),
            false => format!("{}/{}", self.base, self.resource),
        }
    }

    #[cfg(test)]
    pub(super) fn config_maps() -> Self {
        Self {
            base: "/api/v1".to_owned(),
            resource: "configmaps".to_owned(),
            is_namespaced: true,
            subresources: vec!["status".to_owned()],
        }
    }
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
