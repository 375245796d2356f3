//! KMS v2 with a plugin at a unix socket, which encrypts by inverting bits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixListener;
use tokio::task::JoinSet;

use setpoint_api::SystemClock;
use setpoint_encryption::Encryption;
use setpoint_store::ValueTransformer;

const KEY: &[u8] = b"/registry/secrets/a/b";

/// The fields of all messages of the protocol that the plugin needs, by their numbers.
#[derive(Clone, PartialEq, prost::Message)]
struct AnyMessage {
    #[prost(bytes = "vec", tag = "1")]
    first: Vec<u8>,
    #[prost(string, tag = "2")]
    second: String,
    #[prost(string, tag = "3")]
    third: String,
}

/// A plugin in this process.
struct Plugin {
    runtime: tokio::runtime::Runtime,
    calls: Arc<AtomicU32>,
}

impl Plugin {
    fn start(socket: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let calls = Arc::new(AtomicU32::new(0));
        let listener = runtime.block_on(async { UnixListener::bind(socket).unwrap() });
        let plugin = Self { runtime, calls };
        plugin.runtime.spawn(serve(listener, plugin.calls.clone()));
        plugin
    }
}

async fn serve(listener: UnixListener, calls: Arc<AtomicU32>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let calls = calls.clone();
        let service = service_fn(move |request| respond(request, calls.clone()));
        connections.spawn(async move {
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            drop(server.serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    calls: Arc<AtomicU32>,
) -> Result<Response<impl Body<Data = Bytes, Error = Infallible>>, Infallible> {
    calls.fetch_add(1, Relaxed);
    let method = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let request = AnyMessage::decode(&body[5..]).unwrap();
    let inverted: Vec<u8> = request.first.iter().map(|byte| !byte).collect();
    let message = match method.as_str() {
        "/v2.KeyManagementService/Status" => AnyMessage {
            first: b"v2".to_vec(),
            second: "ok".to_owned(),
            third: "key-1".to_owned(),
        },
        "/v2.KeyManagementService/Encrypt" => AnyMessage {
            first: inverted,
            second: "key-1".to_owned(),
            ..AnyMessage::default()
        },
        "/v2.KeyManagementService/Decrypt" => {
            assert_eq!(request.third, "key-1");
            AnyMessage {
                first: inverted,
                ..AnyMessage::default()
            }
        }
        other => panic!("{other}"),
    };
    let message = message.encode_to_vec();
    let mut frame = vec![0];
    frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
    frame.extend_from_slice(&message);
    let trailers = HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-status"),
        HeaderValue::from_static("0"),
    )]);
    let body = Full::new(Bytes::from(frame)).with_trailers(async move { Some(Ok(trailers)) });
    let response = Response::builder().header("content-type", "application/grpc");
    Ok(response.body(body).unwrap())
}

/// The encryption of a server that is configured for the plugin at `socket`.
fn load(dir: &Path, socket: &Path) -> Arc<Encryption> {
    let file = dir.join("encryption.yaml");
    let socket = socket.display();
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets, configmaps, a.example.com]\n  providers:\n  - kms: {{apiVersion: v2, name: plugin, endpoint: 'unix://{socket}', timeout: 2s}}\n"
    );
    fs::write(&file, text).unwrap();
    Encryption::load(&file, Arc::new(SystemClock::new())).unwrap()
}

#[test]
fn a_plugin_at_a_socket_seals_and_opens() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kms.sock");
    let plugin = Plugin::start(&socket);
    let writer = load(dir.path(), &socket);
    assert_eq!(writer.check_health(), Ok(()));
    let sealed = writer.seal(KEY, KEY, b"value").unwrap().unwrap().bytes;
    assert!(sealed.starts_with(b"k8s:enc:kms:v2:plugin:"));
    let reader = load(dir.path(), &socket);
    let before = plugin.calls.load(Relaxed);
    for _ in 0..3 {
        let opened = reader.open(KEY, KEY, sealed.clone()).unwrap();
        assert_eq!(opened.bytes, "value");
        assert_eq!(opened.seal, reader.current_seal(KEY));
    }
    assert_eq!(plugin.calls.load(Relaxed), before + 1);
}

#[test]
fn a_plugin_of_several_resources_is_probed_once() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kms.sock");
    let plugin = Plugin::start(&socket);
    load(dir.path(), &socket);
    // Its status, and a new seed.
    assert_eq!(plugin.calls.load(Relaxed), 2);
}

#[test]
fn without_the_plugin_nothing_is_sealed_and_the_health_check_fails() {
    let dir = tempfile::tempdir().unwrap();
    let encryption = load(dir.path(), &dir.path().join("kms.sock"));
    assert!(encryption.check_health().is_err());
    assert!(encryption.seal(KEY, KEY, b"value").is_err());
}
