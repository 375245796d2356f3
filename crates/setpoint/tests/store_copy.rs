//! `setpoint store copy` between a data directory, a backup file and a real etcd.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "skipped tests are printed")]

mod cluster;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cluster::Cluster;
use k8s_openapi::api::core::v1::ConfigMap;
use tempfile::TempDir;
use tokio::net::TcpStream;

fn map() -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some("copied".to_owned());
    map.data = Some(BTreeMap::from([("k".to_owned(), "v".to_owned())]));
    map
}

/// Runs `setpoint store copy`.
fn copy(from: &str, to: &str, flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .args(["store", "copy", from, to])
        .args(flags)
        .output()
        .unwrap()
}

#[track_caller]
fn check_copied(output: &Output) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("equal to those of"));
}

/// A data directory with objects. Returns the uid of one and its resource version.
async fn data_dir() -> (Arc<TempDir>, String, String) {
    let cluster = Cluster::new(&["--nodes=0"]);
    let maps = cluster.client().namespaced::<ConfigMap>("default");
    let created = maps.create(&map()).await.unwrap().to_owned().unwrap();
    let dir = cluster.dir.clone();
    assert!(cluster.terminate());
    let metadata = created.metadata;
    (dir, metadata.uid.unwrap(), metadata.resource_version.unwrap())
}

/// The uid, the resource version and the data of the object in a data directory.
async fn read(dir: TempDir) -> (String, String, String) {
    let cluster = Cluster::start(&Arc::new(dir), &["--nodes=0"]);
    let maps = cluster.client().namespaced::<ConfigMap>("default");
    let map = maps.get("copied").await.unwrap().to_owned().unwrap();
    (
        map.metadata.uid.unwrap(),
        map.metadata.resource_version.unwrap(),
        map.data.unwrap()["k"].clone(),
    )
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_between_files_keeps_uids_and_resource_versions() {
    let (dir, uid, version) = data_dir().await;
    let (work, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let backup = work.path().join("backup");
    check_copied(&copy(text(dir.path()), text(&backup), &["--to-backup"]));
    let again = copy(text(dir.path()), text(&backup), &["--to-backup"]);
    assert!(!again.status.success());
    check_copied(&copy(text(&backup), text(copied.path()), &[]));
    assert_eq!(read(copied).await, (uid, version, "v".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_to_etcd_and_back_keeps_the_objects() {
    let Some(etcd) = Etcd::start().await else { return };
    let (dir, uid, _) = data_dir().await;
    check_copied(&copy(text(dir.path()), &etcd.url, &["--etcd-prefix=/a"]));
    let again = copy(text(dir.path()), &etcd.url, &["--etcd-prefix=/a"]);
    let error = String::from_utf8(again.stderr).unwrap();
    assert!(
        !again.status.success() && error.contains("already has"),
        "{error}"
    );
    let copied = tempfile::tempdir().unwrap();
    check_copied(&copy(&etcd.url, text(copied.path()), &["--etcd-prefix=/a"]));
    let (copied_uid, _, data) = read(copied).await;
    assert_eq!((copied_uid, data.as_str()), (uid, "v"));
}

/// A real etcd on free ports. It is killed when it is dropped.
struct Etcd {
    process: Child,
    url: String,
    _dir: TempDir,
}

impl Etcd {
    /// `None`, after printing so, if etcd is not installed.
    async fn start() -> Option<Self> {
        if Command::new("etcd").arg("--version").output().is_err() {
            println!("SKIPPED: etcd is not installed");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let (port, peer) = (free_port(), format!("http://127.0.0.1:{}", free_port()));
        let url = format!("http://127.0.0.1:{port}");
        let process = Command::new("etcd")
            .arg(format!("--data-dir={}", dir.path().display()))
            .args(["--name=m", &format!("--initial-cluster=m={peer}")])
            .args([
                format!("--listen-client-urls={url}"),
                format!("--advertise-client-urls={url}"),
            ])
            .args([
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let listens = async {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), listens)
            .await
            .unwrap();
        Some(Self {
            process,
            url,
            _dir: dir,
        })
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}
