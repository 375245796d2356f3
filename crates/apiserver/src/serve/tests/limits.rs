//! The limits of requests: time for the body, memory of the process.

use setpoint_api::User;
use setpoint_auth::MaybeFuture;
use setpoint_auth::authorize::{Attributes, Decision};

use super::*;

/// Allows every request of every user.
struct AllowAll;

impl setpoint_auth::Authorize for AllowAll {
    fn authorize<'a>(&'a self, _: &'a User, _: &'a Attributes<'a>) -> MaybeFuture<'a, Decision> {
        MaybeFuture::Ready(Decision::Allowed("".into()))
    }
}

/// A server that may use no memory at all.
async fn server_without_memory() -> TestServer {
    let authority = TestCa::new();
    let config = Config {
        authorize: Box::new(AllowAll),
        max_memory: 1,
        ..config(&authority)
    };
    start(authority, config).await
}

impl TestServer {
    /// Sends a request as a user without groups.
    async fn send_as_alice(&self, request: &str) -> String {
        let alice = self.authority.sign("alice", "devs");
        self.send_as(Some(alice), request).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_never_arrives_times_out() {
    let server = test_server().await;
    let mut connection = server.connect();
    let head = "POST /api/v1/namespaces/a/configmaps?timeout=20ms HTTP/1.1\r\nHost: localhost\r\n\
                Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{";
    connection.send(head.as_bytes()).unwrap();
    let response = connection.receive("POST").unwrap().to_text();
    let message = "Timeout: request did not complete within the allotted timeout";
    check(&response, 504, &["\"reason\":\"Timeout\"", message]);
}

#[tokio::test]
async fn expensive_requests_are_rejected_above_the_memory_limit() {
    let server = server_without_memory().await;
    let large = format!("{{\"data\":{{\"k\":\"{}\"}}}}", "x".repeat(100_000));
    let json = "Content-Type: application/json";
    for request in [
        "GET /api/v1/configmaps HTTP/1.1".to_owned(),
        "GET /api/v1/configmaps?watch=true HTTP/1.1".to_owned(),
        format!("POST /api/v1/namespaces/a/configmaps HTTP/1.1\n{json}\n\n{large}"),
        "PATCH /api/v1/namespaces/a/configmaps/m?fieldManager=f HTTP/1.1\nContent-Type: application/apply-patch+yaml\n\n{}"
            .to_owned(),
    ] {
        let response = server.send_as_alice(&request).await;
        let message = "the server uses more memory than its limit, please try again later";
        check(&response, 429, &["retry-after: 5\r\n", "TooManyRequests", message]);
    }
}

#[tokio::test]
async fn cheap_requests_and_those_of_administrators_are_served_above_the_memory_limit() {
    let server = server_without_memory().await;
    for request in [
        "GET /livez HTTP/1.1",
        "GET /api/v1/namespaces/a/configmaps/m HTTP/1.1",
        "GET /api/v1/configmaps?limit=5 HTTP/1.1",
        "GET /apis/coordination.k8s.io/v1/leases HTTP/1.1",
    ] {
        check(&server.send_as_alice(request).await, 200, &[]);
    }
    check(&server.send("GET /api/v1/configmaps HTTP/1.1").await, 200, &[]);
    let metrics = server.send("GET /metrics HTTP/1.1").await;
    check(
        &metrics,
        200,
        &[
            "setpoint_memory_limit_bytes 1\n",
            "setpoint_request_body_bytes_in_flight 0\n",
        ],
    );
}
