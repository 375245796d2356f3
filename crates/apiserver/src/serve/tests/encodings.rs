//! Requests and responses in protobuf, and watches over WebSockets.

use super::*;

const BINARY: &str = "content-type: application/vnd.kubernetes.protobuf\r\n";

/// An envelope's type, and its message as JSON.
fn opened(bytes: &[u8]) -> String {
    let TypeMeta { api_version, kind } = envelope::open(bytes).unwrap().type_meta;
    let shape = Pack::builtin().shape_of("", "v1", &kind).unwrap();
    let tree = protobuf::decode(bytes, shape).unwrap().1;
    let json = String::from_utf8(setpoint_codec::json::write(&tree)).unwrap();
    format!("{api_version} {kind} {json}")
}

#[tokio::test]
async fn objects_lists_and_errors_are_protobuf_if_accepted() {
    let server = test_server().await;
    let map = r#"{"metadata":{"name":"m","namespace":"a","resourceVersion":"7"},"data":{"k":"x"}}"#;
    let (head, body) = server
        .send_for_protobuf("GET /api/v1/namespaces/a/configmaps/m HTTP/1.1")
        .await;
    check(&head, 200, &[BINARY]);
    assert_eq!(opened(&body), format!("v1 ConfigMap {map}"));
    let (head, body) = server.send_for_protobuf("GET /api/v1/configmaps HTTP/1.1").await;
    check(&head, 200, &[BINARY]);
    assert!(opened(&body).starts_with("v1 ConfigMapList {"));
    assert!(opened(&body).contains(map));
    let (head, body) = server
        .send_for_protobuf("GET /api/v1/namespaces/a/configmaps/x HTTP/1.1")
        .await;
    check(&head, 404, &[BINARY]);
    assert!(opened(&body).starts_with("v1 Status {"));
    assert!(opened(&body).contains(r#"configmaps \"x\" not found"#));
    let (head, _) = server.send_for_protobuf("GET /api/v1 HTTP/1.1").await;
    check(&head, 200, &[BINARY]);
}

#[tokio::test]
async fn bodies_may_be_protobuf() {
    let server = test_server().await;
    let tree = setpoint_codec::json::parse(
        br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"n"},"data":{"k":"v"}}"#,
    );
    let sealed = protobuf::encode_object(map_shape(), &tree.unwrap());
    let body = String::from_utf8(sealed.clone()).expect("all lengths in it are below 128");
    let create = format!(
        "POST /api/v1/namespaces/a/configmaps HTTP/1.1\nContent-Type: {}\n\n",
        setpoint_codec::media::PROTOBUF
    );
    let (head, returned) = server.send_for_protobuf(&format!("{create}{body}")).await;
    check(&head, 200, &[BINARY]);
    assert_eq!(returned, sealed);
    check(
        &server.send(&format!("{create}{body}")).await,
        200,
        &["content-type: application/json", r#""data":{"k":"v"}"#],
    );
    check(
        &server.send(&format!("{create}garbage")).await,
        400,
        &["provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"],
    );
}

/// IN18
#[tokio::test(flavor = "multi_thread")]
async fn in18_a_watch_streams_frames_of_protobuf() {
    let server = test_server().await;
    let mut connection = server.connect();
    let accept = "application/vnd.kubernetes.protobuf;stream=watch";
    let request = format!("GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n");
    connection.send(request.as_bytes()).unwrap();
    let head = connection.receive_start("GET").unwrap();
    check(&head.to_text(), 200, &[&format!("content-type: {accept}\r\n")]);
    let chunk = connection.receive_chunk().unwrap();
    let (one, rest) = frame::split(&chunk).unwrap();
    let (name, object) = frame::open(one).unwrap();
    assert_eq!((name.as_str(), rest), ("ADDED", &[][..]));
    assert!(opened(object).starts_with(r#"v1 ConfigMap {"metadata":{"name":"m""#));
}

/// IN18
#[tokio::test(flavor = "multi_thread")]
async fn in18_a_watch_over_a_websocket_sends_one_message_for_each_event() {
    let server = test_server().await;
    let mut connection = server.connect();
    let request = "GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    connection.send(request.as_bytes()).unwrap();
    let head = connection.receive_start("GET").unwrap();
    check(
        &head.to_text(),
        101,
        &[
            "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
            "upgrade: websocket",
        ],
    );
    let event = connection.receive_until(b"}\n").unwrap();
    assert_eq!(event[0], 0x81);
    assert!(String::from_utf8_lossy(&event).contains(r#"{"type":"ADDED","object":{"kind":"ConfigMap""#));
    // A ping with an empty payload, masked by zeros.
    connection.send(&[0x89, 0x80, 0, 0, 0, 0]).unwrap();
    assert_eq!(connection.receive_until(&[0x8a, 0]).unwrap(), [0x8a, 0]);
    server.stop.cancel();
    assert_eq!(connection.receive_to_end().unwrap(), [0x88, 2, 0x03, 0xe8]);
}

#[tokio::test]
async fn a_websocket_without_a_key_is_rejected() {
    let server = test_server().await;
    let response = server
        .send("GET /api/v1/configmaps?watch=1 HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket")
        .await;
    check(&response, 400, &["WebSocket"]);
}
