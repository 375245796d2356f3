//! Unaggregated discovery: APIVersions, APIGroupList, APIGroup and APIResourceList.

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use setpoint_api::{ApiVerb, Status};
use setpoint_strategy::Subresource;
use setpoint_strategy::{Kind, KindInfo, Kinds};
use sha2::{Digest, Sha256};

use super::groups::{self, Group};
use super::{DiscoveryPath, discovery_verbs};
use crate::memo::ServedApis;
use crate::request::options::StatusError;

/// The object at a discovery path, as JSON: `None` if the group is unknown, an error if only the version is.
pub(crate) fn json(
    apis: &ServedApis,
    path: &DiscoveryPath<'_>,
    address: SocketAddr,
) -> Result<Option<Vec<u8>>, StatusError> {
    let (groups, local) = (groups::all_groups(apis), groups::local_groups(&apis.kinds));
    let find = |name: &str| groups.iter().find(|group| group.name == name);
    let value = match path {
        DiscoveryPath::Core => core(find(""), address),
        DiscoveryPath::Groups => json!({
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": groups::in_api_service_order(apis)
                .iter()
                .filter(|group| !group.name.is_empty())
                .map(group_entry)
                .collect::<Vec<_>>(),
        }),
        DiscoveryPath::Group(name) => match find(name) {
            Some(group) if !group.name.is_empty() => typed_group(group),
            _ => return Ok(None),
        },
        // Versions of aggregated API servers never get here: their APIResourceList is proxied.
        DiscoveryPath::Resources { group, version } => match local.iter().find(|one| one.name == *group) {
            None if !group.is_empty() => return Ok(None),
            Some(known) if known.versions.contains(version) => resources(&apis.kinds, group, version),
            _ => return Err(Box::new(Status::no_such_resource())),
        },
    };
    Ok(Some(serde_json::to_vec(&value).expect("discovery is plain data")))
}

fn core(core: Option<&Group<'_>>, address: SocketAddr) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": core.map(|group| group.versions.as_slice()).unwrap_or_default(),
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address.to_string()}],
    })
}

fn typed_group(group: &Group<'_>) -> Value {
    let mut typed = Map::new();
    typed.insert("kind".to_owned(), "APIGroup".into());
    typed.insert("apiVersion".to_owned(), "v1".into());
    if let Value::Object(entry) = group_entry(group) {
        typed.extend(entry);
    }
    typed.into()
}

fn group_entry(group: &Group<'_>) -> Value {
    let version =
        |version: &&str| json!({"groupVersion": format!("{}/{version}", group.name), "version": version});
    json!({
        "name": group.name,
        "versions": group.versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": group.versions.first().map(version),
    })
}

fn resources(kinds: &Kinds, group: &str, version: &str) -> Value {
    let mut list = Map::new();
    list.insert("kind".to_owned(), "APIResourceList".into());
    let group_version = match group {
        "" => version.to_owned(),
        group => {
            list.insert("apiVersion".to_owned(), "v1".into());
            format!("{group}/{version}")
        }
    };
    list.insert("groupVersion".to_owned(), group_version.into());
    let mut entries = Vec::new();
    for kind in groups::kinds_of(kinds, group, version) {
        entries.push(resource(&**kind));
        let mut subresources: Vec<&Subresource> = kind.info().subresources.iter().collect();
        subresources.sort_by_key(|subresource| subresource.name);
        entries.extend(subresources.into_iter().map(|one| subresource(kind.info(), one)));
    }
    list.insert("resources".to_owned(), entries.into());
    list.into()
}

fn resource(kind: &dyn Kind) -> Value {
    let info = kind.info();
    let mut entry = json!({
        "name": info.names.plural,
        "singularName": info.names.singular,
        "namespaced": info.is_namespaced(),
        "kind": info.gvk.kind,
        "verbs": discovery_verbs(info),
    });
    if !info.names.short.is_empty() {
        entry["shortNames"] = json!(info.names.short);
    }
    if !info.names.categories.is_empty() {
        entry["categories"] = json!(info.names.categories);
    }
    if info.rules.resource.stored && info.allows(ApiVerb::Create) {
        entry["storageVersionHash"] = storage_hash(kind).into();
    }
    entry
}

fn subresource(info: &KindInfo, subresource: &Subresource) -> Value {
    let mut entry = Map::new();
    entry.insert(
        "name".to_owned(),
        format!("{}/{}", info.names.plural, subresource.name).into(),
    );
    entry.insert("singularName".to_owned(), "".into());
    entry.insert("namespaced".to_owned(), info.is_namespaced().into());
    let (group, version, kind) = subresource.body_kind;
    if !kind.is_empty() && (group, version) != (info.gvk.group.as_str(), info.gvk.version.as_str()) {
        entry.insert("group".to_owned(), group.into());
        entry.insert("version".to_owned(), version.into());
    }
    let kind = if kind.is_empty() {
        info.gvk.kind.as_str()
    } else {
        kind
    };
    entry.insert("kind".to_owned(), kind.into());
    entry.insert("verbs".to_owned(), json!(subresource.verbs));
    entry.into()
}

/// The `storageVersionHash`: identifies the version in which the kind is stored.
fn storage_hash(kind: &dyn Kind) -> String {
    let info = kind.info();
    let (mut group, mut version) = (info.gvk.group.as_str(), info.gvk.version.as_str());
    if let Some(stored) = &kind.stored_shape().gvk {
        (group, version) = (&stored.group, &stored.version);
    }
    if !info.rules.upstream.discovery_storage_version.is_empty() {
        version = info.rules.upstream.discovery_storage_version;
    }
    STANDARD.encode(&Sha256::digest(format!("{group}/{version}/{}", info.gvk.kind))[..8])
}
