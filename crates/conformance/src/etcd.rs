//! An etcd as a child process, on free ports of the loopback address: started empty, killed on drop.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A running etcd of one member.
#[derive(Debug)]
pub(crate) struct Etcd {
    process: Child,
    url: String,
}

impl Etcd {
    /// Starts the program with its data and its log in `dir`. A server that uses it waits until it listens.
    pub(crate) fn start(program: &Path, dir: &Path) -> Result<Self> {
        let (url, peer) = (free_url()?, free_url()?);
        let process = Command::new(program)
            .arg(format!("--data-dir={}", dir.join("etcd").display()))
            .arg(format!("--listen-client-urls={url}"))
            .arg(format!("--advertise-client-urls={url}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster=default={peer}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(dir.join("etcd.log"))?)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        Ok(Self { process, url })
    }

    /// The URL for clients.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A URL with a port that is free now.
fn free_url() -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(format!("http://{}", listener.local_addr()?))
}
