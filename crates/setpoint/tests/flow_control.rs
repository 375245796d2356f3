//! API priority and fairness of a real process: the cases of Kubernetes' `test/e2e/apimachinery/flowcontrol.go`, and
//! the isolation of flows and levels under load.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::sync::Arc;

use cluster::Cluster;
use serde_json::{Value, json};
use setpoint_conformance::wire::{Caller, Connection, Endpoint, Request, Response};

const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const FLAGS: [&str; 5] = ["--memory", "--controllers", "none", "--nodes", "0"];
/// A change is in force after a few milliseconds; this many requests take longer.
const MAX_TRIES: usize = 5000;

/// A process, and a connection of its administrator.
struct Fixture {
    _cluster: Cluster,
    endpoint: Endpoint,
    connection: Connection,
}

impl Fixture {
    fn new(flags: &[&str]) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let cluster = Cluster::start(&dir, &[&FLAGS, flags].concat());
        let endpoint = Endpoint::new(&cluster.connection()).unwrap();
        let connection = endpoint.connect(&Caller::Owner).unwrap();
        Self {
            _cluster: cluster,
            endpoint,
            connection,
        }
    }

    fn send(&mut self, request: &Request) -> Response {
        self.connection.round_trip(request).unwrap()
    }

    #[track_caller]
    fn create(&mut self, path: &str, object: &Value) -> Value {
        let request = Request::new("POST", path).body("application/json", object.to_string());
        let response = self.send(&request);
        assert_eq!(response.status, 201, "{}", response.text());
        response.json().unwrap()
    }

    /// Creates a level that rejects what is over its limit, with one share. Returns its UID.
    fn create_level(&mut self, name: &str) -> String {
        let limited = json!({"nominalConcurrencyShares": 1, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}});
        let level = json!({"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}});
        uid(&self.create(LEVELS, &level))
    }

    /// Creates a FlowSchema for one user. Returns its UID.
    fn create_schema(&mut self, name: &str, level: &str, user: &str) -> String {
        let all = json!(["*"]);
        let rule = json!({
            "subjects": [{"kind": "User", "user": {"name": user}}],
            "resourceRules": [{
                "verbs": all, "apiGroups": all, "resources": all, "namespaces": all, "clusterScope": true,
            }],
            "nonResourceRules": [{"verbs": all, "nonResourceURLs": all}],
        });
        let spec = json!({
            "matchingPrecedence": 1000,
            "priorityLevelConfiguration": {"name": level},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [rule],
        });
        uid(&self.create(SCHEMAS, &json!({"metadata": {"name": name}, "spec": spec})))
    }

    /// Sends requests of a user until the response is as expected.
    #[track_caller]
    fn until(&mut self, user: &str, is_expected: impl Fn(&Response) -> bool) -> Response {
        let request = as_user(user, "/version");
        for _ in 0..MAX_TRIES {
            let response = self.send(&request);
            if is_expected(&response) {
                return response;
            }
        }
        panic!("not in force after {MAX_TRIES} requests");
    }

    fn metric(&mut self, name: &str, label: &str) -> Option<String> {
        let page = self.send(&Request::new("GET", "/metrics")).text();
        let line = page
            .lines()
            .find(|line| line.starts_with(name) && line.contains(label))?;
        line.rsplit(' ').next().map(str::to_owned)
    }
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn as_user(user: &str, path: &str) -> Request {
    Request::new("GET", path)
        .header("Impersonate-User", user)
        .header("Impersonate-Group", "system:authenticated")
}

fn uids(response: &Response) -> (&str, &str) {
    let header = |name| response.header(name).unwrap_or_default();
    (
        header("X-Kubernetes-PF-FlowSchema-UID"),
        header("X-Kubernetes-PF-PriorityLevel-UID"),
    )
}

#[tokio::test]
async fn a_created_flow_schema_classifies_requests() {
    let mut fixture = Fixture::new(&[]);
    let level = fixture.create_level("e2e-testing-prioritylevel");
    let schema = fixture.create_schema("e2e-testing-flowschema", "e2e-testing-prioritylevel", "noxu");
    fixture.until("noxu", |response| uids(response) == (&schema, &level));
    let other = fixture.until("foo", |response| response.status == 200);
    let (other_schema, other_level) = uids(&other);
    assert!(!other_schema.is_empty() && !other_level.is_empty());
    assert_ne!((other_schema, other_level), (schema.as_str(), level.as_str()));
    let nominal = "apiserver_flowcontrol_nominal_limit_seats";
    let seats = fixture.metric(nominal, r#"priority_level="e2e-testing-prioritylevel""#);
    // One share of 246: 600 / 246, rounded up.
    assert_eq!(seats.as_deref(), Some("3"));
    let dump = fixture.send(&Request::new(
        "GET",
        "/debug/api_priority_and_fairness/dump_priority_levels",
    ));
    assert!(dump.text().starts_with("PriorityLevelName,"), "{}", dump.text());
    assert!(
        dump.text().contains("e2e-testing-prioritylevel, 0,"),
        "{}",
        dump.text()
    );
}

#[tokio::test]
async fn a_deleted_flow_schema_is_no_longer_in_force() {
    let mut fixture = Fixture::new(&[]);
    let level = fixture.create_level("mine");
    let schema = fixture.create_schema("mine", "mine", "noxu");
    fixture.until("noxu", |response| uids(response) == (&schema, &level));
    let deleted = fixture.send(&Request::new("DELETE", &format!("{SCHEMAS}/mine")));
    assert_eq!(deleted.status, 200);
    fixture.until("noxu", |response| {
        !uids(response).0.is_empty() && uids(response).0 != schema
    });
    let deleted = fixture.send(&Request::new("DELETE", &format!("{LEVELS}/mine")));
    assert_eq!(deleted.status, 200);
    let nominal = "apiserver_flowcontrol_nominal_limit_seats";
    let is_gone = (0..MAX_TRIES).any(|_| fixture.metric(nominal, r#"priority_level="mine""#).is_none());
    assert!(is_gone);
}

#[tokio::test]
async fn requests_that_occupy_a_level_do_not_affect_another() {
    let mut fixture = Fixture::new(&[
        "--max-requests-inflight",
        "20",
        "--max-mutating-requests-inflight",
        "10",
    ]);
    let level = fixture.create_level("elephants");
    let schema = fixture.create_schema("elephants", "elephants", "elephant");
    fixture.until("elephant", |response| uids(response) == (&schema, &level));
    // One share of thirty seats is one seat: a request whose body never comes occupies it.
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nImpersonate-User: elephant\r\nImpersonate-Group: system:authenticated\r\n\
         Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{",
        fixture.endpoint.host()
    );
    let mut slow = fixture.endpoint.connect(&Caller::Owner).unwrap();
    slow.send(head.as_bytes()).unwrap();
    let dump = Request::new("GET", "/debug/api_priority_and_fairness/dump_requests");
    let is_executing = (0..MAX_TRIES).any(|_| fixture.send(&dump).text().contains("elephants,"));
    assert!(is_executing);
    let rejected = fixture.until("elephant", |response| response.status == 429);
    assert_eq!(rejected.header("Retry-After"), Some("1"));
    assert_eq!(uids(&rejected), (schema.as_str(), level.as_str()));
    assert_eq!(rejected.text(), "Too many requests, please try again later.\n");
    let mouse = fixture.send(&as_user("mouse", "/version"));
    assert_eq!(mouse.status, 200, "{}", mouse.text());
    drop(slow);
    fixture.until("elephant", |response| response.status == 200);
}

#[tokio::test]
async fn without_priority_and_fairness_the_limits_apply() {
    let mut fixture = Fixture::new(&[
        "--enable-priority-and-fairness=false",
        "--max-mutating-requests-inflight",
        "1",
    ]);
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let post = |length: usize| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nImpersonate-User: noxu\r\nImpersonate-Group: system:authenticated\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{{",
            fixture.endpoint.host()
        )
    };
    let send = |length: usize| {
        let mut connection = fixture.endpoint.connect(&Caller::Owner).unwrap();
        connection.send(post(length).as_bytes()).unwrap();
        connection
    };
    // A slow request that comes while another one executes is rejected itself; then the next one occupies the limit.
    let mut slow = Vec::new();
    let rejected = (0..MAX_TRIES).find_map(|_| {
        slow.push(send(1000));
        let response = send(1).receive("POST").unwrap();
        (response.status == 429).then_some(response)
    });
    let rejected = rejected.unwrap();
    assert_eq!(rejected.header("Retry-After"), Some("1"));
    assert_eq!(uids(&rejected), ("", ""));
    let read = fixture.send(&as_user("noxu", "/version"));
    assert_eq!(read.status, 200, "{}", read.text());
}
