//! The audit log of a real process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::fs;
use std::sync::Arc;

use cluster::Cluster;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::Value;
use setpoint_api::options::{ListOptions, WatchOptions};

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: None
  userGroups: [system:authenticated]
  nonResourceURLs: ['*']
- level: Metadata
  resources: [{group: '', resources: [secrets]}]
- level: RequestResponse
  verbs: [create]
  resources: [{group: '', resources: [configmaps]}]
- level: Metadata
  verbs: [watch]
  resources: [{group: '', resources: [configmaps]}]
- level: None
";

/// The audit events, one per line.
fn parse_events(log: &str) -> Vec<Value> {
    log.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn requests_are_logged_as_the_policy_specifies() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let (policy, log) = (dir.path().join("policy.yaml"), dir.path().join("audit.log"));
    fs::write(&policy, POLICY).unwrap();
    let flags = [
        "--memory",
        "--controllers",
        "none",
        "--nodes",
        "0",
        "--audit-policy-file",
        policy.to_str().unwrap(),
        "--audit-log-path",
        log.to_str().unwrap(),
    ];
    let cluster = Cluster::start(&dir, &flags);
    let maps = cluster.client().namespaced::<ConfigMap>("default");
    let mut map = ConfigMap::default();
    map.metadata.generate_name = Some("audited-".to_owned());
    let created = maps.create(&map).await.unwrap();
    let watch = maps.watch(&WatchOptions::default()).await.unwrap();
    maps.list(&ListOptions::default()).await.unwrap();
    let secrets = cluster.anonymous().namespaced::<Secret>("default");
    secrets.list(&ListOptions::default()).await.unwrap_err();
    drop(watch);
    assert!(cluster.terminate());

    let lines = parse_events(&fs::read_to_string(log).unwrap());
    let of = |verb: &str, resource: &str, stage: &str| {
        let found = lines.iter().filter(|line| {
            line["verb"] == verb && line["objectRef"]["resource"] == resource && line["stage"] == stage
        });
        let found: Vec<&Value> = found.collect();
        assert_eq!(found.len(), 1, "{verb} {resource} {stage} in {lines:?}");
        found[0].clone()
    };
    let create = of("create", "configmaps", "ResponseComplete");
    assert_eq!(create["objectRef"]["name"], created.key().name());
    assert_eq!(create["responseStatus"]["code"], 201);
    assert_eq!(create["requestObject"]["metadata"]["generateName"], "audited-");
    assert_eq!(create["responseObject"]["metadata"]["name"], created.key().name());
    assert_eq!(create["responseObject"]["metadata"].get("managedFields"), None);
    assert_eq!(create["user"]["username"], "kubernetes-admin");
    assert_eq!(create["sourceIPs"][0], "127.0.0.1");
    assert_eq!(create["annotations"]["authorization.k8s.io/decision"], "allow");
    of("watch", "configmaps", "ResponseStarted");
    of("watch", "configmaps", "ResponseComplete");
    let forbidden = of("list", "secrets", "ResponseComplete");
    assert_eq!(forbidden["user"]["username"], "system:anonymous");
    assert_eq!(forbidden["responseStatus"]["code"], 403);
    assert_eq!(forbidden["responseStatus"]["reason"], "Forbidden");
    assert!(
        !lines
            .iter()
            .any(|line| line["verb"] == "list" && line["objectRef"]["resource"] == "configmaps")
    );
}
