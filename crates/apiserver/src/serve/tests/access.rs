//! Requests whose headers decide about access, on a real connection.

use setpoint_auth::audit::Policy;
use setpoint_auth::audit::log::to_stream;
use setpoint_client::Http;
use tokio::io::AsyncReadExt as _;

use super::*;

#[tokio::test]
async fn a_user_whose_name_is_not_ascii_is_impersonated() {
    let server = test_server().await;
    let response = server
        .send("GET /api/v1/configmaps HTTP/1.1\nImpersonate-User: j\u{fc}rgen")
        .await;
    check(&response, 403, &["User \\\"j\u{fc}rgen\\\" cannot list resource"]);
    let response = server
        .send("GET /api/v1/configmaps HTTP/1.1\nImpersonate-User:  ")
        .await;
    check(&response, 400, &["without impersonating a user name"]);
}

/// The default limit of HTTP/2 implementations is 16 KiB.
#[tokio::test]
async fn a_long_selector_is_accepted_over_http2() {
    let server = test_server().await;
    let admin = server.authority.sign("admin", "system:masters");
    let client = Http::new(&server.connection(Some(admin))).unwrap();
    let values = vec!["value"; 10_000].join(",");
    let path = format!("/api/v1/configmaps?labelSelector=a+in+({values})");
    assert!(path.len() > 48 << 10);
    client.get(&path).await.unwrap();
}

#[tokio::test]
async fn an_invalid_timeout_is_audited() {
    let (mut reader, out) = tokio::io::duplex(1 << 16);
    let (log, writer) = to_stream(out);
    let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}";
    let policy = Policy::parse(policy).unwrap();
    let authority = TestCa::new();
    let config = Config {
        audit: Some(Audit { policy, log }),
        ..config(&authority)
    };
    let mut server = start(authority, config).await;
    let response = server
        .send("GET /api/v1/configmaps?timeout=soon HTTP/1.1\nUser-Agent: b\u{fc}rste")
        .await;
    let message = "invalid timeout specified in the request URL - time: invalid duration";
    check(&response, 400, &[message]);
    server.stop.cancel();
    server.running.join_next().await.unwrap().unwrap().unwrap();
    writer.run(server.stop.clone()).await;
    let mut lines = String::new();
    reader.read_to_string(&mut lines).await.unwrap();
    let [line] = lines.lines().collect::<Vec<_>>()[..] else {
        panic!("not one event: {lines}");
    };
    let event: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(event["stage"], "ResponseStarted");
    assert_eq!(event["requestURI"], "/api/v1/configmaps?timeout=soon");
    assert_eq!(event["userAgent"], "b\u{fc}rste");
    assert_eq!(event["responseStatus"]["code"], 400);
    let logged = event["responseStatus"]["message"].as_str().unwrap();
    assert!(logged.starts_with(message), "{logged}");
}
