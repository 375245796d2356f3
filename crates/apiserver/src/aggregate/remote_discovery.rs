//! Discovery of the aggregated API servers: their group versions, resources and OpenAPI documents, as last fetched.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use compact_str::CompactString;
use http::HeaderValue;
use serde_json::{Map, Value, json};
use setpoint_api::{Gvk, Gvr};
use setpoint_strategy::custom::KubeAwareVersion;

use super::{Aggregator, RegisteredRemote};

/// The group versions of all remotes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RemoteGroups {
    /// Ordered by descending priority, then by name.
    pub versions: Vec<RemoteGroupVersion>,
}

/// A group version of a remote, with what was discovered of it.
#[derive(Debug, PartialEq)]
pub(crate) struct RemoteGroupVersion {
    name: String,
    pub group: CompactString,
    pub version: CompactString,
    pub group_priority: i32,
    pub version_priority: i32,
    /// The last discovery; `None` if the remote does not respond.
    pub discovery: Option<Arc<DiscoveryResult>>,
}

/// The discovered resources and OpenAPI documents of one version.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct DiscoveryResult {
    /// The resources, each an APIResourceDiscovery of `apidiscovery.k8s.io/v2`.
    pub resources: Vec<Value>,
    pub openapi: RemoteOpenApi,
}

/// The OpenAPI documents of one version.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RemoteOpenApi {
    /// The paths and URLs of the v3 OpenAPI documents of the version and its group.
    pub v3: Vec<(String, String)>,
    /// The version's part of the v2 OpenAPI document.
    pub v2: Option<RemoteOpenApiV2>,
}

/// The part of a remote's v2 OpenAPI document that belongs to one version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RemoteOpenApiV2 {
    /// The ETag of the whole OpenAPI document.
    pub etag: HeaderValue,
    /// The part, as JSON.
    pub json: Bytes,
}

/// A resource of a remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteResource {
    pub gvr: Gvr,
    pub gvk: Gvk,
    pub namespaced: bool,
    pub verbs: Vec<String>,
}

impl Aggregator {
    /// Recomputes [`RemoteGroups`] from the registrations and, if given, the new discovery of the named remote.
    pub(super) fn update_discovery(&self, update: Option<(&str, Option<Arc<DiscoveryResult>>)>) {
        let registered = self.registered.borrow().clone();
        let mut groups = self.discovered.write();
        let next = groups.updated(&registered, update);
        if next != **groups {
            *groups = Arc::new(next);
            drop(groups);
            self.changes.send_modify(|changes| *changes += 1);
        }
    }
}

// === impl RemoteGroups ===

impl RemoteGroups {
    /// The groups of these registrations. Discovery is taken from `update` or else from `self`.
    fn updated(
        &self,
        registered: &[Arc<RegisteredRemote>],
        update: Option<(&str, Option<Arc<DiscoveryResult>>)>,
    ) -> Self {
        let discovery_of = |name: &str| match &update {
            Some((updated, discovery)) if *updated == name => discovery.clone(),
            _ => self
                .versions
                .iter()
                .find(|one| one.name == name)?
                .discovery
                .clone(),
        };
        let group_version = |one: &Arc<RegisteredRemote>| {
            let remote = &one.remote;
            RemoteGroupVersion {
                discovery: discovery_of(&remote.name).filter(|_| remote.available),
                name: remote.name.clone(),
                group: remote.group.clone(),
                version: remote.version.clone(),
                group_priority: remote.group_priority,
                version_priority: remote.version_priority,
            }
        };
        let named_groups = registered.iter().filter(|one| !one.remote.group.is_empty());
        let mut all: Vec<RemoteGroupVersion> = named_groups.map(group_version).collect();
        // A group has the highest priority of its versions.
        let mut priorities: HashMap<CompactString, i32> = HashMap::new();
        for one in &all {
            let highest = priorities.entry(one.group.clone()).or_default();
            *highest = one.group_priority.max(*highest);
        }
        all.sort_by_cached_key(|one| {
            (
                Reverse(priorities[&one.group]),
                one.group.clone(),
                Reverse(one.version_priority),
                Reverse(KubeAwareVersion::of(&one.version)),
            )
        });
        Self { versions: all }
    }

    /// The versions of a group, the preferred one first.
    pub(crate) fn of_group<'a>(&'a self, group: &str) -> impl Iterator<Item = &'a RemoteGroupVersion> {
        self.versions.iter().filter(move |one| one.group == group)
    }

    pub(crate) fn find(&self, group: &str, version: &str) -> Option<&RemoteGroupVersion> {
        self.of_group(group).find(|one| one.version == version)
    }

    /// The version whose remote publishes the v3 OpenAPI document at `apis/GROUP` or `apis/GROUP/VERSION`.
    pub(super) fn find_openapi_v3(&self, path: &str) -> Option<&RemoteGroupVersion> {
        let publishes = |one: &&RemoteGroupVersion| one.openapi_v3().any(|(own, _)| own == path);
        self.versions.iter().find(publishes)
    }

    pub(super) fn resources(&self) -> Vec<RemoteResource> {
        self.versions
            .iter()
            .flat_map(RemoteGroupVersion::resources)
            .collect()
    }

    pub(super) fn stale_versions(&self) -> Vec<String> {
        let stale = self.versions.iter().filter(|one| one.discovery.is_none());
        stale
            .map(|one| format!("{}/{}", one.group, one.version))
            .collect()
    }
}

// === impl RemoteGroupVersion ===

impl RemoteGroupVersion {
    /// The paths and URLs of its v3 OpenAPI documents.
    pub(crate) fn openapi_v3(&self) -> impl Iterator<Item = &(String, String)> {
        self.discovery.iter().flat_map(|discovery| &discovery.openapi.v3)
    }

    /// Its part of the remote's v2 OpenAPI document.
    pub(crate) fn openapi_v2(&self) -> Option<Value> {
        setpoint_api::json::from_slice(&self.discovery.as_ref()?.openapi.v2.as_ref()?.json).ok()
    }

    fn resources(&self) -> Vec<RemoteResource> {
        let resources = self.discovery.iter().flat_map(|discovery| &discovery.resources);
        let resource = |one: &Value| {
            let name = one["resource"].as_str()?;
            let verbs = one["verbs"].as_array().into_iter().flatten();
            Some(RemoteResource {
                gvr: Gvr::new(&self.group, &self.version, name),
                gvk: Gvk::new(&self.group, &self.version, one["responseKind"]["kind"].as_str()?),
                namespaced: one["scope"] == "Namespaced",
                verbs: verbs.filter_map(Value::as_str).map(str::to_owned).collect(),
            })
        };
        resources.filter_map(resource).collect()
    }
}

/// The resources of a version in an aggregated discovery document (APIGroupDiscoveryList).
pub(super) fn from_aggregated(document: &Value, group: &str, version: &str) -> Vec<Value> {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let groups = array(&document["items"]).into_iter();
    let versions = groups
        .filter(|one| one["metadata"]["name"] == group)
        .flat_map(|one| array(&one["versions"]));
    let mut resources: Vec<Value> = versions
        .filter(|one| one["version"] == version)
        .flat_map(|one| array(&one["resources"]))
        .collect();
    // Some clients fail without a `responseKind`.
    for resource in &mut resources {
        fill_kind(resource);
        let subresources = resource.get_mut("subresources").and_then(Value::as_array_mut);
        subresources.into_iter().flatten().for_each(fill_kind);
    }
    resources
}

fn fill_kind(entry_json: &mut Value) {
    if entry_json["responseKind"].is_null() {
        entry_json["responseKind"] = json!({"group": "", "version": "", "kind": ""});
    }
}

/// The resources of an APIResourceList, converted to aggregated discovery: subresources are nested in their resources.
pub(super) fn from_resource_list(list: &Value) -> Vec<Value> {
    let mut resources: Vec<Value> = Vec::new();
    for entry in list["resources"].as_array().into_iter().flatten() {
        let name = entry["name"].as_str().unwrap_or_default();
        let Some((name, subresource)) = name.split_once('/') else {
            resources.push(resource(entry, name));
            continue;
        };
        let at = resources.iter().position(|one| one["resource"] == name);
        let at = at.unwrap_or_else(|| {
            let mut parent =
                json!({"resource": name, "scope": scope(entry), "singularResource": "", "verbs": []});
            fill_kind(&mut parent);
            resources.push(parent);
            resources.len() - 1
        });
        let subresource =
            json!({"subresource": subresource, "responseKind": kind(entry), "verbs": entry["verbs"]});
        match resources[at]["subresources"].as_array_mut() {
            Some(subresources) => subresources.push(subresource),
            None => resources[at]["subresources"] = json!([subresource]),
        }
    }
    resources
}

fn resource(entry: &Value, name: &str) -> Value {
    let mut entry_json = Map::new();
    let mut put = |key: &str, value: Value| entry_json.insert(key.to_owned(), value);
    put("resource", name.into());
    put("responseKind", kind(entry));
    put("scope", scope(entry).into());
    put(
        "singularResource",
        entry["singularName"].as_str().unwrap_or_default().into(),
    );
    put("verbs", entry["verbs"].clone());
    for key in ["shortNames", "categories"] {
        if entry[key].is_array() {
            put(key, entry[key].clone());
        }
    }
    entry_json.into()
}

fn kind(entry: &Value) -> Value {
    let text = |key: &str| entry[key].as_str().unwrap_or_default();
    json!({"group": text("group"), "version": text("version"), "kind": text("kind")})
}

fn scope(entry: &Value) -> &'static str {
    match entry["namespaced"] == true {
        true => "Namespaced",
        false => "Cluster",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subresources_of_a_resource_list_are_nested_in_their_resources() {
        let list = json!({"resources": [
            {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
             "verbs": ["get", "list"], "shortNames": ["fl"]},
            {"name": "flunders/status", "singularName": "", "namespaced": true, "kind": "Flunder", "verbs": ["get"]},
            {"name": "pods/rate", "singularName": "", "namespaced": true, "kind": "MetricValueList", "verbs": ["get"]},
        ]});
        let resources = from_resource_list(&list);
        assert_eq!(
            resources[0],
            json!({"resource": "flunders", "responseKind": {"group": "", "version": "", "kind": "Flunder"},
                "scope": "Namespaced", "singularResource": "flunder", "verbs": ["get", "list"], "shortNames": ["fl"],
                "subresources": [{"subresource": "status", "verbs": ["get"],
                    "responseKind": {"group": "", "version": "", "kind": "Flunder"}}]})
        );
        assert_eq!(
            resources[1]["subresources"][0]["responseKind"]["kind"],
            "MetricValueList"
        );
        assert_eq!(resources[1]["verbs"], json!([]));
    }

    #[test]
    fn of_an_aggregated_document_only_the_registered_version_counts() {
        let document = json!({"items": [
            {"metadata": {"name": "a"}, "versions": [
                {"version": "v1", "resources": [{"resource": "xs", "subresources": [{"subresource": "status"}]}]},
                {"version": "v2", "resources": [{"resource": "ys"}]}]},
            {"metadata": {"name": "b"}, "versions": [{"version": "v1", "resources": [{"resource": "zs"}]}]},
        ]});
        let empty = json!({"group": "", "version": "", "kind": ""});
        assert_eq!(
            from_aggregated(&document, "a", "v1"),
            [json!({"resource": "xs", "responseKind": empty,
                "subresources": [{"subresource": "status", "responseKind": empty}]})]
        );
    }
}
