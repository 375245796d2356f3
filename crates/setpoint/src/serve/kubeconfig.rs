//! The administrator's kubeconfig: written to the path of `--kubeconfig`, but never over that of another cluster.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use setpoint_client::Kubeconfig;
use setpoint_client::kubeconfig::{Cluster, User};
use setpoint_pki::{LOOPBACK_NAME, Pki};

use super::data_dir::DataDir;
use crate::args::Up;

/// The name of cluster, user and context.
const NAME: &str = "setpoint";

/// The kubeconfig on disk. Its entries are replaced when their certificates are renewed.
#[derive(Debug)]
pub(super) struct WrittenKubeconfig {
    pub(super) path: PathBuf,
    server: KubeconfigServer,
    /// The entries as they were written last.
    written: Kubeconfig,
}

/// The server in a kubeconfig.
#[derive(Debug, Clone, Copy)]
pub(super) struct KubeconfigServer {
    pub(super) address: SocketAddr,
    /// Whether the server's default certificate is not of the cluster's CA, so that the client must name the one that is.
    pub(super) has_user_certificate: bool,
}

/// Writes the kubeconfig.
pub(super) fn write(
    args: &Up,
    data_dir: &DataDir,
    pki: &Pki,
    server: KubeconfigServer,
) -> Result<WrittenKubeconfig> {
    let config = config(pki, server);
    let path = args.kubeconfig.clone().unwrap_or_else(|| data_dir.kubeconfig());
    let written = WrittenKubeconfig {
        path: path.clone(),
        server,
        written: config.clone(),
    };
    if args.merge_kubeconfig {
        config.merge_into(&path)?;
        return Ok(written);
    }
    if args.kubeconfig.is_some() && path.exists() && !is_ours(&path)? {
        bail!(
            "{} belongs to another cluster; use --merge-kubeconfig to add to it",
            path.display()
        );
    }
    // A restart on a full disk has no space to replace the file, and no reason to.
    if !Kubeconfig::read(&path).is_ok_and(|file| file == config) {
        config.write(&path)?;
    }
    Ok(written)
}

// === impl WrittenKubeconfig ===

impl WrittenKubeconfig {
    /// Replaces the certificates in the entries that were written, if there are new ones. Entries that were changed or
    /// removed since are left alone, and so is everything else in the file.
    pub(super) fn renew(&mut self, pki: &Pki) -> Result<()> {
        let renewed = config(pki, self.server);
        if renewed == self.written {
            return Ok(());
        }
        let file = match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            text => Some(Kubeconfig::parse(&text?)?),
        };
        if let Some(mut file) = file {
            replace_entries(&mut file, &self.written, &renewed);
            file.write(&self.path)?;
        }
        self.written = renewed;
        Ok(())
    }
}

fn replace_entries(file: &mut Kubeconfig, written: &Kubeconfig, renewed: &Kubeconfig) {
    for (old, new) in written.users.iter().zip(&renewed.users) {
        file.users
            .iter_mut()
            .filter(|user| *user == old)
            .for_each(|user| user.clone_from(new));
    }
    for (old, new) in written.clusters.iter().zip(&renewed.clusters) {
        file.clusters
            .iter_mut()
            .filter(|cluster| *cluster == old)
            .for_each(|cluster| cluster.clone_from(new));
    }
}

/// The URL of a server at this address.
pub(super) fn server_url(address: SocketAddr) -> String {
    format!("https://{}", reachable(address))
}

/// The kubeconfig of a user of one cluster, at this URL of a server with this CA.
pub(super) fn of_cluster(
    name: &str,
    url: &str,
    authority: &str,
    server: KubeconfigServer,
    user: User,
) -> Kubeconfig {
    let cluster = Cluster {
        server: url.to_owned(),
        certificate_authority_data: Some(STANDARD.encode(authority)),
        tls_server_name: server.has_user_certificate.then(|| LOOPBACK_NAME.to_owned()),
        ..Cluster::default()
    };
    Kubeconfig::single_context(name, cluster, user)
}

fn config(pki: &Pki, server: KubeconfigServer) -> Kubeconfig {
    let encoded = |text: &str| Some(STANDARD.encode(text));
    let user = User {
        client_certificate_data: encoded(&pki.administrator.certificate),
        client_key_data: encoded(&pki.administrator.key),
        ..User::default()
    };
    let url = server_url(server.address);
    of_cluster(NAME, &url, &pki.authority.bundle, server, user)
}

/// Whether the file has no cluster and user but those written by this command.
fn is_ours(path: &Path) -> Result<bool> {
    let config = Kubeconfig::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(config.clusters.iter().all(|cluster| cluster.name == NAME)
        && config.users.iter().all(|user| user.name == NAME))
}

/// An address that can be connected to: a server on all addresses is reached on the local one.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_reached_on_the_local_one() {
        assert_eq!(
            reachable("0.0.0.0:6443".parse().unwrap()).to_string(),
            "127.0.0.1:6443"
        );
        assert_eq!(reachable("[::]:6443".parse().unwrap()).to_string(), "[::1]:6443");
        assert_eq!(reachable("10.0.0.5:1".parse().unwrap()).to_string(), "10.0.0.5:1");
    }

    const SERVER: KubeconfigServer = KubeconfigServer {
        address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6443),
        has_user_certificate: false,
    };

    fn pki(dir: &Path, now: &str) -> Pki {
        Pki::open(
            dir,
            &[SERVER.address.ip()],
            "front-proxy-client",
            now.parse().unwrap(),
        )
        .unwrap()
    }

    #[test]
    fn only_the_entries_that_were_written_are_renewed() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        let token = User {
            token: Some("secret".to_owned()),
            ..User::default()
        };
        let work = Kubeconfig::single_context("work", Cluster::default(), token);
        let first = config(&pki(dir.path(), "2026-01-01T00:00:00Z"), SERVER);
        first.clone().merge_into(&path).unwrap();
        work.merge_into(&path).unwrap();
        let before = Kubeconfig::read(&path).unwrap();
        let mut written = WrittenKubeconfig {
            path: path.clone(),
            server: SERVER,
            written: first.clone(),
        };
        let renewed = pki(dir.path(), "2026-12-01T00:00:00Z");
        written.renew(&renewed).unwrap();
        let after = Kubeconfig::read(&path).unwrap();
        assert_ne!(after.users[0], before.users[0]);
        assert_eq!(after.users[0], config(&renewed, SERVER).users[0]);
        assert_eq!(after.users[1], before.users[1]);
        assert_eq!(
            (after.clusters, after.current_context),
            (before.clusters, "work".to_owned())
        );
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn an_entry_that_the_user_has_changed_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        let first = config(&pki(dir.path(), "2026-01-01T00:00:00Z"), SERVER);
        let mut changed = first.clone();
        changed.users[0].user.token = Some("mine".to_owned());
        changed.write(&path).unwrap();
        let mut written = WrittenKubeconfig {
            path: path.clone(),
            server: SERVER,
            written: first,
        };
        written.renew(&pki(dir.path(), "2026-12-01T00:00:00Z")).unwrap();
        assert_eq!(Kubeconfig::read(&path).unwrap().users, changed.users);
    }

    #[test]
    fn a_kubeconfig_with_another_cluster_is_not_ours() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        Kubeconfig::single_context(NAME, Cluster::default(), User::default())
            .write(&path)
            .unwrap();
        assert!(is_ours(&path).unwrap());
        Kubeconfig::single_context("work", Cluster::default(), User::default())
            .merge_into(&path)
            .unwrap();
        assert!(!is_ours(&path).unwrap());
    }
}
