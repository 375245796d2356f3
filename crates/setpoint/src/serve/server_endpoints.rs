//! The endpoints of the `kubernetes` Service where several servers share one etcd: all servers whose lease has not expired
//! (upstream: the lease endpoint reconciler, `pkg/controlplane/reconcilers/lease.go`).
//!
//! A kube-apiserver on the same etcd has the same leases, so each lists the other.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use setpoint_api::Clock;
use setpoint_encryption::Encryption;
use setpoint_etcd::LeasedKeys;
use setpoint_kinds::bootstrap::server_objects::{endpoint_objects, server_lease};
use setpoint_registry::{EtcdLayout, Registry};
use setpoint_strategy::Kinds;
use tokio_util::sync::CancellationToken;

use super::etcd_store;
use crate::args::EtcdFlags;

/// kube-apiserver's times: after how long the lease of a server that was killed expires, and how often it is renewed.
const TTL: Duration = Duration::from_secs(15);
const INTERVAL: Duration = Duration::from_secs(10);

/// Keeps the lease of this server and the endpoints of all servers.
pub(super) struct ServerEndpoints {
    leases: LeasedKeys,
    layout: EtcdLayout,
    encryption: Arc<Encryption>,
    /// The advertised address and port of this server.
    server: (IpAddr, u16),
    registry: Arc<Registry>,
    clock: Arc<dyn Clock>,
}

impl ServerEndpoints {
    /// For a server with this advertised address and port.
    pub(super) fn open(
        flags: &EtcdFlags,
        (kinds, encryption): (&Kinds, &Arc<Encryption>),
        server: (IpAddr, u16),
        registry: Arc<Registry>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let layout = etcd_store::layout(flags, kinds);
        let prefix = layout.server_lease_prefix().into();
        Ok(Self {
            leases: LeasedKeys::new(&etcd_store::server_lease_config(flags)?, prefix, TTL),
            layout,
            encryption: encryption.clone(),
            server,
            registry,
            clock,
        })
    }

    /// Renews the lease until stopped, then removes this server from the endpoints at once.
    pub(super) async fn run(self, stop: CancellationToken) -> Result<()> {
        let renewed = stop.run_until_cancelled(async {
            self.registry.started().await;
            self.renew_forever().await;
        });
        renewed.await;
        if let Err(error) = self.remove().await {
            tracing::warn!(
                error = format!("{error:#}"),
                "cannot remove this server from the endpoints"
            );
        }
        Ok(())
    }

    async fn renew_forever(&self) {
        for generation in 1.. {
            if let Err(error) = self.renew(generation).await {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "cannot reconcile the endpoints of the servers"
                );
            }
            self.clock.sleep(INTERVAL).await;
        }
    }

    async fn renew(&self, generation: i64) -> Result<()> {
        let (gvr, object) = server_lease(self.server.0, generation);
        let object = (&gvr.group_resource(), object);
        let lease = self
            .layout
            .server_lease(self.server.0, object, Some(&*self.encryption))?;
        self.leases.put(lease.key, lease.value).await?;
        let addresses = self.addresses().await?;
        // This server has just renewed its own lease: without any, something is wrong with the list.
        anyhow::ensure!(!addresses.is_empty(), "no server has a lease");
        self.write(&addresses).await
    }

    async fn remove(&self) -> Result<()> {
        self.leases
            .delete(self.layout.server_lease_key(self.server.0))
            .await?;
        self.write(&self.addresses().await?).await
    }

    /// The addresses of all servers with a lease.
    async fn addresses(&self) -> Result<Vec<IpAddr>> {
        let keys = self.leases.list().await?;
        let addresses = keys.iter().map(|key| self.layout.server_lease_address(key));
        Ok(addresses.flatten().collect())
    }

    async fn write(&self, addresses: &[IpAddr]) -> Result<()> {
        let objects = endpoint_objects(addresses, self.server.1);
        let written = self.registry.reconcile(&objects).await;
        written.map_err(|status| anyhow::anyhow!("{}", status.message))
    }
}
