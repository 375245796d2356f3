//! `--etcd-servers`: what serves these URLs. The `etcd` of `setpoint envtest install` has a data directory, in which this
//! server stores its objects; any other etcd stores them itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use setpoint_api::Clock;
use setpoint_apiserver::etcd_endpoint::DATA_DIR_PATH;
use setpoint_client::Http;
use setpoint_client::kubeconfig::Connection;

/// How often, and at which interval, the URLs are requested until one responds. kube-apiserver and etcd may be started at
/// the same time.
const TRIES: u32 = 1000;
const INTERVAL: Duration = Duration::from_millis(20);
/// The longest path that Linux accepts.
const MAX_PATH_BYTES: usize = 4096;
/// The HTTP status of a server that does not know the path.
const NOT_FOUND: u16 = 404;

/// Where the objects are stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Storage {
    /// In this data directory.
    DataDir(PathBuf),
    /// In etcd.
    Etcd,
}

/// The storage of the first URL that responds.
pub(super) async fn storage(urls: &[String], clock: &Arc<dyn Clock>) -> Result<Storage> {
    // The `etcd` of envtest has no certificate.
    if urls.iter().any(|url| url.starts_with("https://")) {
        return Ok(Storage::Etcd);
    }
    let servers = urls
        .iter()
        .map(|url| connect(url, clock))
        .collect::<Result<Vec<_>>>()?;
    let mut last = String::new();
    for _ in 0..TRIES {
        for (url, server) in urls.iter().zip(&servers) {
            match server.get(DATA_DIR_PATH).await {
                Ok(path) => return path_of(url, &path).map(Storage::DataDir),
                Err(status) if status.code == NOT_FOUND => return Ok(Storage::Etcd),
                Err(status) => last = status.message,
            }
        }
        clock.sleep(INTERVAL).await;
    }
    bail!("no server of --etcd-servers {} responds: {last}", urls.join(","))
}

/// The directory of the objects below a prefix. Servers with different prefixes may share an etcd.
pub(super) fn prefix_dir(data_dir: &Path, prefix: &str) -> PathBuf {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let encode = |byte: u8| match is_plain(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    let name: String = prefix.trim_matches('/').bytes().map(encode).collect();
    data_dir.join(match name.is_empty() {
        true => "%2F".to_owned(),
        false => name,
    })
}

fn connect(url: &str, clock: &Arc<dyn Clock>) -> Result<Http> {
    ensure!(
        url.starts_with("http://"),
        "unsupported URL {url:?} in --etcd-servers: the scheme must be http"
    );
    let connection = Connection {
        server: url.trim_end_matches('/').to_owned(),
        ..Connection::default()
    };
    Ok(Http::with_clock(&connection, clock.clone())?)
}

fn path_of(url: &str, body: &[u8]) -> Result<PathBuf> {
    let text = std::str::from_utf8(body)
        .ok()
        .filter(|text| text.len() <= MAX_PATH_BYTES);
    match text.map(Path::new).filter(|path| path.is_absolute()) {
        Some(path) => Ok(path.to_owned()),
        None => bail!("{url}{DATA_DIR_PATH} returned no path"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(prefix: &str, expected: &str) {
        assert_eq!(prefix_dir(Path::new("/data"), prefix), Path::new(expected));
    }

    #[test]
    fn each_prefix_has_a_directory_in_the_data_directory() {
        check("/registry", "/data/registry");
        check("registry/", "/data/registry");
        check("/a/b", "/data/a%2Fb");
        check("../b", "/data/%2E%2E%2Fb");
        check("/", "/data/%2F");
    }
}
