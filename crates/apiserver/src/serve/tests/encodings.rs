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
#[tokio::test]
async fn in18_a_watch_streams_frames_of_protobuf() {
    let server = test_server().await;
    let mut stream = server
        .connect(Some(server.authority.sign("admin", "system:masters")))
        .await;
    let accept = "application/vnd.kubernetes.protobuf;stream=watch";
    let request = format!("GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    // The one chunk of the first event: its length in hexadecimal, a line's end, and as many bytes.
    let chunk = loop {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).await.unwrap();
        assert_ne!(length, 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..length]);
        let Some(blank) = seen.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let body = &seen[blank + 4..];
        let Some(line) = body.windows(2).position(|two| two == b"\r\n") else {
            continue;
        };
        let length = usize::from_str_radix(std::str::from_utf8(&body[..line]).unwrap(), 16).unwrap();
        if let Some(chunk) = body.get(line + 2..line + 2 + length) {
            break chunk.to_vec();
        }
    };
    let head = String::from_utf8_lossy(&seen);
    check(&head, 200, &[&format!("content-type: {accept}\r\n")]);
    let (one, rest) = frame::split(&chunk).unwrap();
    let (name, object) = frame::open(one).unwrap();
    assert_eq!((name.as_str(), rest), ("ADDED", &[][..]));
    assert!(opened(object).starts_with(r#"v1 ConfigMap {"metadata":{"name":"m""#));
}

/// IN18
#[tokio::test]
async fn in18_a_watch_over_a_websocket_sends_one_message_for_each_event() {
    let server = test_server().await;
    let admin = server.authority.sign("admin", "system:masters");
    let mut stream = server.connect(Some(admin)).await;
    let request = "GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = read_until(&mut stream, b"\r\n\r\n").await;
    check(
        &String::from_utf8(head).unwrap(),
        101,
        &[
            "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
            "upgrade: websocket",
        ],
    );
    let event = read_until(&mut stream, b"}\n").await;
    assert_eq!(event[0], 0x81);
    assert!(String::from_utf8_lossy(&event).contains(r#"{"type":"ADDED","object":{"kind":"ConfigMap""#));
    // A ping with an empty payload, masked by zeros.
    stream.write_all(&[0x89, 0x80, 0, 0, 0, 0]).await.unwrap();
    assert_eq!(read_until(&mut stream, &[0x8a, 0]).await, [0x8a, 0]);
    server.stop.cancel();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert_eq!(rest, [0x88, 2, 0x03, 0xe8]);
}

/// Reads up to and including `end`.
async fn read_until(stream: &mut client::TlsStream<TcpStream>, end: &[u8]) -> Vec<u8> {
    let mut read = Vec::new();
    while !read.ends_with(end) {
        read.push(stream.read_u8().await.unwrap());
    }
    read
}

#[tokio::test]
async fn a_websocket_without_a_key_is_rejected() {
    let server = test_server().await;
    let response = server
        .send("GET /api/v1/configmaps?watch=1 HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket")
        .await;
    check(&response, 400, &["WebSocket"]);
}
