//! Connections to kubelets: inside the process to its own nodes, over the network to others.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use setpoint_apiserver::aggregate::ProxyClientIdentity;
use setpoint_apiserver::connect::{BackendAddress, Connect, ConnectFuture, Connection};
use setpoint_apiserver::{KubeletTls, Network};
use setpoint_node::server::LocalConnector;
use setpoint_pki::CertKeyPair;

use crate::args::KubeletFlags;

/// Connects to the nodes of this process without a network, and to all other backends over it.
#[derive(Debug, Clone)]
pub(super) struct NodeConnector {
    nodes: Option<LocalConnector>,
    network: Network,
    address_types: Vec<String>,
}

impl Connect for NodeConnector {
    fn connect(&self, backend: BackendAddress) -> ConnectFuture {
        match (&self.nodes, &backend.node) {
            (Some(nodes), Some(node)) if nodes.has_node(node) => {
                let (nodes, node) = (nodes.clone(), node.clone());
                Box::pin(async move {
                    let stream = nodes.connect(&node).await?;
                    Ok(Box::new(stream) as Box<dyn Connection>)
                })
            }
            _ => self.network.connect(backend),
        }
    }

    fn node_address_types(&self) -> Vec<&str> {
        self.address_types.iter().map(String::as_str).collect()
    }

    fn is_local(&self, backend: &BackendAddress) -> bool {
        let node = backend.node.as_ref();
        node.is_some_and(|node| self.nodes.as_ref().is_some_and(|nodes| nodes.has_node(node)))
    }
}

/// The connector to these nodes of the process, and to others with the certificates that the flags name; without flags, with
/// the server's own identity.
pub(super) fn connector(
    flags: &KubeletFlags,
    nodes: Option<LocalConnector>,
    identity: Option<&CertKeyPair>,
) -> Result<NodeConnector> {
    let network = network(flags, identity)?;
    Ok(NodeConnector {
        nodes,
        network,
        address_types: flags.kubelet_preferred_address_types.clone(),
    })
}

fn network(flags: &KubeletFlags, identity: Option<&CertKeyPair>) -> Result<Network> {
    let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let unusable = |reason| anyhow!("cannot use the certificates for kubelets: {reason}");
    let identity = match (&flags.kubelet_client_certificate, &flags.kubelet_client_key) {
        (Some(chain), Some(key)) => {
            Some(ProxyClientIdentity::from_pem(&read(chain)?, &read(key)?).map_err(unusable)?)
        }
        _ => identity.map(own_identity).transpose()?,
    };
    let authority = flags.kubelet_certificate_authority.as_deref();
    let authority = authority.map(read).transpose()?;
    Network::new(KubeletTls { authority, identity }).map_err(unusable)
}

/// The server's own client certificate for kubelets.
fn own_identity(pair: &CertKeyPair) -> Result<ProxyClientIdentity> {
    Ok(ProxyClientIdentity {
        chain: pair.chain().context("cannot use the certificate for kubelets")?,
        key: pair.key_der().context("cannot use the key for kubelets")?,
    })
}
