//! The administrator's kubeconfig: written to the path of `--kubeconfig`, but never over that of another cluster.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use setpoint_client::Kubeconfig;
use setpoint_client::kubeconfig::{Cluster, User};
use setpoint_pki::Pki;

use super::data_dir::DataDir;
use crate::args::Up;

/// The name of cluster, user and context.
const NAME: &str = "setpoint";

/// Writes the kubeconfig. Returns its path.
pub(super) fn write(args: &Up, data_dir: &DataDir, pki: &Pki, address: SocketAddr) -> Result<PathBuf> {
    let config = config(pki, address);
    let path = args.kubeconfig.clone().unwrap_or_else(|| data_dir.kubeconfig());
    if args.merge_kubeconfig {
        config.merge_into(&path)?;
        return Ok(path);
    }
    if args.kubeconfig.is_some() && path.exists() && !is_ours(&path)? {
        bail!(
            "{} belongs to another cluster; use --merge-kubeconfig to add to it",
            path.display()
        );
    }
    config.write(&path)?;
    Ok(path)
}

fn config(pki: &Pki, address: SocketAddr) -> Kubeconfig {
    let encoded = |text: &str| Some(STANDARD.encode(text));
    let cluster = Cluster {
        server: format!("https://{}", reachable(address)),
        certificate_authority_data: encoded(&pki.authority.certificate),
        ..Cluster::default()
    };
    let user = User {
        client_certificate_data: encoded(&pki.administrator.certificate),
        client_key_data: encoded(&pki.administrator.key),
        ..User::default()
    };
    Kubeconfig::single_context(NAME, cluster, user)
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
