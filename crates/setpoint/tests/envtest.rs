//! The program as the `kube-apiserver` and the `etcd` that envtest starts: the same flags, files and signals.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use setpoint_client::Http;
use setpoint_client::kubeconfig::{Connection, Identity};
use tempfile::TempDir;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// A process, killed when it is dropped.
struct Process {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

/// The directory of the programs, their data and the certificates, as envtest creates them.
struct Assets {
    dir: TempDir,
    authority: rcgen::Issuer<'static, rcgen::KeyPair>,
    authority_pem: String,
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr }
    }

    /// Reads the log until a line contains the text.
    #[track_caller]
    fn wait_for(mut self, text: &str) -> Self {
        let (mut line, mut all) = (String::new(), String::new());
        while !line.contains(text) {
            line.clear();
            assert_ne!(
                self.stderr.read_line(&mut line).unwrap(),
                0,
                "no {text:?} in {all}"
            );
            all.push_str(&line);
        }
        self
    }

    fn terminate(mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Assets {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["kube-apiserver", "etcd"] {
            symlink(env!("CARGO_BIN_EXE_setpoint"), dir.path().join(name)).unwrap();
        }
        let (authority, authority_pem) = authority();
        let assets = Self {
            dir,
            authority,
            authority_pem,
        };
        let mut serving = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        serving.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let (certificate, key) = assets.sign(&serving);
        assets.write("apiserver.crt", &certificate);
        assets.write("apiserver.key", &key);
        assets.write("client-cert-auth-ca.crt", &assets.authority_pem);
        let signer = include_str!("../../auth/src/keys/testdata/rsa.pem");
        assets.write("sa-signer.key", signer);
        assets.write("sa-signer.crt", signer);
        assets
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn sign(&self, params: &rcgen::CertificateParams) -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// Starts `etcd` with the flags of envtest.
    fn etcd(&self, port: u16) -> Process {
        let url = format!("http://127.0.0.1:{port}");
        let mut command = Command::new(self.path("etcd"));
        command
            .arg(format!("--advertise-client-urls={url}"))
            .arg(format!("--data-dir={}", self.path("data").display()))
            .arg(format!("--listen-client-urls={url}"))
            .args(["--listen-peer-urls=http://127.0.0.1:0", "--unsafe-no-fsync=true"]);
        Process::start(&mut command).wait_for("ready to serve client requests")
    }

    /// The command `kube-apiserver` with the flags of envtest.
    fn command(&self, etcd: u16, port: u16) -> Command {
        let file = |name: &str| self.path(name).display().to_string();
        let mut command = Command::new(self.path("kube-apiserver"));
        command
            .arg("--allow-privileged=true")
            .arg("--authorization-mode=RBAC")
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--cert-dir={}", self.dir.path().display()))
            .arg(format!("--client-ca-file={}", file("client-cert-auth-ca.crt")))
            .arg("--disable-admission-plugins=ServiceAccount")
            .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
            .arg(format!("--secure-port={port}"))
            .arg(format!("--service-account-issuer=https://127.0.0.1:{port}/"))
            .arg(format!("--service-account-key-file={}", file("sa-signer.crt")))
            .arg(format!(
                "--service-account-signing-key-file={}",
                file("sa-signer.key")
            ))
            .args(["--service-cluster-ip-range=10.0.0.0/24", "-v", "2"]);
        command
    }

    fn kube_apiserver(&self, etcd: u16, port: u16) -> Process {
        Process::start(&mut self.command(etcd, port)).wait_for("Serving securely on")
    }

    /// A client with a certificate of envtest's CA, for an administrator.
    fn admin(&self, port: u16) -> Http {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, "admin");
        params
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, "system:masters");
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let (certificate, key) = self.sign(&params);
        self.client(
            port,
            Identity::Certificate {
                chain: certificate.into_bytes(),
                key: key.into_bytes(),
            },
        )
    }

    fn client(&self, port: u16, identity: Identity) -> Http {
        let connection = Connection {
            server: format!("https://127.0.0.1:{port}"),
            authority: Some(self.authority_pem.clone().into_bytes()),
            identity,
            ..Connection::default()
        };
        Http::new(&connection).unwrap()
    }
}

fn authority() -> (rcgen::Issuer<'static, rcgen::KeyPair>, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "envtest-environment");
    let pem = params.self_signed(&key).unwrap().pem();
    (rcgen::Issuer::new(params, key), pem)
}

/// A port that is free now, as envtest finds one.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

async fn get(http: &Http, path: &str) -> Value {
    serde_json::from_slice(&http.get(path).await.unwrap()).unwrap()
}

async fn post(http: &Http, path: &str, body: Value) -> Value {
    serde_json::from_slice(&http.post(path, body.to_string()).await.unwrap()).unwrap()
}

/// Creates a CustomResourceDefinition and waits until it is established, by a watch.
async fn install_crd(http: &Http) {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    post(http, CRDS, crd).await;
    while get(http, "/apis").await["groups"]
        .as_array()
        .unwrap()
        .iter()
        .all(|group| group["name"] != "example.com")
    {
        tokio::task::yield_now().await;
    }
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 3}})
}

#[tokio::test]
async fn a_control_plane_starts_serves_and_stops_as_envtest_expects() {
    let (assets, etcd_port, port) = (Assets::new(), free_port(), free_port());
    let etcd = assets.etcd(etcd_port);
    let plain = Connection {
        server: format!("http://127.0.0.1:{etcd_port}"),
        ..Connection::default()
    };
    let plain = Http::new(&plain).unwrap();
    assert_eq!(get(&plain, "/health").await["health"], "true");
    let server = assets.kube_apiserver(etcd_port, port);
    let anonymous = assets.client(port, Identity::Anonymous);
    for path in ["/healthz", "/readyz", "/livez"] {
        assert_eq!(anonymous.get(path).await.unwrap(), "ok", "{path}");
    }
    let admin = assets.admin(port);
    assert_eq!(
        get(&admin, "/api/v1/namespaces/default").await["status"]["phase"],
        "Active"
    );
    assert_eq!(get(&admin, "/api/v1/nodes").await["items"], json!([]));
    install_crd(&admin).await;
    post(&admin, WIDGETS, widget("one")).await;
    assert_eq!(get(&admin, WIDGETS).await["items"][0]["spec"]["size"], 3);
    assert!(server.terminate().success());
    assert!(etcd.terminate().success());
    assert!(TcpListener::bind(("127.0.0.1", port)).is_ok());
}

#[tokio::test]
async fn objects_outlive_kube_apiserver_and_are_deleted_with_the_data_directory() {
    let (assets, etcd_port, port) = (Assets::new(), free_port(), free_port());
    let etcd = assets.etcd(etcd_port);
    let map = json!({"metadata": {"name": "kept"}, "data": {"a": "b"}});
    let maps = "/api/v1/namespaces/default/configmaps";
    let server = assets.kube_apiserver(etcd_port, port);
    post(&assets.admin(port), maps, map).await;
    // Killed, as a suite that fails leaves it.
    drop(server);
    let server = assets.kube_apiserver(etcd_port, port);
    assert_eq!(get(&assets.admin(port), maps).await["items"][0]["data"]["a"], "b");
    assert!(server.terminate().success() && etcd.terminate().success());
    std::fs::remove_dir_all(assets.path("data")).unwrap();
    let _etcd = assets.etcd(etcd_port);
    let _server = assets.kube_apiserver(etcd_port, port);
    assert_eq!(get(&assets.admin(port), maps).await["items"], json!([]));
}

#[tokio::test]
async fn two_prefixes_of_one_etcd_are_two_clusters() {
    let (assets, etcd_port) = (Assets::new(), free_port());
    let _etcd = assets.etcd(etcd_port);
    let (one, other) = (free_port(), free_port());
    let _one = assets.kube_apiserver(etcd_port, one);
    let mut command = assets.command(etcd_port, other);
    let _other = Process::start(command.arg("--etcd-prefix=/other")).wait_for("Serving securely on");
    let namespaces = "/api/v1/namespaces";
    post(
        &assets.admin(one),
        namespaces,
        json!({"metadata": {"name": "first"}}),
    )
    .await;
    let missing = assets
        .admin(other)
        .get("/api/v1/namespaces/first")
        .await
        .unwrap_err();
    assert_eq!(missing.code, 404);
}

#[tokio::test]
async fn controllers_are_off_and_enabled_by_an_environment_variable() {
    let (assets, etcd_port, port) = (Assets::new(), free_port(), free_port());
    let _etcd = assets.etcd(etcd_port);
    let server = assets.kube_apiserver(etcd_port, port);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(get(&assets.admin(port), accounts).await["items"], json!([]));
    assert!(server.terminate().success());
    let mut command = assets.command(etcd_port, port);
    command.env("SETPOINT_CONTROLLERS", "sa,ns");
    let _server = Process::start(&mut command).wait_for("Serving securely on");
    let admin = assets.admin(port);
    while get(&admin, accounts).await["items"] == json!([]) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn tokens_are_signed_with_the_given_rsa_key() {
    let (assets, etcd_port, port) = (Assets::new(), free_port(), free_port());
    let _etcd = assets.etcd(etcd_port);
    let _server = assets.kube_apiserver(etcd_port, port);
    let admin = assets.admin(port);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    post(&admin, accounts, json!({"metadata": {"name": "robot"}})).await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = post(&admin, &format!("{accounts}/robot/token"), request).await;
    let token = token["status"]["token"].as_str().unwrap();
    let header = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    let header: Value = serde_json::from_slice(&header).unwrap();
    assert_eq!(header["alg"], "RS256");
    let robot = assets.client(port, Identity::Token(token.to_owned()));
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let review = post(
        &robot,
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        review,
    )
    .await;
    assert_eq!(
        review["status"]["userInfo"]["username"],
        "system:serviceaccount:default:robot"
    );
}

/// The exit code and the standard error of a program that does not start.
fn fail(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn an_invalid_command_line_is_reported_as_upstream_does() {
    let assets = Assets::new();
    let run = |name: &str, flag: &str| fail(Command::new(assets.path(name)).arg(flag));
    let unknown = (Some(1), "Error: unknown flag: --x\n".to_owned());
    assert_eq!(run("kube-apiserver", "--x"), unknown);
    let rejected = (
        Some(1),
        "Error: --emulated-version is not supported by Setpoint\n".to_owned(),
    );
    assert_eq!(run("kube-apiserver", "--emulated-version=1.36"), rejected);
    let undefined = (Some(2), "flag provided but not defined: -x\n".to_owned());
    assert_eq!(run("etcd", "--x"), undefined);
}

#[test]
fn a_taken_port_ends_the_process_with_an_error() {
    let assets = Assets::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (etcd_port, port) = (free_port(), taken.local_addr().unwrap().port());
    let _etcd = assets.etcd(etcd_port);
    let (code, stderr) = fail(&mut assets.command(etcd_port, port));
    assert_eq!(code, Some(1));
    assert!(
        stderr.contains(&format!("cannot listen on 127.0.0.1:{port}")),
        "{stderr}"
    );
}

#[test]
fn install_links_the_programs_and_prints_the_variable() {
    let dir = tempfile::tempdir().unwrap();
    let assets = dir.path().join("assets");
    let output = Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .args(["envtest", "install"])
        .arg(&assets)
        .output()
        .unwrap();
    let variable = format!(
        "export KUBEBUILDER_ASSETS={}\n",
        assets.canonicalize().unwrap().display()
    );
    assert_eq!(String::from_utf8(output.stdout).unwrap(), variable);
    let help = |name: &str| Command::new(assets.join(name)).arg("--help").output().unwrap();
    let text = |name: &str| String::from_utf8(help(name).stdout).unwrap();
    assert!(has_flag(&text("etcd"), "unsafe-no-fsync"));
    assert!(has_flag(&text("kube-apiserver"), "etcd-servers"));
    assert!(!has_flag(&text("kube-apiserver"), "insecure-port"));
}

/// Whether envtest finds the flag in a help text.
fn has_flag(help: &str, flag: &str) -> bool {
    help.lines().any(|line| line.trim() == format!("--{flag}"))
}
