//! Real etcd members on free ports of the loopback address, with their data in a temporary directory.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bytes::Bytes;
use setpoint_etcd::{EtcdConfig, TlsFiles};
use setpoint_store::{Config, Op, PlainCodec, Put, Revision, Store, Txn, TxnResponse};

/// One etcd member. Dropping it ends the process and removes its data.
pub(crate) struct Etcd {
    process: Option<Child>,
    dir: tempfile::TempDir,
    pub(crate) port: u16,
    scheme: &'static str,
    name: String,
    peer: String,
    /// The names and URLs of all members.
    cluster: String,
    flags: Vec<String>,
    prefixes: AtomicU64,
}

impl Etcd {
    /// Starts a member that is the whole cluster; `None`, with the reason printed, if etcd is not installed.
    pub(crate) fn start(flags: &[&str]) -> Option<Etcd> {
        let timing = ["--heartbeat-interval=20", "--election-timeout=200"];
        let mut members = Self::start_members(1, "http", &[&timing, flags].concat())?;
        members.pop()
    }

    /// Starts a member that serves TLS.
    pub(crate) fn start_tls(flags: &[&str]) -> Option<Etcd> {
        Self::start_members(1, "https", flags)?.pop()
    }

    /// Starts a cluster of so many members.
    pub(crate) fn start_members(count: usize, scheme: &'static str, flags: &[&str]) -> Option<Vec<Etcd>> {
        let found = Command::new(program()).arg("--version").output();
        if found.is_err() {
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "etcd is required here"
            );
            println!("SKIPPED: etcd is not installed");
            return None;
        }
        let peers: Vec<_> = (0..count)
            .map(|number| (format!("m{number}"), format!("http://127.0.0.1:{}", free_port())))
            .collect();
        let cluster: Vec<_> = peers.iter().map(|(name, url)| format!("{name}={url}")).collect();
        let member = |(name, peer)| Etcd {
            process: None,
            dir: tempfile::tempdir().unwrap(),
            port: free_port(),
            scheme,
            name,
            peer,
            cluster: cluster.join(","),
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            prefixes: AtomicU64::new(0),
        };
        let mut members: Vec<_> = peers.into_iter().map(member).collect();
        members.iter_mut().for_each(Etcd::spawn);
        members.iter().for_each(Etcd::wait_until_it_listens);
        Some(members)
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Removes the data of a member that was killed.
    pub(crate) fn remove_data(&self) {
        std::fs::remove_dir_all(self.dir.path().join("data")).unwrap();
    }

    pub(crate) fn restart(&mut self) {
        self.spawn();
        self.wait_until_it_listens();
    }

    fn spawn(&mut self) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.dir.path().join("log"))
            .unwrap();
        let process = Command::new(program())
            .arg(format!("--data-dir={}", self.dir.path().join("data").display()))
            .arg(format!("--name={}", self.name))
            .args(["--max-txn-ops=10000", "--max-request-bytes=10000000"])
            .arg(format!("--listen-client-urls={}", self.url()))
            .arg(format!("--advertise-client-urls={}", self.url()))
            .arg(format!("--listen-peer-urls={}", self.peer))
            .arg(format!("--initial-advertise-peer-urls={}", self.peer))
            .arg(format!("--initial-cluster={}", self.cluster))
            .args(&self.flags)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.process = Some(process);
    }

    fn wait_until_it_listens(&self) {
        eventually("etcd listens", || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()
        });
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// A prefix that nothing else uses.
    pub(crate) fn new_prefix(&self) -> Bytes {
        format!("/test/{}/", self.prefixes.fetch_add(1, SeqCst)).into()
    }

    /// A store on this member.
    pub(crate) fn store(&self, config: Config, prefix: Bytes) -> Store {
        open(&[self.url()], config, prefix)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

fn program() -> String {
    std::env::var("SETPOINT_ETCD").unwrap_or_else(|_| "etcd".to_owned())
}

pub(crate) fn open(servers: &[String], mut config: Config, prefix: Bytes) -> Store {
    config.codec = Arc::new(PlainCodec { prefix });
    wait(setpoint_etcd::open(etcd_config(servers), config)).unwrap()
}

/// A configuration that compacts nothing.
pub(crate) fn etcd_config(servers: &[String]) -> EtcdConfig {
    let mut config = EtcdConfig::new(servers, &TlsFiles::default()).unwrap();
    config.compaction_interval = Duration::ZERO;
    config
}

/// Runs a future on this thread.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

pub(crate) fn put_txn(key: &str, value: &str) -> Txn {
    let put = Put {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
        ..Put::default()
    };
    Txn {
        compares: vec![],
        ops: vec![Op::Put(put)],
    }
}

pub(crate) fn delete_txn(key: &str) -> Txn {
    Txn {
        compares: vec![],
        ops: vec![Op::Delete {
            key: Bytes::copy_from_slice(key.as_bytes()),
        }],
    }
}

pub(crate) fn put(store: &Store, key: &str, value: &str) -> Revision {
    let committed: TxnResponse = wait(store.commit(put_txn(key, value))).unwrap();
    committed.revision
}

/// The values of a store, as `key=value`.
pub(crate) fn contents(store: &Store) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let snapshot = store.snapshot();
    let pairs = snapshot
        .prefix(b"")
        .map(|record| format!("{}={}", text(&record.key), text(&record.value)));
    pairs.collect::<Vec<_>>().join(" ")
}

#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "not within 30 s: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}
