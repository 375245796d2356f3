//! Options of lists and watches, and paths that do not exist.

use serde_json::json;

use super::steps::{METADATA, TABLE, get, get_as, namespace, post, send};
use crate::transcript::{Case, Step};

/// Queries of lists, valid and invalid.
const LISTS: &[&str] = &[
    "",
    "limit=2",
    "limit=0",
    "limit=-1",
    "limit=x",
    "limit=2&continue=nonsense",
    "continue=",
    "resourceVersion=0",
    "resourceVersion=0&limit=1",
    "resourceVersion=1",
    "resourceVersion=x",
    "resourceVersion=-1",
    "resourceVersion=999999999",
    "resourceVersion=0&resourceVersionMatch=Exact",
    "resourceVersion=0&resourceVersionMatch=NotOlderThan",
    "resourceVersionMatch=Exact",
    "resourceVersionMatch=NotOlderThan",
    "resourceVersion=0&resourceVersionMatch=Bogus",
    "labelSelector=part%3Da",
    "labelSelector=part!%3Da",
    "labelSelector=part",
    "labelSelector=!part",
    "labelSelector=part%20in%20(a,b)",
    "labelSelector=part%20notin%20(a)",
    "labelSelector=rank%3E1",
    "labelSelector=rank%3Cx",
    "labelSelector=part%20in%20()",
    "labelSelector=a%3Db%3Dc",
    "labelSelector=%2Fbad",
    "fieldSelector=metadata.name%3Done",
    "fieldSelector=metadata.name!%3Done",
    "fieldSelector=metadata.namespace%3Ddefault",
    "fieldSelector=metadata.uid%3D1",
    "fieldSelector=nonsense",
    "pretty=1",
    "bogus=1",
    "timeoutSeconds=x",
    "sendInitialEvents=true",
];

/// Queries of watches; each has a timeout.
const WATCHES: &[&str] = &[
    "watch=true&timeoutSeconds=1&resourceVersion=0",
    "watch=1&timeoutSeconds=1&labelSelector=part%3Da",
    "watch=true&timeoutSeconds=1&resourceVersion=999999999",
    "watch=true&timeoutSeconds=1&resourceVersion=x",
    "watch=true&timeoutSeconds=1&sendInitialEvents=true",
    "watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    "watch=true&timeoutSeconds=1&resourceVersionMatch=Exact",
    "watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Done",
    "watch=bogus&timeoutSeconds=1",
];

const PATHS: &[(&str, &str)] = &[
    ("GET", "/"),
    ("GET", "/api"),
    ("GET", "/apis"),
    ("GET", "/api/v1"),
    ("GET", "/api/v2"),
    ("GET", "/apis/apps"),
    ("GET", "/apis/apps/v1"),
    ("GET", "/apis/apps/v9"),
    ("GET", "/apis/nobody.example.com/v1/things"),
    ("GET", "/api/v1/bogus"),
    ("GET", "/api/v1/namespaces/absent/configmaps"),
    ("GET", "/api/v1/namespaces/absent/configmaps/x"),
    ("GET", "/api/v1/namespaces//configmaps"),
    ("GET", "/api/v1/configmaps/x"),
    ("GET", "/api/v1/nodes/absent"),
    ("GET", "/healthz"),
    ("GET", "/livez"),
    ("GET", "/readyz"),
    ("GET", "/version"),
    ("GET", "/bogus"),
    ("GET", "/openapi/bogus"),
    ("POST", "/version"),
    ("POST", "/api/v1/configmaps"),
    ("PUT", "/api/v1/namespaces/default/configmaps"),
    ("PATCH", "/api/v1/namespaces/default/configmaps"),
    ("BOGUS", "/api/v1/configmaps"),
    ("OPTIONS", "/api/v1/configmaps"),
    ("DELETE", "/api/v1/configmaps"),
    ("DELETE", "/api/v1/namespaces/default/configmaps/absent"),
    ("HEAD", "/api/v1/namespaces/default"),
];

pub(super) fn cases(space: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let at = format!("/api/v1/namespaces/{space}-lists/configmaps");
    for (number, query) in LISTS.iter().enumerate() {
        cases.push(case(
            &format!("list.{number:02}"),
            setup(&at),
            vec![get(&format!("{at}?{query}"))],
        ));
    }
    for (number, query) in WATCHES.iter().enumerate() {
        cases.push(case(
            &format!("watch.{number:02}"),
            setup(&at),
            vec![get(&format!("{at}?{query}"))],
        ));
    }
    for (number, (method, path)) in PATHS.iter().enumerate() {
        let step = Step {
            method: method.to_string(),
            ..get(path)
        };
        cases.push(case(&format!("path.{number:02}"), Vec::new(), vec![step]));
    }
    cases.push(case("pages", setup(&at), pages(&at)));
    cases.push(case("forms", setup(&at), forms(&at)));
    cases
}

fn case(name: &str, setup: Vec<Step>, steps: Vec<Step>) -> Case {
    Case {
        id: format!("lists.{name}"),
        area: "lists".to_owned(),
        setup,
        steps,
        cleanup: Vec::new(),
    }
}

/// Creates three labelled objects, once.
fn setup(at: &str) -> Vec<Step> {
    let mut steps = namespace(at);
    for (name, part, rank) in [("one", "a", "1"), ("three", "b", "3"), ("two", "a", "2")] {
        let labels = json!({"part": part, "rank": rank});
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}});
        steps.push(Step {
            once: true,
            ..post(at, &object)
        });
    }
    steps
}

fn pages(at: &str) -> Vec<Step> {
    vec![
        get(&format!("{at}?limit=1")),
        get(&format!("{at}?limit=1&continue={{{{steps.0.continue}}}}")),
        get(&format!("{at}?limit=9&continue={{{{steps.1.continue}}}}")),
        get(&format!(
            "{at}?limit=1&resourceVersion=5&continue={{{{steps.1.continue}}}}"
        )),
        get(&format!(
            "{at}?resourceVersion={{{{steps.0.rv}}}}&resourceVersionMatch=Exact"
        )),
    ]
}

fn forms(at: &str) -> Vec<Step> {
    let list = METADATA.replace("PartialObjectMetadata", "PartialObjectMetadataList");
    vec![
        get_as(at, TABLE),
        get_as(&format!("{at}?includeObject=None"), TABLE),
        get_as(&format!("{at}?includeObject=Object"), TABLE),
        get_as(&format!("{at}?includeObject=Bogus"), TABLE),
        get_as(at, &list),
        get_as(at, "application/json;as=Bogus;g=meta.k8s.io;v=v1"),
        get_as(at, "application/vnd.kubernetes.protobuf"),
        get_as(at, "text/html"),
        get_as(at, "*/*"),
        send(
            "DELETE",
            &format!("{at}?dryRun=All&labelSelector=part%3Db"),
            "application/json",
            "{}",
        ),
    ]
}
