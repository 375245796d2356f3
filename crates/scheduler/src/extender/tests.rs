//! Rows for extenders that respond with fixed messages.

use std::future::ready;

use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_api::SystemClock;

use super::*;
use crate::fixtures::{node, node_from, pod_from};
use crate::framework::PreemptionCandidate;

/// Responds with one message to every request, and records the requests.
#[derive(Debug)]
struct FixedResponse {
    response: Result<Value, String>,
    requests: Mutex<Vec<(String, Value)>>,
}

impl ExtenderTransport for FixedResponse {
    fn post<'a>(&'a self, verb: &'a str, body: String) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        let body = serde_json::from_str(&body).unwrap();
        self.requests.lock().push((verb.to_owned(), body));
        let response = self.response.clone();
        Box::pin(ready(response.map(|json| json.to_string().into_bytes())))
    }
}

fn extender(config: Value, response: Result<Value, &str>) -> (Extender, Arc<FixedResponse>) {
    let transport = Arc::new(FixedResponse {
        response: response.map_err(str::to_owned),
        requests: Mutex::default(),
    });
    let config = serde_json::from_value(config).unwrap();
    let clock = Arc::new(SystemClock::new());
    (Extender::new(config, transport.clone(), clock), transport)
}

fn candidates(names: &[&str]) -> Vec<Candidate> {
    let candidate = |(index, name): (u32, &&str)| Candidate {
        node: NodeIndex(index),
        name: (*name).into(),
        sequence: 1,
        object: Some(node_from(name, json!({"metadata": {"name": name}}))),
    };
    (0..).zip(names).map(candidate).collect()
}

/// The nodes that are left of a, b and c, then the rejections by node.
#[track_caller]
fn check_filter(config: Value, response: Result<Value, &str>, expected: &str) {
    let (extender, _) = extender(config, response);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let filtered = runtime.block_on(extender.filter(&node("pod", 1), candidates(&["a", "b", "c"])));
    let shown = match filtered {
        Err(error) => format!("error: {error}"),
        Ok(result) => {
            let names: Vec<&str> = result.nodes.iter().map(|one| one.name.as_str()).collect();
            let mut rejected: Vec<String> = result
                .rejected
                .iter()
                .map(|(node, rejection)| format!("{}:{:?}:{rejection}", node.0, rejection.code))
                .collect();
            rejected.sort();
            format!("{} | {}", names.join(" "), rejected.join(" "))
        }
    };
    assert_eq!(shown, expected);
}

#[test]
fn the_nodes_that_the_extender_returns_are_left() {
    let named = json!({"filterVerb": "filter", "nodeCacheCapable": true});
    check_filter(named.clone(), Ok(json!({"NodeNames": ["c", "a"]})), "c a | ");
    let response = json!({"NodeNames": ["a"], "FailedNodes": {"b": "full", "c": "x"}, "FailedAndUnresolvableNodes": {"c": "gone"}});
    check_filter(
        named.clone(),
        Ok(response),
        "a | 1:Unschedulable:full 2:UnschedulableAndUnresolvable:gone",
    );
    let objects = json!({"filterVerb": "filter"});
    let response = json!({"Nodes": {"items": [{"metadata": {"name": "b"}}]}});
    check_filter(objects, Ok(response), "b | ");
    check_filter(json!({}), Err("never called"), "a b c | ");
    check_filter(named.clone(), Ok(json!({"Error": "broken"})), "error: broken");
    check_filter(named.clone(), Err("refused"), "error: refused");
    let unknown =
        "error: extender \"\" claims a filtered node \"z\" which is not found in the input node list";
    check_filter(named, Ok(json!({"NodeNames": ["z"]})), unknown);
}

#[tokio::test]
async fn scores_are_weighted_and_a_failure_adds_none() {
    let config = json!({"prioritizeVerb": "prioritize", "weight": 3, "nodeCacheCapable": true});
    let response = json!([{"Host": "a", "Score": 10}, {"Host": "b", "Score": 1}]);
    let (first, transport) = extender(config.clone(), Ok(response));
    let scores = first.prioritize(&node("pod", 1), &candidates(&["a", "b"])).await;
    assert_eq!((scores["a"], scores["b"]), (300, 30));
    let (verb, request) = transport.requests.lock().remove(0);
    assert_eq!(
        (verb.as_str(), &request["NodeNames"]),
        ("prioritize", &json!(["a", "b"]))
    );
    let (second, _) = extender(config, Err("down"));
    assert!(
        second
            .prioritize(&node("pod", 1), &candidates(&["a"]))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn an_extender_binds_by_name_and_uid() {
    let (extender, transport) = extender(json!({"bindVerb": "bind"}), Ok(json!({})));
    let pod = pod_from(json!({"metadata": {"name": "p"}, "spec": {}}));
    assert_eq!(extender.bind(&pod, "a").await, Ok(()));
    let expected = json!({"PodName": "p", "PodNamespace": "default", "PodUID": "p", "Node": "a"});
    assert_eq!(*transport.requests.lock(), [("bind".to_owned(), expected)]);
}

#[test]
fn an_extender_gets_the_pods_that_request_its_resources() {
    let requesting = |resource: &str| {
        pod_from(json!({"spec": {"containers": [{"resources": {"requests": {resource: "1"}}}]}}))
    };
    let managed = json!({"managedResources": [{"name": "example.com/gpu"}]});
    let (extender, _) = extender(managed, Ok(json!({})));
    assert!(extender.is_interested(&requesting("example.com/gpu")));
    assert!(!extender.is_interested(&requesting("cpu")));
}

/// Two candidates: node a without its pods p and q, node b without r.
fn preemption_candidates() -> Vec<CandidateObjects> {
    let victim = |name: &str| {
        let object = json!({"metadata": {"name": name}, "spec": {}});
        (Arc::new(pod_from(object.clone())), node_from(name, object))
    };
    let candidate = |node: &str, names: &[&str], violations| {
        let (pods, objects) = names.iter().map(|name| victim(name)).unzip();
        CandidateObjects {
            candidate: PreemptionCandidate {
                node: node.into(),
                victims: pods,
                violations,
            },
            victims: objects,
        }
    };
    vec![candidate("a", &["p", "q"], 1), candidate("b", &["r"], 0)]
}

/// The request and what is left of the candidates, or the error.
async fn preempt(config: Value, response: Value) -> (Value, String) {
    let (extender, transport) = extender(config, Ok(response));
    let pod = node_from("pod", json!({"metadata": {"name": "pod"}}));
    let left = extender.process_preemption(&pod, &preemption_candidates()).await;
    let mut cluster = crate::fixtures::cluster("a=1000 b=1000");
    for (name, node) in [("p", "a"), ("q", "a"), ("r", "b")] {
        cluster.set_pod(Arc::new(crate::fixtures::pod(name, node)));
    }
    let left = left.and_then(|left| resolve_victims(&extender, left, &cluster));
    let shown = left.map_or_else(
        |error| format!("error: {error}"),
        |left| {
            let candidate = |one: &PreemptionCandidate| {
                let victims: Vec<&str> = one.victims.iter().map(|pod| pod.uid.as_str()).collect();
                format!("{}: {} ({})", one.node, victims.join(" "), one.violations)
            };
            left.iter().map(candidate).collect::<Vec<_>>().join("; ")
        },
    );
    let (verb, request) = transport.requests.lock().remove(0);
    assert_eq!(verb, "preempt");
    (request, shown)
}

#[tokio::test]
async fn an_extender_leaves_candidates_for_preemption_and_changes_their_victims() {
    let response = json!({"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "q"}], "NumPDBViolations": 1}}});
    let by_uid = json!({"preemptVerb": "preempt", "nodeCacheCapable": true});
    let (request, left) = preempt(by_uid, response.clone()).await;
    let pod = json!({"metadata": {"name": "pod"}});
    assert_eq!(
        request,
        json!({
            "Pod": pod, "NodeNameToVictims": null,
            "NodeNameToMetaVictims": {
                "a": {"Pods": [{"UID": "p"}, {"UID": "q"}], "NumPDBViolations": 1},
                "b": {"Pods": [{"UID": "r"}], "NumPDBViolations": 0},
            },
        })
    );
    assert_eq!(left, "a: q (1)");
    let (request, left) = preempt(json!({"preemptVerb": "preempt"}), response).await;
    let victims = &request["NodeNameToVictims"]["b"]["Pods"];
    assert_eq!(*victims, json!([{"metadata": {"name": "r"}, "spec": {}}]));
    assert_eq!(request["NodeNameToMetaVictims"], Value::Null);
    assert_eq!(left, "a: q (1)");
}

#[tokio::test]
async fn a_response_to_preemption_must_be_possible() {
    let config = json!({"preemptVerb": "preempt", "urlPrefix": "http://x"});
    let cases = [
        (json!({}), ""),
        (
            json!({"a": {"Pods": []}}),
            "error: expected at least one victim pod on node \"a\"",
        ),
        (
            json!({"z": {"Pods": [{"UID": "p"}]}}),
            "error: nodeinfo not found for node name \"z\"",
        ),
        (
            json!({"b": {"Pods": [{"UID": "p"}]}}),
            "error: extender: http://x claims to preempt pod (UID: &{p}) on node: b, but the pod is not found on that node",
        ),
    ];
    for (victims, expected) in cases {
        let (_, left) = preempt(config.clone(), json!({"NodeNameToMetaVictims": victims})).await;
        assert_eq!(left, expected);
    }
    let ignorable = json!({"preemptVerb": "preempt", "ignorable": true});
    let response = json!({"NodeNameToMetaVictims": {"a": null, "b": {"Pods": [{"UID": "r"}]}}});
    let (_, left) = preempt(ignorable, response).await;
    assert_eq!(left, "b: r (0)");
}
