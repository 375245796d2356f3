//! What other servers serve, as discovery tells it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use compact_str::CompactString;
use http::HeaderValue;
use serde_json::{Map, Value, json};
use setpoint_api::{Gvk, Gvr};
use setpoint_kinds::custom::Rank;

use super::{Aggregator, Known};

/// Everything that others serve.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Others {
    /// Greater priorities first, then by name.
    pub all: Vec<Other>,
}

/// One version of a group that another server serves.
#[derive(Debug, PartialEq)]
pub(crate) struct Other {
    name: String,
    pub group: CompactString,
    pub version: CompactString,
    pub group_priority: i32,
    pub version_priority: i32,
    /// What it said when it was last asked; nothing if it does not answer.
    pub learned: Option<Arc<Learned>>,
}

/// What a server says of one version.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Learned {
    /// The resources as `apidiscovery.k8s.io/v2` describes them.
    pub resources: Vec<Value>,
    pub documents: Documents,
}

/// What a server's OpenAPI documents say of one version.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Documents {
    /// In version 3 of OpenAPI, the paths of the documents of the version and of its group, and where they are.
    pub third: Vec<(String, String)>,
    /// What the document of version 2 says of the version.
    pub second: Option<Second>,
}

/// A part of a server's OpenAPI document of version 2.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Second {
    /// By which the whole document is known.
    pub tag: HeaderValue,
    /// The part in JSON.
    pub json: Bytes,
}

/// A resource that another server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub gvr: Gvr,
    pub gvk: Gvk,
    pub namespaced: bool,
    pub verbs: Vec<String>,
}

impl Aggregator {
    /// Takes in who is registered, and what one of them has said.
    pub(super) fn tell(&self, news: Option<(&str, Option<Arc<Learned>>)>) {
        let registered = self.registered.borrow().clone();
        let mut others = self.learned.write();
        let next = others.follow(&registered, news);
        if next != **others {
            *others = Arc::new(next);
            drop(others);
            self.changes.send_modify(|changes| *changes += 1);
        }
    }
}

// === impl Others ===

impl Others {
    /// What is known once these are registered and one of them has said something.
    fn follow(&self, registered: &[Arc<Known>], news: Option<(&str, Option<Arc<Learned>>)>) -> Self {
        let known = |name: &str| match &news {
            Some((of, learned)) if *of == name => learned.clone(),
            _ => self.all.iter().find(|one| one.name == name)?.learned.clone(),
        };
        let other = |one: &Arc<Known>| {
            let remote = &one.remote;
            Other {
                learned: known(&remote.name).filter(|_| remote.available),
                name: remote.name.clone(),
                group: remote.group.clone(),
                version: remote.version.clone(),
                group_priority: remote.group_priority,
                version_priority: remote.version_priority,
            }
        };
        let in_groups = registered.iter().filter(|one| !one.remote.group.is_empty());
        let mut all: Vec<Other> = in_groups.map(other).collect();
        // A group is where its most wanted version is.
        let mut priorities: HashMap<CompactString, i32> = HashMap::new();
        for one in &all {
            let most = priorities.entry(one.group.clone()).or_default();
            *most = one.group_priority.max(*most);
        }
        all.sort_by_cached_key(|one| {
            (
                Reverse(priorities[&one.group]),
                one.group.clone(),
                Reverse(one.version_priority),
                Reverse(Rank::of(&one.version)),
            )
        });
        Self { all }
    }

    /// The versions of a group, the preferred one first.
    pub(crate) fn of_group<'a>(&'a self, group: &str) -> impl Iterator<Item = &'a Other> {
        self.all.iter().filter(move |one| one.group == group)
    }

    pub(crate) fn find(&self, group: &str, version: &str) -> Option<&Other> {
        self.of_group(group).find(|one| one.version == version)
    }

    /// Who publishes the OpenAPI document at `apis/GROUP` or `apis/GROUP/VERSION`.
    pub(super) fn find_document(&self, path: &str) -> Option<&Other> {
        let has = |one: &&Other| one.documents().any(|(own, _)| own == path);
        self.all.iter().find(has)
    }

    pub(super) fn resources(&self) -> Vec<Resource> {
        self.all.iter().flat_map(Other::resources).collect()
    }

    pub(super) fn unknown(&self) -> Vec<String> {
        let unknown = self.all.iter().filter(|one| one.learned.is_none());
        unknown
            .map(|one| format!("{}/{}", one.group, one.version))
            .collect()
    }
}

// === impl Other ===

impl Other {
    /// The paths of its OpenAPI documents, and where they are.
    pub(crate) fn documents(&self) -> impl Iterator<Item = &(String, String)> {
        self.learned.iter().flat_map(|learned| &learned.documents.third)
    }

    /// What the older OpenAPI document of its server says of it.
    pub(crate) fn second(&self) -> Option<Value> {
        serde_json::from_slice(&self.learned.as_ref()?.documents.second.as_ref()?.json).ok()
    }

    fn resources(&self) -> Vec<Resource> {
        let listed = self.learned.iter().flat_map(|learned| &learned.resources);
        let resource = |one: &Value| {
            let name = one["resource"].as_str()?;
            let verbs = one["verbs"].as_array().into_iter().flatten();
            Some(Resource {
                gvr: Gvr::new(&self.group, &self.version, name),
                gvk: Gvk::new(&self.group, &self.version, one["responseKind"]["kind"].as_str()?),
                namespaced: one["scope"] == "Namespaced",
                verbs: verbs.filter_map(Value::as_str).map(str::to_owned).collect(),
            })
        };
        listed.filter_map(resource).collect()
    }
}

/// The resources of a version in a document that tells of everything at once.
pub(super) fn of_whole(document: &Value, group: &str, version: &str) -> Vec<Value> {
    let listed = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let groups = listed(&document["items"]).into_iter();
    let versions = groups
        .filter(|one| one["metadata"]["name"] == group)
        .flat_map(|one| listed(&one["versions"]));
    let mut resources: Vec<Value> = versions
        .filter(|one| one["version"] == version)
        .flat_map(|one| listed(&one["resources"]))
        .collect();
    // Some clients cannot do without it.
    for resource in &mut resources {
        fill_kind(resource);
        let parts = resource.get_mut("subresources").and_then(Value::as_array_mut);
        parts.into_iter().flatten().for_each(fill_kind);
    }
    resources
}

fn fill_kind(described: &mut Value) {
    if described["responseKind"].is_null() {
        described["responseKind"] = json!({"group": "", "version": "", "kind": ""});
    }
}

/// The resources in the list of one version, with the parts of each below it.
pub(super) fn of_list(list: &Value) -> Vec<Value> {
    let mut resources: Vec<Value> = Vec::new();
    for entry in list["resources"].as_array().into_iter().flatten() {
        let name = entry["name"].as_str().unwrap_or_default();
        let Some((name, part)) = name.split_once('/') else {
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
        let part = json!({"subresource": part, "responseKind": kind(entry), "verbs": entry["verbs"]});
        match resources[at]["subresources"].as_array_mut() {
            Some(parts) => parts.push(part),
            None => resources[at]["subresources"] = json!([part]),
        }
    }
    resources
}

fn resource(entry: &Value, name: &str) -> Value {
    let mut described = Map::new();
    let mut put = |key: &str, value: Value| described.insert(key.to_owned(), value);
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
    described.into()
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
    fn a_list_of_one_version_has_its_parts_below_their_resources() {
        let list = json!({"resources": [
            {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
             "verbs": ["get", "list"], "shortNames": ["fl"]},
            {"name": "flunders/status", "singularName": "", "namespaced": true, "kind": "Flunder", "verbs": ["get"]},
            {"name": "pods/rate", "singularName": "", "namespaced": true, "kind": "MetricValueList", "verbs": ["get"]},
        ]});
        let resources = of_list(&list);
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
    fn of_everything_at_once_only_the_registered_version_counts() {
        let document = json!({"items": [
            {"metadata": {"name": "a"}, "versions": [
                {"version": "v1", "resources": [{"resource": "xs", "subresources": [{"subresource": "status"}]}]},
                {"version": "v2", "resources": [{"resource": "ys"}]}]},
            {"metadata": {"name": "b"}, "versions": [{"version": "v1", "resources": [{"resource": "zs"}]}]},
        ]});
        let empty = json!({"group": "", "version": "", "kind": ""});
        assert_eq!(
            of_whole(&document, "a", "v1"),
            [json!({"resource": "xs", "responseKind": empty,
                "subresources": [{"subresource": "status", "responseKind": empty}]})]
        );
    }
}
