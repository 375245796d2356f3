//! Requests whose headers decide about access, on a real connection.

use hyper_util::rt::TokioExecutor;
use setpoint_auth::audit::Policy;
use setpoint_auth::audit::log::to_stream;
use setpoint_client::Http;
use tokio::io::AsyncReadExt as _;
use tokio_rustls::TlsConnector;

use super::*;
use crate::filters::audit::Audit;

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

/// The code of the response to `GET /livez` over HTTP/2 with headers of this many bytes; none if the server rejects them.
async fn status_with_headers(server: &TestServer, bytes: usize) -> Option<u16> {
    let mut tls = setpoint_client::http::tls::client_config(&server.connection(None)).unwrap();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let stream = TlsConnector::from(Arc::new(tls))
        .connect(name, stream)
        .await
        .unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let mut request = Request::get(format!("https://{}/livez", server.address));
    for _ in 0..bytes / 10_000 {
        request = request.header("x-long", "x".repeat(10_000));
    }
    let sent = sender.send_request(
        request
            .body(http_body_util::Empty::<bytes::Bytes>::new())
            .unwrap(),
    );
    tokio::select! {
        response = sent => response.ok().map(|response| response.status().as_u16()),
        _ = connection => None,
    }
}

#[tokio::test]
async fn headers_of_nearly_a_megabyte_are_accepted_over_http2() {
    let server = test_server().await;
    assert_eq!(status_with_headers(&server, 1_000_000).await, Some(200));
    assert_ne!(status_with_headers(&server, 1_200_000).await, Some(200));
    assert_eq!(status_with_headers(&server, 10_000).await, Some(200));
}

#[tokio::test]
async fn an_invalid_timeout_is_audited() {
    let (mut reader, out) = tokio::io::duplex(1 << 16);
    let (log, writer) = to_stream(out);
    let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}";
    let policy = Policy::parse(policy).unwrap();
    let authority = TestCa::new();
    let config = Config {
        audit: Some(Arc::new(Audit { policy, log })),
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
