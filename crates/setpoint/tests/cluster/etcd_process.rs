//! A real etcd of one member.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running etcd. It is killed when it is dropped.
pub(crate) struct EtcdProcess {
    process: Child,
    pub(crate) url: String,
}

impl EtcdProcess {
    /// Starts the program on free ports, with its data in `dir`, and waits until it listens.
    #[allow(
        clippy::disallowed_methods,
        reason = "a process is waited for with a limit by the clock of the machine"
    )]
    pub(crate) fn start(program: &str, dir: &Path) -> Self {
        let (port, peer) = (free_port(), free_port());
        let (url, peer) = (
            format!("http://127.0.0.1:{port}"),
            format!("http://127.0.0.1:{peer}"),
        );
        let process = Command::new(program)
            .arg(format!("--data-dir={}", dir.display()))
            .arg(format!("--listen-client-urls={url}"))
            .arg(format!("--advertise-client-urls={url}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=default={peer}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let etcd = Self { process, url };
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "etcd does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        etcd
    }
}

impl Drop for EtcdProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}
