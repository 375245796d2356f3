//! Tests of exec against servers that send fixed bytes.

use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::kubeconfig::Connection;

const UPGRADE: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const SUCCESS: &str = r#"{"metadata":{},"status":"Success"}"#;
const MAX_BYTES: usize = 100_000;

/// A message of a channel.
fn message(channel: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x82];
    let length = payload.len() + 1;
    match u16::try_from(length) {
        Ok(length) if length < 126 => frame.push(length as u8),
        Ok(length) => {
            frame.push(126);
            frame.extend_from_slice(&length.to_be_bytes());
        }
        Err(_) => {
            frame.push(127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    frame.push(channel);
    frame.extend_from_slice(payload);
    frame
}

/// Runs a command on a server with this response. Returns the request, too.
async fn exec(response: Vec<u8>) -> (String, Result<ExecOutput, Status>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connection = Connection {
        server: format!("http://{}", listener.local_addr().unwrap()),
        ..Connection::default()
    };
    let mut server = JoinSet::new();
    server.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.unwrap());
        }
        // The client may close the connection before it has read everything.
        let _ = stream.write_all(&response).await;
        String::from_utf8(request).unwrap()
    });
    let target = ExecTarget {
        namespace: "ns",
        pod: "a.b",
        container: "c",
    };
    let http = Http::new(&connection).unwrap();
    let outcome = http.exec(target, &["cat", "/tmp/a b"], MAX_BYTES).await;
    (server.join_next().await.unwrap().unwrap(), outcome)
}

async fn exec_frames(frames: &[&[u8]]) -> Result<ExecOutput, Status> {
    let frames = frames.concat();
    exec([UPGRADE.as_bytes(), &frames].concat()).await.1
}

#[tokio::test]
async fn the_output_and_the_exit_code_of_a_command_are_collected() {
    let large = vec![b'x'; 70_000];
    let success = message(ERROR, SUCCESS.as_bytes());
    let frames = [
        message(STDOUT, b"a"),
        message(STDERR, b"warning"),
        message(STDOUT, &large),
        success,
    ];
    let (request, outcome) = exec([UPGRADE.as_bytes(), &frames.concat()].concat()).await;
    let path = "/api/v1/namespaces/ns/pods/a.b/exec?container=c&stdout=true&stderr=true&command=cat&command=%2Ftmp%2Fa%20b";
    assert!(
        request.starts_with(&format!("GET {path} HTTP/1.1\r\n")),
        "{request}"
    );
    let output = outcome.unwrap();
    assert_eq!((output.stdout.len(), output.exit_code), (70_001, 0));
    assert_eq!(output.stderr, b"warning");
}

#[tokio::test]
async fn a_message_may_come_in_fragments_with_pings_between_them() {
    let mut first = message(STDOUT, b"ab");
    first[0] = 0x02;
    let ping = [0x89, 1, b'p'];
    let rest = [0x80, 1, b'c'];
    let success = message(ERROR, SUCCESS.as_bytes());
    let output = exec_frames(&[&first, &ping, &rest, &success]).await.unwrap();
    assert_eq!(output.stdout, b"abc");
}

#[tokio::test]
async fn a_command_that_fails_has_its_exit_code() {
    let status = r#"{"status":"Failure","reason":"NonZeroExitCode","message":"m","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
    let output = exec_frames(&[&message(ERROR, status.as_bytes())]).await.unwrap();
    assert_eq!(output.exit_code, 3);
}

#[tokio::test]
async fn a_connection_that_ends_before_the_command_is_an_error() {
    let error = exec_frames(&[&message(STDOUT, b"half")]).await.unwrap_err();
    assert!(error.message.contains("before the command ended"), "{error}");
}

#[tokio::test]
async fn output_without_end_is_an_error() {
    let piece = message(STDOUT, &[0; 60_000]);
    let error = exec_frames(&[&piece, &piece]).await.unwrap_err();
    assert!(error.message.contains("more than 100000 bytes"), "{error}");
    let huge = [0x82, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let error = exec_frames(&[&huge]).await.unwrap_err();
    assert!(error.message.contains("too large"), "{error}");
}

#[tokio::test]
async fn a_rejected_request_has_the_status_of_the_server() {
    let body = r#"{"kind":"Status","status":"Failure","message":"pods \"a\" not found","reason":"NotFound","code":404}"#;
    let response = format!(
        "HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let error = exec(response.into_bytes()).await.1.unwrap_err();
    assert!(error.is_not_found(), "{error}");
}
