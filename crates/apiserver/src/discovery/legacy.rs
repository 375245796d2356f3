//! Discovery one piece at a time: versions, groups, a group, the resources of a version.

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use setpoint_api::Status;
use setpoint_kinds::strategy::Subresource;
use setpoint_kinds::{About, Kind, Kinds};
use sha2::{Digest, Sha256};

use super::Documents;
use super::groups::{self, Group};
use crate::made::Served;
use crate::request::options::Refused;

/// The document as JSON; `None` where even the group is unknown, a refusal where only the version is.
pub(crate) fn document(
    served: &Served,
    documents: &Documents<'_>,
    address: SocketAddr,
) -> Result<Option<Vec<u8>>, Refused> {
    let (groups, own) = (groups::with_others(served), groups::all(&served.kinds));
    let find = |name: &str| groups.iter().find(|group| group.name == name);
    let value = match documents {
        Documents::Core => core(find(""), address),
        Documents::Groups => json!({
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": groups.iter().filter(|group| !group.name.is_empty()).map(group_entry).collect::<Vec<_>>(),
        }),
        Documents::Group(name) => match find(name) {
            Some(group) if !group.name.is_empty() => typed_group(group),
            _ => return Ok(None),
        },
        // What others serve is theirs to list.
        Documents::Resources { group, version } => match own.iter().find(|one| one.name == *group) {
            None if !group.is_empty() => return Ok(None),
            Some(known) if known.versions.contains(version) => resources(&served.kinds, group, version),
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
        let mut parts: Vec<&Subresource> = kind.about().subresources.iter().collect();
        parts.sort_by_key(|part| part.name);
        entries.extend(parts.into_iter().map(|part| subresource(kind.about(), part)));
    }
    list.insert("resources".to_owned(), entries.into());
    list.into()
}

fn resource(kind: &dyn Kind) -> Value {
    let about = kind.about();
    let mut entry = json!({
        "name": about.names.plural,
        "singularName": about.names.singular,
        "namespaced": about.is_namespaced(),
        "kind": about.gvk.kind,
        "verbs": about.rules.verbs,
    });
    if !about.names.short.is_empty() {
        entry["shortNames"] = json!(about.names.short);
    }
    if !about.names.categories.is_empty() {
        entry["categories"] = json!(about.names.categories);
    }
    if about.rules.stored && about.allows("create") {
        entry["storageVersionHash"] = storage_hash(kind).into();
    }
    entry
}

fn subresource(about: &About, part: &Subresource) -> Value {
    let mut entry = Map::new();
    entry.insert(
        "name".to_owned(),
        format!("{}/{}", about.names.plural, part.name).into(),
    );
    entry.insert("singularName".to_owned(), "".into());
    entry.insert("namespaced".to_owned(), about.is_namespaced().into());
    let (group, version, kind) = part.kind;
    if !kind.is_empty() && (group, version) != (about.gvk.group.as_str(), about.gvk.version.as_str()) {
        entry.insert("group".to_owned(), group.into());
        entry.insert("version".to_owned(), version.into());
    }
    let kind = if kind.is_empty() {
        about.gvk.kind.as_str()
    } else {
        kind
    };
    entry.insert("kind".to_owned(), kind.into());
    entry.insert("verbs".to_owned(), json!(part.verbs));
    entry.into()
}

/// A short name for the form in which the kind is stored.
fn storage_hash(kind: &dyn Kind) -> String {
    let about = kind.about();
    let (mut group, mut version) = (about.gvk.group.as_str(), about.gvk.version.as_str());
    if let Some(stored) = &kind.stored_shape().gvk {
        (group, version) = (&stored.group, &stored.version);
    }
    if !about.rules.said_stored.is_empty() {
        version = about.rules.said_stored;
    }
    STANDARD.encode(&Sha256::digest(format!("{group}/{version}/{}", about.gvk.kind))[..8])
}
