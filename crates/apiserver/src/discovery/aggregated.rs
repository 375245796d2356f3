//! Aggregated discovery: the two APIGroupDiscoveryLists of `apidiscovery.k8s.io/v2`.

use serde::Serialize;
use setpoint_api::{ApiVerb, ApiVerbs};
use setpoint_strategy::KindInfo;
use setpoint_strategy::Subresource;

use super::groups::{self, Group};
use super::{TaggedJson, discovery_verbs};
use crate::aggregate::RemoteGroupVersion;
use crate::memo::ServedApis;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiGroupDiscoveryList<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Empty,
    items: Vec<ApiGroupDiscovery<'a>>,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
struct ApiGroupDiscovery<'a> {
    metadata: GroupMetadata<'a>,
    versions: Vec<ApiVersionDiscovery<'a>>,
}

#[derive(Serialize)]
struct GroupMetadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
}

#[derive(Serialize)]
struct ApiVersionDiscovery<'a> {
    version: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resources: Vec<AnyResource<'a>>,
    freshness: &'static str,
}

/// A resource of this server, or of an aggregated API server as that describes it.
#[derive(Serialize)]
#[serde(untagged)]
enum AnyResource<'a> {
    Local(ApiResourceDiscovery<'a>),
    Remote(&'a serde_json::Value),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiResourceDiscovery<'a> {
    resource: &'a str,
    response_kind: ResponseKind<'a>,
    scope: &'static str,
    singular_resource: &'a str,
    verbs: Vec<ApiVerb>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    short_names: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    categories: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<ApiSubresourceDiscovery<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ApiSubresourceDiscovery<'a> {
    subresource: &'a str,
    response_kind: ResponseKind<'a>,
    verbs: ApiVerbs,
}

/// Group and version are empty if they are those of the enclosing version.
#[derive(Serialize)]
struct ResponseKind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

/// The discovery document at `/api`: the core group.
pub(crate) fn core_group(apis: &ServedApis) -> TaggedJson {
    list(apis, |group| group.name.is_empty())
}

/// The discovery document at `/apis`: all other groups.
pub(crate) fn named_groups(apis: &ServedApis) -> TaggedJson {
    list(apis, |group| !group.name.is_empty())
}

fn list(apis: &ServedApis, includes: fn(&Group<'_>) -> bool) -> TaggedJson {
    let groups = groups::all_groups(apis);
    let items = groups
        .iter()
        .filter(|group| includes(group))
        .map(|group| item(apis, group));
    TaggedJson::new(&ApiGroupDiscoveryList {
        kind: "APIGroupDiscoveryList",
        api_version: "apidiscovery.k8s.io/v2",
        metadata: Empty {},
        items: items.collect(),
    })
}

fn item<'a>(apis: &'a ServedApis, group: &Group<'a>) -> ApiGroupDiscovery<'a> {
    let version = |version: &&'a str| match apis.remote_groups.find(group.name, version) {
        Some(remote) => remote_version(remote, version),
        None => ApiVersionDiscovery {
            version,
            resources: groups::kinds_of(&apis.kinds, group.name, version)
                .iter()
                .map(|kind| AnyResource::Local(resource(kind.info())))
                .collect(),
            freshness: "Current",
        },
    };
    ApiGroupDiscovery {
        metadata: GroupMetadata { name: group.name },
        versions: group.versions.iter().map(version).collect(),
    }
}

/// A version of an aggregated API server. One that does not respond is listed as stale, without resources.
fn remote_version<'a>(remote: &'a RemoteGroupVersion, version: &'a str) -> ApiVersionDiscovery<'a> {
    let resources = remote.discovery.iter().flat_map(|discovery| &discovery.resources);
    ApiVersionDiscovery {
        version,
        resources: resources.map(AnyResource::Remote).collect(),
        freshness: match remote.discovery {
            Some(_) => "Current",
            None => "Stale",
        },
    }
}

fn resource(info: &KindInfo) -> ApiResourceDiscovery<'_> {
    let mut subresources: Vec<ApiSubresourceDiscovery<'_>> = info
        .subresources
        .iter()
        .map(|one| subresource(info, one))
        .collect();
    subresources.sort_by_key(|one| one.subresource);
    ApiResourceDiscovery {
        resource: &info.names.plural,
        response_kind: ResponseKind {
            group: "",
            version: "",
            kind: &info.gvk.kind,
        },
        scope: if info.is_namespaced() {
            "Namespaced"
        } else {
            "Cluster"
        },
        singular_resource: &info.names.singular,
        verbs: discovery_verbs(info),
        short_names: &info.names.short,
        categories: &info.names.categories,
        subresources,
    }
}

fn subresource<'a>(info: &'a KindInfo, one: &'a Subresource) -> ApiSubresourceDiscovery<'a> {
    let same_kind = one.body_kind.2.is_empty();
    let other_version =
        (one.body_kind.0, one.body_kind.1) != (info.gvk.group.as_str(), info.gvk.version.as_str());
    let response_kind = ResponseKind {
        group: if !same_kind && other_version {
            one.body_kind.0
        } else {
            ""
        },
        version: if !same_kind && other_version {
            one.body_kind.1
        } else {
            ""
        },
        kind: if same_kind {
            &info.gvk.kind
        } else {
            one.body_kind.2
        },
    };
    ApiSubresourceDiscovery {
        subresource: one.name,
        response_kind,
        verbs: one.verbs,
    }
}
