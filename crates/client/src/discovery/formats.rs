//! Decoding of discovery responses, aggregated and unaggregated.

use compact_str::CompactString;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use setpoint_api::{Gvk, Gvr, Status};

use super::ApiResource;

/// The response of `/api` or `/apis`.
#[derive(Debug)]
pub(super) enum Root {
    /// Aggregated: all resources.
    Aggregated(Vec<ApiResource>),
    /// Unaggregated: the paths of the versions, the preferred version of each group first.
    Versions(Vec<String>),
}

#[derive(Deserialize)]
struct TypeMeta {
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
struct GroupDiscoveryList {
    #[serde(default)]
    items: Vec<GroupDiscovery>,
}

#[derive(Deserialize)]
struct GroupDiscovery {
    #[serde(default)]
    metadata: Name,
    #[serde(default)]
    versions: Vec<VersionDiscovery>,
}

#[derive(Deserialize, Default)]
struct Name {
    #[serde(default)]
    name: CompactString,
}

#[derive(Deserialize)]
struct VersionDiscovery {
    version: CompactString,
    #[serde(default)]
    resources: Vec<ResourceDiscovery>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery {
    resource: CompactString,
    response_kind: Option<Kind>,
    #[serde(default)]
    scope: CompactString,
    #[serde(default)]
    singular_resource: CompactString,
    #[serde(default)]
    short_names: Vec<CompactString>,
    #[serde(default)]
    categories: Vec<CompactString>,
    #[serde(default)]
    verbs: Vec<CompactString>,
    #[serde(default)]
    subresources: Vec<Subresource>,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    group: CompactString,
    #[serde(default)]
    version: CompactString,
    kind: CompactString,
}

#[derive(Deserialize)]
struct Subresource {
    subresource: CompactString,
}

#[derive(Deserialize)]
struct Versions {
    #[serde(default)]
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    #[serde(default)]
    versions: Vec<GroupVersion>,
    preferred_version: Option<GroupVersion>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct GroupVersion {
    group_version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceList {
    group_version: CompactString,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    /// With a slash for a subresource.
    name: CompactString,
    #[serde(default)]
    singular_name: CompactString,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    group: CompactString,
    #[serde(default)]
    version: CompactString,
    kind: CompactString,
    #[serde(default)]
    verbs: Vec<CompactString>,
    #[serde(default)]
    short_names: Vec<CompactString>,
    #[serde(default)]
    categories: Vec<CompactString>,
}

/// Decodes the response of `/api` or `/apis`.
pub(super) fn root(json: &[u8]) -> Result<Root, Status> {
    let kind: TypeMeta = decode(json)?;
    match kind.kind.as_str() {
        "APIGroupDiscoveryList" => {
            let list: GroupDiscoveryList = decode(json)?;
            Ok(Root::Aggregated(list.items.into_iter().flat_map(group).collect()))
        }
        "APIVersions" => {
            let versions: Versions = decode(json)?;
            let path = |version: String| format!("/api/{version}");
            Ok(Root::Versions(versions.versions.into_iter().map(path).collect()))
        }
        _ => {
            let groups: Groups = decode(json)?;
            Ok(Root::Versions(
                groups.groups.into_iter().flat_map(preferred_first).collect(),
            ))
        }
    }
}

/// Decodes the response of `/apis/<group>/<version>`.
pub(super) fn version(json: &[u8]) -> Result<Vec<ApiResource>, Status> {
    let list: ResourceList = decode(json)?;
    let (group, version) = list
        .group_version
        .split_once('/')
        .unwrap_or(("", &list.group_version));
    let mut resources: Vec<ApiResource> = Vec::new();
    for resource in list.resources {
        match resource.name.split_once('/') {
            None => resources.push(from_api_resource(resource, group, version)),
            Some((parent, sub)) => {
                let parent = resources.iter_mut().find(|own| own.gvr.resource == parent);
                if let Some(parent) = parent {
                    parent.subresources.push(sub.into());
                }
            }
        }
    }
    Ok(resources)
}

fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, Status> {
    setpoint_api::json::from_slice(json)
        .map_err(|error| Status::internal(format_args!("cannot decode the server's discovery: {error}")))
}

fn group(discovered: GroupDiscovery) -> Vec<ApiResource> {
    let name = discovered.metadata.name;
    let versions = discovered.versions.into_iter();
    versions
        .flat_map(|version| {
            let found = version.resources.into_iter();
            let found: Vec<_> = found
                .filter_map(|resource| from_aggregated(resource, &name, &version.version))
                .collect();
            found
        })
        .collect()
}

/// A resource without a kind exists for its subresources only.
fn from_aggregated(resource: ResourceDiscovery, group: &str, version: &str) -> Option<ApiResource> {
    let kind = resource.response_kind?;
    let gvk_group = if kind.group.is_empty() { group } else { &kind.group };
    let gvk_version = if kind.version.is_empty() {
        version
    } else {
        &kind.version
    };
    let subresources = resource.subresources.into_iter();
    Some(ApiResource {
        gvr: Gvr::new(group, version, &resource.resource),
        gvk: Gvk::new(gvk_group, gvk_version, &kind.kind),
        namespaced: resource.scope == "Namespaced",
        singular: resource.singular_resource,
        short_names: resource.short_names,
        categories: resource.categories,
        verbs: resource.verbs,
        subresources: subresources.map(|sub| sub.subresource).collect(),
    })
}

fn preferred_first(group: Group) -> Vec<String> {
    let Group {
        versions,
        preferred_version,
    } = group;
    let others = versions
        .into_iter()
        .filter(|version| Some(version) != preferred_version.as_ref());
    let others: Vec<_> = others.collect();
    preferred_version
        .into_iter()
        .chain(others)
        .map(|version| format!("/apis/{}", version.group_version))
        .collect()
}

fn from_api_resource(resource: Resource, group: &str, version: &str) -> ApiResource {
    let own = |own: &CompactString, listed: &str| match own.is_empty() {
        true => CompactString::from(listed),
        false => own.clone(),
    };
    ApiResource {
        gvr: Gvr::new(group, version, &resource.name),
        gvk: Gvk {
            group: own(&resource.group, group),
            version: own(&resource.version, version),
            kind: resource.kind,
        },
        namespaced: resource.namespaced,
        singular: resource.singular_name,
        short_names: resource.short_names,
        categories: resource.categories,
        verbs: resource.verbs,
        subresources: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(resources: &[ApiResource]) -> Vec<String> {
        let show = |resource: &ApiResource| {
            let scope = if resource.namespaced { "in" } else { "of" };
            let subs = resource.subresources.join(",");
            format!(
                "{} {} {scope} [{subs}]",
                resource.gvr.resource,
                resource.gvk.api_version()
            )
        };
        resources.iter().map(show).collect()
    }

    #[test]
    fn the_aggregated_form_has_all_resources() {
        let json = br#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[
            {"resource":"deployments","responseKind":{"group":"","version":"","kind":"Deployment"},"scope":"Namespaced","singularResource":"deployment","verbs":["list","watch"],"shortNames":["deploy"],"subresources":[{"subresource":"scale"},{"subresource":"status"}]},
            {"resource":"hollow","scope":"Cluster"}]}]}]}"#;
        let Root::Aggregated(resources) = root(json).unwrap() else {
            panic!("this is the aggregated form");
        };
        assert_eq!(shown(&resources), ["deployments apps/v1 in [scale,status]"]);
        assert!(resources[0].is_watchable() && resources[0].has_status());
    }

    #[track_caller]
    fn check_versions(json: &str, expected: &[&str]) {
        let Root::Versions(paths) = root(json.as_bytes()).unwrap() else {
            panic!("this is the older form");
        };
        assert_eq!(paths, expected);
    }

    #[test]
    fn the_unaggregated_form_has_the_paths_of_versions() {
        check_versions(r#"{"kind":"APIVersions","versions":["v1"]}"#, &["/api/v1"]);
        check_versions(
            r#"{"kind":"APIGroupList","groups":[{"name":"a","versions":[{"groupVersion":"a/v1beta1"},{"groupVersion":"a/v1"}],"preferredVersion":{"groupVersion":"a/v1"}}]}"#,
            &["/apis/a/v1", "/apis/a/v1beta1"],
        );
    }

    #[test]
    fn a_version_lists_resources_and_their_subresources() {
        let json = br#"{"kind":"APIResourceList","groupVersion":"v1","resources":[
            {"name":"nodes","singularName":"node","namespaced":false,"kind":"Node","verbs":["get"]},
            {"name":"nodes/status","singularName":"","namespaced":false,"kind":"Node","verbs":["get"]},
            {"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get"]}]}"#;
        assert_eq!(
            shown(&version(json).unwrap()),
            ["nodes v1 of [status]", "pods v1 in []"]
        );
    }
}
