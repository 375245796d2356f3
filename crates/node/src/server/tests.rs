//! The API over a connection inside the process, on a runtime with one pod.

#![allow(clippy::disallowed_methods, reason = "the peer of a test ends with the test")]

mod pod_runtime;

use std::sync::Arc;

use pod_runtime::{PodRuntime, TestAgent};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::{Access, Server, serve};

/// A connection to node `n`, which runs pod `web` with container `c`.
fn connect() -> DuplexStream {
    let (client, stream) = tokio::io::duplex(1 << 16);
    let agent = Arc::new(TestAgent {
        runtime: PodRuntime,
        clock: Arc::new(setpoint_api::SystemClock::new()),
    });
    let server = Server {
        agent,
        node: "n".to_owned(),
    };
    tokio::spawn(serve(server, Access::ApiServer, stream));
    client
}

/// The status and the body of the response to a request.
async fn send(method: &str, path: &str) -> (u16, String) {
    let mut connection = connect();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: n\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head[9..12].parse().unwrap();
    match head.contains("transfer-encoding: chunked") {
        true => (status, unchunk(body)),
        false => (status, body.to_owned()),
    }
}

fn unchunk(body: &str) -> String {
    let (mut rest, mut text) = (body, String::new());
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        text.push_str(&after[..length]);
        rest = after[length..].strip_prefix("\r\n").unwrap_or_default();
    }
    text
}

#[track_caller]
fn check(request: &str, expected: (u16, &str)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (method, path) = request.split_once(' ').unwrap();
    let (status, body) = runtime.block_on(send(method, path));
    assert_eq!((status, body.as_str()), expected, "{request}");
}

#[test]
fn logs_are_sent_by_the_options_of_the_query() {
    check("GET /containerLogs/default/web/c", (200, "one\ntwo\n"));
    check("GET /containerLogs/default/web/c?tailLines=1", (200, "two\n"));
    check("GET /containerLogs/default/web/c?limitBytes=2", (200, "on"));
    check(
        "GET /containerLogs/default/web/c?timestamps=true&tail=1",
        (200, "2026-01-01T00:00:00.000000000Z two\n"),
    );
    check(
        "GET /containerLogs/default/web/c?sinceTime=2026-01-02T00%3A00%3A00Z",
        (200, ""),
    );
}

#[test]
fn logs_that_do_not_exist_have_the_kubelets_errors() {
    let check_log = |path: &str, expected| check(&format!("GET /containerLogs/{path}"), expected);
    check_log("default/other/c", (404, "pod \"other\" does not exist"));
    check_log("default/web/x", (404, "container \"x\" not found in pod \"web\""));
    let previous = "previous terminated container \"c\" in pod \"web\" not found";
    check_log("default/web/c?previous=true", (400, previous));
    let waiting = "container \"later\" in pod \"web\" is waiting to start: ContainerCreating";
    check_log("default/web/later", (400, waiting));
    check_log(
        "default/web/c?tailLines=x",
        (400, "{\"message\": \"Unable to decode query.\"}"),
    );
    check_log(
        "default/web/c?tailLines=-1",
        (422, "{\"message\": \"Invalid request.\"}"),
    );
    check("POST /containerLogs/default/web/c", (405, "Method Not Allowed"));
}

#[test]
fn streams_that_cannot_be_opened_are_errors() {
    let none = "you must specify at least 1 of stdin, stdout, stderr";
    check("POST /exec/default/web/c?command=ls", (400, none));
    check("POST /exec/default/other/c?output=1", (404, "pod does not exist"));
    check(
        "POST /exec/default/web/wrong-uid/c?output=1",
        (404, "pod does not exist"),
    );
    check(
        "POST /exec/default/web/later?output=1",
        (500, "container not found (\"later\")"),
    );
    check(
        "POST /attach/default/web/later?output=1",
        (500, "container later not found in pod web_default"),
    );
    check(
        "POST /exec/default/web/c?output=1",
        (400, "Upgrade request required"),
    );
    check("POST /portForward/default/web", (400, "Upgrade request required"));
    check("POST /portForward/default/other", (404, "pod does not exist"));
    check("PUT /exec/default/web/c?output=1", (405, "Method Not Allowed"));
}

#[test]
fn a_container_id_in_the_status_does_not_lead_to_another_pods_container() {
    let absent = (500, "container not found (\"c\")");
    check("POST /run/team/forged/c?cmd=echo+hi", absent);
    check("POST /exec/team/forged/c?output=1", absent);
    let log = "unable to retrieve container logs for c1: container not found";
    check("GET /containerLogs/team/forged/c", (400, log));
    check(
        "POST /portForward/team/forged",
        (500, "pod not found (\"forged_team\")"),
    );
}

#[test]
fn other_paths_return_the_nodes_state() {
    check("GET /healthz", (200, "ok"));
    check("POST /run/default/web/c?cmd=echo+hi", (200, "echo hi"));
    check("GET /run/default/web/c?cmd=echo+hi", (405, "Method Not Allowed"));
    check("GET /logs/", (405, "logs endpoint is disabled.\n"));
    check("GET /nothing", (404, "404 page not found\n"));
    check("GET /configz", (200, "{\"kubeletconfig\":{}}"));
}

#[tokio::test]
async fn pods_and_usage_are_listed() {
    let parse = |(status, body): (u16, String)| -> Value {
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    };
    let pods = parse(send("GET", "/pods").await);
    assert_eq!(pods["items"][0]["metadata"]["name"], "web");
    let running = parse(send("GET", "/runningpods/").await);
    assert_eq!(running["items"][0]["spec"]["containers"][0]["name"], "c");
    let summary = parse(send("GET", "/stats/summary").await);
    assert_eq!(
        summary["pods"][0]["podRef"],
        json!({"name": "web", "namespace": "default", "uid": "u"})
    );
    assert_eq!(
        summary["pods"][0]["containers"][0]["cpu"]["usageCoreNanoSeconds"],
        2_500_000_000_u64
    );
    let (_, metrics) = send("GET", "/metrics/resource").await;
    let cpu = "container_cpu_usage_seconds_total{container=\"c\",namespace=\"default\",pod=\"web\"} 2.5 1767225600000";
    assert!(metrics.contains(cpu), "{metrics}");
    let (_, metrics) = send("GET", "/metrics").await;
    assert!(metrics.contains("kubelet_running_pods 1\n"), "{metrics}");
}

/// FL6
#[tokio::test]
async fn an_exec_over_a_websocket_runs_in_the_container() {
    let mut connection = connect();
    let request = "GET /exec/default/web/c?command=echo&command=a%20b&output=1 HTTP/1.1\r\nHost: n\r\n\
        Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\
        Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n";
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    connection.read_to_end(&mut response).await.unwrap();
    let response = String::from_utf8_lossy(&response);
    let (head, frames) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert!(
        head.contains("sec-websocket-protocol: v5.channel.k8s.io"),
        "{head}"
    );
    assert!(frames.contains("\u{1}echo a b"), "{frames}");
    assert!(frames.contains("\"status\":\"Failure\""), "{frames}");
    assert!(
        frames.contains("error executing command [echo a b], exit code 7"),
        "{frames}"
    );
}
