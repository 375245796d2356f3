//! Kubernetes' published API data against our server: discovery, table columns, field selectors, an
//! object of every kind with every field set.
//!
//! Each test has a list of gaps, which must be exact: an entry that works now fails the test until it is removed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "what differs is printed")]

mod cluster;

use std::collections::BTreeSet;

use cluster::Cluster;
use serde_json::{Value, json};
use setpoint_conformance::wire::{Client, Endpoint, Request};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// Resources whose discovery is not the reference's.
const DISCOVERY_NOT_YET: &[&str] = &[];

/// Resources whose columns are not the reference's.
const COLUMNS_NOT_YET: &[&str] = &["storagemigration.k8s.io/v1/storageversionmigrations"];

/// Resources whose field selectors are not the reference's, or whose rejection message differs.
const SELECTORS_NOT_YET: &[&str] = &[];

/// Kinds whose golden object is not decoded.
const GOLDEN_NOT_YET: &[&str] = &[];

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn server() -> (Cluster, Client) {
    let cluster = Cluster::new(&["--memory", "--nodes", "0", "--controllers", "none"]);
    let endpoint = Endpoint::of_kubeconfig(&cluster.kubeconfig()).unwrap();
    (cluster, Client::new(endpoint))
}

/// The findings must equal the list exactly.
#[track_caller]
fn check(what: &str, found: &BTreeSet<String>, listed: &[&str]) {
    let listed: BTreeSet<String> = listed.iter().map(ToString::to_string).collect();
    let news: Vec<_> = found.difference(&listed).collect();
    let done: Vec<_> = listed.difference(found).collect();
    assert!(
        news.is_empty() && done.is_empty(),
        "{what}: differs and is not listed: {news:#?}\nlisted and does not differ any more: {done:#?}"
    );
}

/// Every resource of a discovery document, by group, version and name.
fn resources(document: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for group in document["items"].as_array().unwrap() {
        let name = group["metadata"]["name"].as_str().unwrap_or("core");
        for version in group["versions"].as_array().unwrap() {
            for resource in version["resources"].as_array().unwrap() {
                let key = format!(
                    "{name}/{}/{}",
                    version["version"].as_str().unwrap(),
                    resource["resource"].as_str().unwrap()
                );
                found.push((key, resource.clone()));
            }
        }
    }
    found
}

/// AM8
#[test]
fn discovery_is_the_references() {
    let (_cluster, mut client) = server();
    let mut differs = BTreeSet::new();
    for root in ["api", "apis"] {
        let theirs = parse(&setpoint_reference::discovery(root));
        let request = Request::new("GET", &format!("/{root}")).header("Accept", AGGREGATED);
        let ours = client.send(&request).unwrap().json().unwrap();
        let ours = resources(&ours);
        let theirs = resources(&theirs);
        for (key, resource) in &theirs {
            if ours.iter().find(|(own, _)| own == key).map(|(_, own)| own) != Some(resource) {
                differs.insert(key.clone());
            }
        }
        for (key, _) in ours
            .iter()
            .filter(|(own, _)| !theirs.iter().any(|(key, _)| key == own))
        {
            differs.insert(format!("{key} (not in the reference)"));
        }
    }
    check("discovery", &differs, DISCOVERY_NOT_YET);
}

#[test]
fn table_columns_are_the_references() {
    let (_cluster, mut client) = server();
    let mut differs = BTreeSet::new();
    for (key, columns) in parse(&setpoint_reference::table_columns()).as_object().unwrap() {
        let path = match key.strip_prefix("core/") {
            Some(rest) => format!("/api/{rest}"),
            None => format!("/apis/{key}"),
        };
        let response = client
            .send(&Request::new("GET", &path).header("Accept", TABLE))
            .unwrap();
        let mut ours = response.json().unwrap_or_default()["columnDefinitions"].take();
        for column in ours.as_array_mut().into_iter().flatten() {
            column.as_object_mut().unwrap().shift_remove("description");
        }
        if ours != *columns {
            differs.insert(key.clone());
        }
    }
    check("columns", &differs, COLUMNS_NOT_YET);
}

/// A resource takes the field labels of its rows, and rejects any other with the recorded message. Versions that are
/// off by default are not served.
#[test]
fn field_selectors_are_the_references() {
    let (_cluster, mut client) = server();
    let mut differs = BTreeSet::new();
    let rows = setpoint_reference::rows("field-selectors");
    for row in rows.iter().filter(|row| row.cell("groupVersion") != "*") {
        let (group_version, resource) = (row.cell("groupVersion"), row.cell("resource"));
        let root = if group_version.contains('/') {
            "apis"
        } else {
            "api"
        };
        let label = row.cell("label");
        let mut select = |label: &str| {
            let path = format!("/{root}/{group_version}/{resource}?fieldSelector={label}%3Dx");
            client.send(&Request::new("GET", &path)).unwrap()
        };
        let rejected = select("spec.noSuchField");
        if rejected.status == 404 {
            continue;
        }
        let message = row.cell("error for other labels (400 BadRequest)");
        let message = message.replace("<label>", "spec.noSuchField");
        let body = rejected.json().unwrap_or_default();
        if rejected.status != 400 || !body["message"].as_str().unwrap_or_default().ends_with(&message) {
            println!(
                "{group_version}/{resource}: {} {}",
                rejected.status,
                rejected.text()
            );
            differs.insert(format!("{group_version}/{resource} (message)"));
        }
        if select(label).status != 200 {
            differs.insert(format!("{group_version}/{resource} {label}"));
        }
    }
    check("field selectors", &differs, SELECTORS_NOT_YET);
}

/// The corpus is the list of kinds that docs/compat.md is held to, so it must be whole.
#[test]
fn the_corpus_has_every_kind_that_can_be_created() {
    let (_cluster, mut client) = server();
    let entries = setpoint_conformance::corpus::entries("ns");
    for root in ["/api", "/apis"] {
        let response = client
            .send(&Request::new("GET", root).header("Accept", AGGREGATED))
            .unwrap();
        for (key, resource) in resources(&response.json().unwrap()) {
            let is_creatable = resource["verbs"].as_array().unwrap().contains(&json!("create"));
            let ending = format!("/{}", key.rsplit('/').next().unwrap());
            let start = match key.strip_prefix("core/") {
                Some(rest) => format!("/api/{}/", rest.split('/').next().unwrap()),
                None => format!("/apis/{}/", key.rsplit_once('/').unwrap().0),
            };
            let is_there = entries
                .iter()
                .any(|entry| entry.at.starts_with(&start) && entry.at.ends_with(&ending));
            assert!(!is_creatable || is_there, "{key} has no object in the corpus");
        }
    }
}

/// An object with every field set is mostly nonsense to a kind's rules, but every field of it must be decoded: the
/// object is accepted or invalid, but no field is unknown or malformed. An accepted object can be read back.
#[test]
fn every_golden_object_is_decoded() {
    let golden = setpoint_reference::golden();
    let (_cluster, mut client) = server();
    let request = Request::new("GET", "/apis").header("Accept", AGGREGATED);
    let mut served = resources(&client.send(&request).unwrap().json().unwrap());
    let request = Request::new("GET", "/api").header("Accept", AGGREGATED);
    served.extend(resources(&client.send(&request).unwrap().json().unwrap()));
    let mut rejected = BTreeSet::new();
    for (key, resource) in &served {
        if !resource["verbs"].as_array().unwrap().contains(&json!("create")) {
            continue;
        }
        let (group_version, plural) = key.rsplit_once('/').unwrap();
        let kind = resource["responseKind"]["kind"].as_str().unwrap();
        let name = format!("{}.{kind}", group_version.replace('/', "."));
        let Some(golden) = golden.iter().find(|golden| golden.name == name) else {
            continue;
        };
        let object = serde_json::from_slice(&golden.json).unwrap();
        let base = match group_version.strip_prefix("core/") {
            Some(version) => format!("/api/{version}"),
            None => format!("/apis/{group_version}"),
        };
        let namespace = match resource["scope"] == "Namespaced" {
            true => "/namespaces/default",
            false => "",
        };
        if let Some(why) = misunderstood(&mut client, &format!("{base}{namespace}/{plural}"), object) {
            println!("{key}: {why}");
            rejected.insert(key.clone());
        }
    }
    check("golden", &rejected, GOLDEN_NOT_YET);
}

fn misunderstood(client: &mut Client, path: &str, mut object: Value) -> Option<String> {
    let is_namespaced = path.contains("/namespaces/");
    object["metadata"] = json!({"name": "golden", "labels": {"a": "b"}});
    if is_namespaced {
        object["metadata"]["namespace"] = json!("default");
    }
    let request = Request::new("POST", &format!("{path}?fieldValidation=Strict"));
    let response = client
        .send(&request.body("application/json", object.to_string()))
        .unwrap();
    match response.status {
        422 | 403 => None,
        200 | 201 => {
            let created = response.json().unwrap_or_default();
            let name = created["metadata"]["name"].as_str()?;
            let read = client
                .send(&Request::new("GET", &format!("{path}/{name}")))
                .unwrap();
            (read.status == 200 && read.json().as_ref() != Some(&created))
                .then(|| "it is read differently".to_owned())
        }
        // A Binding is decoded and rejected as in Kubernetes.
        500 if response.text().contains("target.kind: Unsupported value") => None,
        status => Some(format!(
            "{status} {}",
            response.text().chars().take(300).collect::<String>()
        )),
    }
}
