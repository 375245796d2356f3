//! The fallback to JSON for a server without protobuf.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use setpoint_api::options::ListOptions;
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Client, Http};
use setpoint_testkit::config_map;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::client_over;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MAP: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"default","uid":"u","resourceVersion":"5"}}"#;
const LIST: &str =
    r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[]}"#;

/// Method, body format, and whether protobuf is accepted, of each request.
type RequestLog = Arc<Mutex<Vec<String>>>;

/// How a server treats protobuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    /// It responds 406 to an `Accept` with protobuf.
    NotAcceptable,
    /// It responds in JSON, and 415 to a protobuf body.
    Unsupported,
}

impl Server {
    async fn start(self, tasks: &mut JoinSet<()>) -> (Client, RequestLog) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connection = Connection {
            server: format!("http://{}", listener.local_addr().unwrap()),
            ..Connection::default()
        };
        let requests = RequestLog::default();
        let log = requests.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let log = log.clone();
                connections.spawn(async move {
                    let service = service_fn(move |request| self.respond(request, log.clone()));
                    let server = hyper::server::conn::http1::Builder::new();
                    drop(server.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        (client_over(Http::new(&connection).unwrap().protobuf()), requests)
    }

    async fn respond(
        self,
        request: Request<Incoming>,
        requests: RequestLog,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let header = |name| {
            let value = request.headers().get(name);
            value.map_or("", |value| value.to_str().unwrap()).to_owned()
        };
        let (accept, content) = (header(header::ACCEPT), header(header::CONTENT_TYPE));
        let (method, is_list) = (
            request.method().clone(),
            request.uri().path().ends_with("configmaps"),
        );
        let body = request.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.starts_with(b"k8s\0"), content == PROTOBUF);
        let accepts = accept.contains(PROTOBUF);
        requests.lock().push(format!(
            "{method} {} {accepts}",
            if content == PROTOBUF { "protobuf" } else { "json" }
        ));
        let error_code = match self {
            Self::NotAcceptable if accepts => Some(StatusCode::NOT_ACCEPTABLE),
            Self::Unsupported if content == PROTOBUF => Some(StatusCode::UNSUPPORTED_MEDIA_TYPE),
            _ => None,
        };
        let text = if is_list && method == "GET" { LIST } else { MAP };
        let mut response = Response::new(Full::new(Bytes::from(text)));
        if let Some(code) = error_code {
            response = Response::new(Full::default());
            *response.status_mut() = code;
        }
        Ok(response)
    }
}

/// Checks the requests for a create, a get and two lists of the same resource.
async fn check(server: Server, expected: &[&str]) {
    let mut tasks = JoinSet::new();
    let (client, requests) = server.start(&mut tasks).await;
    let maps = client.namespaced::<ConfigMap>("default");
    maps.create(&config_map("x", "v", "1")).await.unwrap();
    assert_eq!(maps.get("x").await.unwrap().uid(), "u");
    for _ in 0..2 {
        maps.list(&ListOptions::default()).await.unwrap();
    }
    assert_eq!(*requests.lock(), expected);
}

#[tokio::test]
async fn after_an_error_all_requests_of_the_resource_are_json() {
    let then = [
        "POST json false",
        "GET json false",
        "GET json false",
        "GET json false",
    ];
    let expected: Vec<&str> = ["POST protobuf true"].into_iter().chain(then).collect();
    check(Server::NotAcceptable, &expected).await;
    check(Server::Unsupported, &expected).await;
}

/// Objects without a protobuf form are sent as JSON, though the server accepts protobuf.
#[tokio::test]
async fn custom_kinds_and_unknown_fields_are_sent_as_json() {
    let mut tasks = JoinSet::new();
    let (client, requests) = Server::Unsupported.start(&mut tasks).await;
    let maps = client.namespaced::<ConfigMap>("default");
    let unknown = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"},"dta":{}}"#;
    maps.dynamic().create(unknown).await.unwrap();
    let foos = setpoint_api::Gvr::new("samplecontroller.k8s.io", "v1alpha1", "foos");
    let foo = r#"{"kind":"Foo","apiVersion":"samplecontroller.k8s.io/v1alpha1","metadata":{"name":"x"}}"#;
    client.dynamic(foos, "default").create(foo).await.unwrap();
    assert_eq!(*requests.lock(), ["POST json true", "POST json false"]);
}
