//! Mutated reads: lists and gets with odd parameters, and requests with odd methods, paths and media types.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::json;

use super::case;
use crate::corpus::Entry;
use crate::corpus::steps::{self, METADATA, TABLE, get, get_as, post, send};
use crate::transcript::{Case, Step};

const ACCEPTS: &[&str] = &[
    "application/json",
    TABLE,
    METADATA,
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/json;as=Table;g=meta.k8s.io;v=v1beta1",
    "application/json;as=Table;g=meta.k8s.io;v=v2",
    "application/json;as=Table;g=meta.k8s.io;v=v1,application/json",
    "application/json;as=Odd;g=meta.k8s.io;v=v1",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "application/*",
    "*/*",
    "text/plain",
    "application/json;q=0.1, application/yaml",
    "application/json;stream=watch",
    "application/json;pretty=1",
    "",
    ",",
    "odd",
];

const QUERIES: &[&str] = &[
    "limit=1",
    "limit=2",
    "limit=0",
    "limit=-1",
    "limit=x",
    "limit=99999999999999999999",
    "continue=x",
    "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
    "resourceVersion=0",
    "resourceVersion=-1",
    "resourceVersion=x",
    "resourceVersion=0&resourceVersionMatch=Exact",
    "resourceVersion=0&resourceVersionMatch=NotOlderThan",
    "resourceVersionMatch=NotOlderThan",
    "resourceVersionMatch=Odd&resourceVersion=5",
    "labelSelector=colour%3Dblue",
    "labelSelector=colour%21%3Dblue",
    "labelSelector=colour",
    "labelSelector=%21colour",
    "labelSelector=colour%20in%20(blue,red)",
    "labelSelector=colour%20notin%20(blue)",
    "labelSelector=size%3E1",
    "labelSelector=size%3Ex",
    "labelSelector=colour%3D%3Dblue,size%3D1",
    "labelSelector=a%20in%20()",
    "labelSelector=a%20in%20(b",
    "labelSelector=a%20odd%20b",
    "labelSelector=,",
    "labelSelector=a/b/c%3D1",
    "labelSelector=a%3Dbad%20value",
    "labelSelector=%3Da",
    "fieldSelector=metadata.name%3Dfirst",
    "fieldSelector=metadata.name%21%3Dfirst",
    "fieldSelector=metadata.namespace%3Dx",
    "fieldSelector=metadata.name",
    "fieldSelector=metadata.odd%3D1",
    "fieldSelector=a%3Db,metadata.name%3Dfirst",
    "fieldSelector=metadata.name%3Dfirst,metadata.name%3Dsecond",
    "fieldSelector=metadata.name%3D%5C",
    "fieldSelector=,",
    "timeoutSeconds=0",
    "timeoutSeconds=x",
    "timeout=1x",
    "timeout=0",
    "timeout=5s",
    "pretty=true",
    "pretty=0",
    "pretty=x",
    "watch=0",
    "watch=false",
    "sendInitialEvents=true",
    "allowWatchBookmarks=x",
    "timeoutSeconds=1&watch=true&resourceVersion=x",
    "timeoutSeconds=1&watch=true&sendInitialEvents=true",
    "timeoutSeconds=1&watch=true&sendInitialEvents=true&resourceVersionMatch=Odd",
    "timeoutSeconds=1&watch=true&resourceVersionMatch=NotOlderThan",
    "includeObject=Metadata",
    "includeObject=Odd",
    "dryRun=All",
    "dryRun=Odd",
    "fieldManager=x",
    "fieldValidation=Odd",
    "odd=1",
    "%zz",
    "=",
    "limit",
    "limit=1&limit=x",
    "shardSelector=x",
];

const METHODS: &[&str] = &[
    "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "ODD",
];

const MEDIA: &[&str] = &[
    "application/json",
    "application/json; charset=utf-8",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
    "text/plain",
    "odd",
    "",
];

const BODIES: &[&str] = &[
    "",
    "{}",
    "[]",
    "null",
    "1",
    "\"text\"",
    "{",
    "a: b",
    "a: [",
    "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\"}",
    "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"propagationPolicy\":\"Odd\"}",
    "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v2\"}",
    "{\"gracePeriodSeconds\":-1}",
    "{\"gracePeriodSeconds\":\"x\"}",
    "{\"preconditions\":{\"resourceVersion\":\"1\"}}",
    "{\"preconditions\":{\"uid\":1}}",
    "{\"orphanDependents\":true,\"propagationPolicy\":\"Orphan\"}",
    "{\"dryRun\":[\"All\"]}",
    "{\"dryRun\":[\"Odd\"]}",
    "{\"unknown\":1}",
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}",
    "{\"kind\":\"Odd\",\"apiVersion\":\"example.com/v1\"}",
    "k8s\u{0}nonsense",
];

/// Path suffixes of an object that may or may not exist.
const SUFFIXES: &[&str] = &[
    "/status",
    "/scale",
    "/log",
    "/exec",
    "/eviction",
    "/binding",
    "/token",
    "/finalize",
    "/approval",
    "/ephemeralcontainers",
    "/resize",
    "/odd",
    "/status/odd",
    "/",
    "//",
];

/// The resources of which there are objects to list.
const RESOURCES: &[&str] = &["configmaps", "secrets", "services", "serviceaccounts"];

/// A list or get of objects that the setup creates, which nothing changes.
pub(super) fn read(namespace: &str, id: &str, rng: &mut StdRng) -> Case {
    let namespace = format!("{namespace}-read");
    let resource = RESOURCES.choose(rng).copied().unwrap_or_default();
    let collection = format!("/api/v1/namespaces/{namespace}/{resource}");
    let path = match rng.random_range(0..10) {
        0..7 => collection.clone(),
        7 => format!("{collection}/first"),
        8 => format!("{collection}/absent"),
        _ => format!("/api/v1/watch/namespaces/{namespace}/{resource}/absent?resourceVersion=x&"),
    };
    let mut query = vec![QUERIES.choose(rng).copied().unwrap_or_default()];
    while rng.random_bool(0.3) {
        query.push(QUERIES.choose(rng).copied().unwrap_or_default());
    }
    let query = with_an_end(query);
    let separator = if path.contains('?') { "" } else { "?" };
    let path = format!("{path}{separator}{}", query.join("&"));
    let step = match rng.random_bool(0.4) {
        true => get_as(&path, ACCEPTS.choose(rng).copied().unwrap_or_default()),
        false => get(&path),
    };
    let mut case = case("read", resource, id, vec![step]);
    case.setup = objects(&namespace);
    case
}

/// A request of any method, path, media type and body. It changes nothing that exists.
pub(super) fn request(entry: &Entry, id: &str, rng: &mut StdRng) -> Case {
    let method = METHODS.choose(rng).copied().unwrap_or_default();
    let object = format!("{}/absent-{id}", entry.at);
    let path = match rng.random_range(0..10) {
        // A DELETE of the collection would delete the objects of other cases.
        0..3 if method != "DELETE" => entry.at.clone(),
        0..7 => object,
        7 => entry.at.replacen("/v1", "/v9", 1),
        8 => entry.at.replacen("/api", "/odd", 1) + "/x",
        _ => format!("{object}{}", SUFFIXES.choose(rng).copied().unwrap_or_default()),
    };
    let query = match rng.random_bool(0.3) {
        true => format!("?dryRun=All&{}", without_watch(rng)),
        false => "?dryRun=All".to_owned(),
    };
    let path = format!("{path}{query}");
    let mut step = match rng.random_bool(0.6) {
        true => {
            let media = MEDIA.choose(rng).copied().unwrap_or_default();
            send(
                method,
                &path,
                media,
                BODIES.choose(rng).copied().unwrap_or_default(),
            )
        }
        false => Step {
            method: method.to_owned(),
            ..get(&path)
        },
    };
    if rng.random_bool(0.3) {
        let accept = ACCEPTS.choose(rng).copied().unwrap_or_default();
        step.headers.insert("Accept".to_owned(), json!(accept));
    }
    // A list of other cases' objects is not compared.
    step.status_only = method == "GET" && path.starts_with(&format!("{}?", entry.at));
    let mut case = case("request", &entry.id, id, vec![step]);
    case.setup = steps::namespace(&entry.at);
    case
}

/// A parameter that begins no watch, which would have no end.
fn without_watch(rng: &mut StdRng) -> &'static str {
    let query = QUERIES.choose(rng).copied().unwrap_or_default();
    if query.contains("watch=") {
        "limit=1"
    } else {
        query
    }
}

/// The parameters without the one that gives a watch no end: of a repeated parameter, the first counts.
fn with_an_end(mut query: Vec<&'static str>) -> Vec<&'static str> {
    if query.iter().any(|part| part.contains("watch=true")) {
        query.retain(|part| *part != "timeoutSeconds=0");
    }
    query
}

fn objects(namespace: &str) -> Vec<Step> {
    let base = format!("/api/v1/namespaces/{namespace}");
    let mut steps = steps::namespace(&format!("{base}/configmaps"));
    for (name, colour, size) in [
        ("first", "blue", "0"),
        ("second", "red", "1"),
        ("third", "green", "2"),
    ] {
        let metadata = json!({"name": name, "labels": {"colour": colour, "size": size}});
        let object = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
        let mut service = object("Service");
        service["spec"] = json!({"clusterIP": "None", "selector": {"app": name}});
        let created = [
            post(&format!("{base}/configmaps"), &object("ConfigMap")),
            post(&format!("{base}/secrets"), &object("Secret")),
            post(&format!("{base}/serviceaccounts"), &object("ServiceAccount")),
            post(&format!("{base}/services"), &service),
        ];
        steps.extend(created.into_iter().map(|step| Step { once: true, ..step }));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_has_an_end() {
        let watch = "timeoutSeconds=1&watch=true&resourceVersion=x";
        assert_eq!(with_an_end(vec!["timeoutSeconds=0", watch]), [watch]);
        assert_eq!(with_an_end(vec!["timeoutSeconds=0", "limit=1"]).len(), 2);
    }
}
