//! `setpoint certs` on the command line, with the data directory and the kubeconfig of a cluster.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::process::Command;
use std::sync::Arc;

use cluster::Cluster;
use k8s_openapi::api::core::v1::Namespace;
use serde_json::Value;

/// Whether `setpoint certs` succeeds, its output, and its errors.
fn certs(line: &str) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .arg("certs")
        .args(line.split_whitespace())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[track_caller]
fn run(line: &str) -> String {
    let (succeeded, stdout, stderr) = certs(line);
    assert!(succeeded, "{line}: {stderr}");
    stdout
}

/// The field of each certificate or key that `check` lists.
fn listed(flag: &str, field: &str) -> Vec<String> {
    let rows: Vec<Value> = serde_json::from_str(&run(&format!("check {flag} -o json"))).unwrap();
    let texts = rows
        .iter()
        .map(|row| row[field].as_str().unwrap_or_default().to_owned());
    texts.collect()
}

#[test]
fn check_lists_a_data_directory_and_a_server_and_fails_before_an_expiry() {
    let cluster = Cluster::new(&["--memory"]);
    let data = format!("--data-dir {}", cluster.dir.path().display());
    let files = [
        "ca.crt",
        "server.crt",
        "admin.crt",
        "apiserver-kubelet-client.crt",
        "front-proxy-ca.crt",
        "front-proxy-client.crt",
        "service-account.key",
    ];
    assert_eq!(listed(&data, "file"), files);
    let kubeconfig = format!("--kubeconfig {}", cluster.kubeconfig().display());
    assert_eq!(
        listed(&kubeconfig, "subject"),
        [
            "CN=setpoint",
            "CN=setpoint-ca",
            "CN=kubernetes-admin,O=system:masters"
        ]
    );
    for flag in [data, kubeconfig] {
        assert!(run(&format!("check {flag} --within 364")).contains("CN=kubernetes-admin,O=system:masters"));
        let (succeeded, _, stderr) = certs(&format!("check {flag} --within 366"));
        assert!(
            !succeeded && stderr.contains("to expire within 366 days"),
            "{stderr}"
        );
    }
}

#[tokio::test]
async fn a_server_starts_with_what_was_renewed_and_rotated_and_old_clients_go_on() {
    let cluster = Cluster::new(&[]);
    let old = cluster.connection();
    let dir = cluster.kill();
    let data = format!("--data-dir {}", dir.path().display());
    let keys = listed(&data, "keyId");
    assert!(run(&format!("renew {data}")).contains("server.crt renewed"));
    run(&format!("rotate service-account-key {data}"));
    assert!(run(&format!("rotate ca {data}")).contains("the next CA was created"));
    assert!(run(&format!("rotate ca {data}")).contains("the next CA signs from now on"));
    let rotated = listed(&data, "keyId");
    assert_ne!(rotated.iter().rev().nth(1), keys.last());
    assert_eq!(rotated.last(), keys.last());

    let cluster = Cluster::start(&Arc::clone(&dir), &[]);
    let namespaces = cluster.client().all::<Namespace>();
    namespaces.get("default").await.unwrap();
    let new = cluster.connection();
    assert_ne!(old.authority, new.authority);
    // The previous CA is still trusted, so the old client certificate is.
    let old_client = setpoint_client::kubeconfig::Connection {
        identity: old.identity,
        ..new
    };
    let old_client = setpoint_client::Client::connect(&old_client).unwrap();
    old_client.all::<Namespace>().get("default").await.unwrap();
}
