//! The port of a node: which of its clients get what, by the users and rules of a real cluster.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use cluster::Cluster;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use setpoint_api::{Clock, Key, Stored, SystemClock};
use setpoint_container_runtime::Runtime;
use setpoint_node::server::{AgentApi, Listener, Server, ServerTls};
use setpoint_node::simulated::{SimulatedRuntime, Simulation};
use tokio_util::sync::CancellationToken;

/// A node without pods.
#[derive(Debug)]
struct EmptyNode {
    runtime: SimulatedRuntime,
    clock: Arc<dyn Clock>,
}

impl AgentApi for EmptyNode {
    fn runtime(&self) -> &dyn Runtime {
        &self.runtime
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn find_pod(&self, _: &str, _: &Key) -> Option<Arc<Stored>> {
        None
    }

    fn pods(&self, _: &str) -> Vec<Arc<Stored>> {
        Vec::new()
    }
}

/// A node's port, whose clients are authenticated and authorized by a cluster.
struct NodePort {
    port: u16,
    /// The certificate that it issued to itself.
    certificate: String,
    _runtime: tokio::runtime::Runtime,
}

impl NodePort {
    fn start(cluster: &Cluster) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let tls = ServerTls::self_signed("n", &[], clock.now()).unwrap();
        let authority = std::fs::read_to_string(cluster.dir.path().join("pki/ca.crt")).unwrap();
        let certificate = tls.certificate.clone();
        let tls = ServerTls {
            client_authority: Some(authority),
            ..tls
        };
        let agent = Arc::new(EmptyNode {
            runtime: SimulatedRuntime::new(Simulation::default(), Arc::default(), clock.clone()),
            clock,
        });
        let listener = Listener {
            server: Server {
                agent,
                node: "n".to_owned(),
            },
            reviews: cluster.client(),
            tls: tls.config().unwrap(),
        };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let socket = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let port = socket.local_addr().unwrap().port();
        runtime.spawn(listener.run(socket, CancellationToken::new()));
        Self {
            port,
            certificate,
            _runtime: runtime,
        }
    }

    /// The status and the body of a response; 0 if the connection is closed without one.
    fn get(&self, path: &str, token: &str, identity: Option<&Path>) -> (u16, String) {
        let authorization = match token {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        self.get_with(path, &authorization, identity)
    }

    /// The same with these lines of headers.
    fn get_with(&self, path: &str, headers: &str, identity: Option<&Path>) -> (u16, String) {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some(file) => {
                let chain = CertificateDer::from_pem_file(file.with_extension("crt")).unwrap();
                let key = PrivateKeyDer::from_pem_file(file.with_extension("key")).unwrap();
                config.with_client_auth_cert(vec![chain], key).unwrap()
            }
        };
        let name = ServerName::try_from("n").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(connection, TcpStream::connect(("127.0.0.1", self.port)).unwrap());
        let request = format!("GET {path} HTTP/1.1\r\nHost: n\r\nConnection: close\r\n{headers}\r\n");
        let mut response = String::new();
        // The server may end the connection without TLS's own end.
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read_to_string(&mut response);
        let Some((head, body)) = response.split_once("\r\n\r\n") else {
            return (0, String::new());
        };
        (head[9..12].parse().unwrap(), body.to_owned())
    }
}

const LOGS: &str = "/containerLogs/default/web/main";

#[track_caller]
fn check(found: (u16, String), expected: (u16, &str)) {
    assert_eq!((found.0, found.1.as_str()), expected);
}

#[test]
fn a_client_of_a_node_needs_credentials_and_the_right() {
    let cluster = Cluster::new(&["--memory", "--nodes", "0"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let node = NodePort::start(&cluster);
    for path in [
        LOGS,
        "/exec/default/web/main?command=sh&output=1",
        "/pods",
        "/healthz",
        "/metrics",
        "/",
    ] {
        check(node.get(path, "", None), (401, "Unauthorized"));
        check(
            node.get(path, "no-token-of-the-cluster", None),
            (401, "Unauthorized"),
        );
    }
    kubectl.run("wait --for=create serviceaccount/default --timeout=60s");
    let token = kubectl.run("create token default");
    let user = "user=system:serviceaccount:default:default, verb=get, resource=nodes";
    let forbidden = |subresources: &str| format!("Forbidden ({user}, subresource(s)=[{subresources}])\n");
    check(node.get(LOGS, token.trim(), None), (403, &forbidden("proxy")));
    check(
        node.get("/pods", token.trim(), None),
        (403, &forbidden("pods proxy")),
    );
    check(
        node.get("/stats/summary", token.trim(), None),
        (403, &forbidden("stats")),
    );

    kubectl.run("create clusterrole metrics --verb=get --resource=nodes/metrics");
    kubectl.run("create clusterrolebinding metrics --clusterrole=metrics --serviceaccount=default:default");
    assert_eq!(node.get("/metrics", token.trim(), None).0, 200);
    assert_eq!(node.get(LOGS, token.trim(), None).0, 403);
    kubectl.run("create clusterrolebinding all --clusterrole=system:kubelet-api-admin --serviceaccount=default:default");
    check(
        node.get(LOGS, token.trim(), None),
        (404, "pod \"web\" does not exist"),
    );
}

#[test]
fn a_client_of_a_node_is_no_other_user_by_its_headers() {
    let cluster = Cluster::new(&["--memory", "--nodes", "0"]);
    let Some(kubectl) = cluster.kubectl() else { return };
    let node = NodePort::start(&cluster);
    kubectl.run("wait --for=create serviceaccount/default --timeout=60s");
    // The token of a pod's service account.
    let token = kubectl.run("create token default");
    let exec = "/exec/default/web/main?command=sh&output=1";
    for user in [
        "X-Remote-User: admin\r\nX-Remote-Group: system:masters\r\n",
        "Impersonate-User: admin\r\nImpersonate-Group: system:masters\r\n",
    ] {
        for path in [LOGS, exec] {
            check(node.get_with(path, user, None), (401, "Unauthorized"));
            let (status, body) = node.get_with(
                path,
                &format!("Authorization: Bearer {}\r\n{user}", token.trim()),
                None,
            );
            assert_eq!(status, 403);
            assert!(
                body.contains("user=system:serviceaccount:default:default,"),
                "{body}"
            );
        }
    }
}

#[test]
fn the_api_server_has_its_own_identity_for_nodes() {
    let cluster = Cluster::new(&["--memory", "--nodes", "0"]);
    let node = NodePort::start(&cluster);
    let identity = cluster.dir.path().join("pki/apiserver-kubelet-client");
    check(
        node.get(LOGS, "", Some(&identity)),
        (404, "pod \"web\" does not exist"),
    );
    let other_authority = cluster.dir.path().join("pki/front-proxy-client");
    check(node.get(LOGS, "", Some(&other_authority)), (0, ""));
}
