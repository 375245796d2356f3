//! Aggregation layer: group versions served by other API servers, registered as APIServices.
//!
//! The remotes ([`Aggregator::register`]) and the address of a service ([`ServiceResolver`]) come from outside. A
//! request for a remote version passes this server's own filters and is then forwarded (`proxy`) over pooled
//! connections (`connection_pool`). The user is passed in `X-Remote-*` headers, which the aggregated API server trusts
//! because of the proxy's client certificate. Discovery and OpenAPI of the remotes are fetched in the background
//! (`refresh`), so that this server's discovery never waits for them. In-process callers reach the remotes through
//! [`Router`], another implementation of [`setpoint_api::Serve`].
//!
//! This module reads neither APIService nor Service objects.
//!
//! Start reading at [`Aggregator`], then `proxy`.

use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;
use parking_lot::RwLock;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use setpoint_api::{Clock, Gvr};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connect::BackendAddress;
use crate::request::RequestInfo;

pub(crate) mod client_tls;
pub(crate) mod connection_pool;
mod probe;
pub(crate) mod proxy;
mod refresh;
mod remote_discovery;
mod remote_headers;
mod router;

use connection_pool::ConnectionPool;
pub use proxy::ResponseFuture;
pub use remote_discovery::RemoteResource;
pub(crate) use remote_discovery::{RemoteGroupVersion, RemoteGroups};
pub use router::Router;

/// A group version served by an aggregated API server; from an APIService.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// The APIService's name: `v1beta1.metrics.k8s.io`.
    pub name: String,
    pub group: CompactString,
    pub version: CompactString,
    pub service: ServiceReference,
    pub trust: TlsTrust,
    /// The APIService's `Available` condition. Requests for an unavailable remote are not forwarded.
    pub available: bool,
    /// Groups and versions of higher priority are listed first.
    pub group_priority: i32,
    pub version_priority: i32,
}

/// The Service in front of an aggregated API server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServiceReference {
    pub namespace: String,
    pub name: String,
    pub port: u16,
}

/// How the certificate of an aggregated API server is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsTrust {
    /// Against these certificate authorities, in PEM.
    CaBundle(Vec<u8>),
    /// Against the certificate authorities of the system.
    System,
    /// Not at all: any certificate is accepted.
    InsecureSkipTlsVerify,
}

/// A client certificate that this server presents, to aggregated API servers or to kubelets.
#[derive(Debug)]
pub struct ProxyClientIdentity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

impl ProxyClientIdentity {
    /// A certificate chain and its key, PEM. The error names the one that cannot be read.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("client key: {error}"))?;
        let chain = chain.map_err(|error| format!("client certificate: {error}"))?;
        Ok(Self { chain, key })
    }
}

/// Resolves a Service to an address, or returns why it cannot (upstream: `ServiceResolver`).
pub type ServiceResolver = Box<dyn Fn(&ServiceReference) -> Result<BackendAddress, String> + Send + Sync>;

/// The aggregated API servers and the connections to them.
pub struct Aggregator {
    resolve: ServiceResolver,
    identity: RwLock<Option<Arc<ProxyClientIdentity>>>,
    clock: Arc<dyn Clock>,
    registered: watch::Sender<Arc<[Arc<RegisteredRemote>]>>,
    discovered: RwLock<Arc<RemoteGroups>>,
    /// Number of changes of `discovered`.
    changes: watch::Sender<u64>,
    tasks: ConnectionTasks,
}

/// A registered remote and the connections to it.
#[derive(Debug)]
pub(crate) struct RegisteredRemote {
    pub remote: Remote,
    pool: Arc<ConnectionPool>,
}

/// Tasks that drive connections. They end when the server stops.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionTasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

// === impl Aggregator ===

impl Aggregator {
    /// An aggregator without remotes.
    pub fn new(
        identity: Option<ProxyClientIdentity>,
        clock: Arc<dyn Clock>,
        resolve: ServiceResolver,
    ) -> Arc<Self> {
        Arc::new(Self {
            resolve,
            identity: RwLock::new(identity.map(Arc::new)),
            clock,
            registered: watch::Sender::new(Arc::from([])),
            discovered: RwLock::default(),
            changes: watch::Sender::default(),
            tasks: ConnectionTasks::default(),
        })
    }

    /// An aggregator for a server without aggregation.
    pub fn none(clock: Arc<dyn Clock>) -> Arc<Self> {
        Self::new(None, clock, Box::new(|_| Err("there are no services".to_owned())))
    }

    /// Replaces all remotes. A remote that was registered before keeps its connections.
    pub fn register(&self, remotes: Vec<Remote>) {
        self.registered.send_if_modified(|registered| {
            if registered.iter().map(|one| &one.remote).eq(&remotes) {
                return false;
            }
            *registered = remotes
                .into_iter()
                .map(|remote| self.register_one(registered, remote))
                .collect();
            true
        });
        self.update_discovery(None);
    }

    /// Replaces the client certificate. Requests under way finish on the connections they have; the next ones connect with
    /// the new certificate.
    pub fn replace_identity(&self, identity: ProxyClientIdentity) {
        *self.identity.write() = Some(Arc::new(identity));
        self.registered.send_modify(|registered| {
            *registered = registered
                .iter()
                .map(|one| self.register_one(&[], one.remote.clone()))
                .collect();
        });
    }

    fn register_one(&self, before: &[Arc<RegisteredRemote>], remote: Remote) -> Arc<RegisteredRemote> {
        let same = |one: &&Arc<RegisteredRemote>| {
            let (old, new) = (&one.remote, &remote);
            (&old.name, &old.service, &old.trust) == (&new.name, &new.service, &new.trust)
        };
        let pool = match before.iter().find(same) {
            Some(registered) => registered.pool.clone(),
            None => Arc::new(self.connection_pool(&remote)),
        };
        Arc::new(RegisteredRemote { remote, pool })
    }

    /// A pool without connections, for a remote.
    fn connection_pool(&self, remote: &Remote) -> ConnectionPool {
        let identity = self.identity.read().clone();
        let tls = client_tls::config(&remote.trust, identity.as_deref());
        let shared = (self.clock.clone(), self.tasks.clone());
        ConnectionPool::new(tls, remote.service.host(), shared)
    }

    /// The remote that serves a request; `None` if this server does.
    pub(crate) fn find(&self, request_info: &RequestInfo<'_>) -> Option<Arc<RegisteredRemote>> {
        if self.registered.borrow().is_empty() {
            return None;
        }
        match request_info {
            RequestInfo::Resource(resource) => {
                let gvr = &resource.target.resource;
                self.find_version(&gvr.group, &gvr.version)
            }
            RequestInfo::NonResource { path, .. } => match path.strip_prefix("/openapi/v3/") {
                Some(path) => {
                    let groups = self.remote_groups();
                    let remote = groups.find_openapi_v3(path)?;
                    self.find_version(&remote.group, &remote.version)
                }
                None => {
                    let rest = path.strip_prefix("/apis/")?;
                    let (group, version) = rest.trim_end_matches('/').split_once('/')?;
                    self.find_version(group, version)
                }
            },
        }
    }

    fn find_version(&self, group: &str, version: &str) -> Option<Arc<RegisteredRemote>> {
        let registered = self.registered.borrow();
        let mut found = registered.iter().filter(|one| !one.remote.group.is_empty());
        found
            .find(|one| one.remote.group == group && one.remote.version == version)
            .cloned()
    }

    /// Whether a remote serves a resource.
    pub(crate) fn serves(&self, resource: &Gvr) -> bool {
        self.find_version(&resource.group, &resource.version).is_some()
    }

    /// Discovery of the remotes, as last fetched. The same `Arc` until that changes.
    pub(crate) fn remote_groups(&self) -> Arc<RemoteGroups> {
        self.discovered.read().clone()
    }

    /// Every discovered resource of the remotes.
    pub fn resources(&self) -> Vec<RemoteResource> {
        self.remote_groups().resources()
    }

    /// The versions whose resources are not known, as `group/version`.
    pub fn stale_versions(&self) -> Vec<String> {
        self.remote_groups().stale_versions()
    }

    /// Notifies when [`Aggregator::resources`] or [`Aggregator::stale_versions`] changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Keeps the discovery of the remotes fresh until stopped, then closes every connection.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            never = self.run_refresh() => match never {},
        }
        self.tasks.end().await;
    }
}

impl fmt::Debug for Aggregator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registered = self.registered.borrow();
        let names = registered.iter().map(|one| &one.remote.name);
        f.debug_list().entries(names).finish()
    }
}

// === impl ConnectionTasks ===

impl ConnectionTasks {
    /// Stops the tasks and waits for their end.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Runs a task until it ends or the server stops.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }
}

// === impl ServiceReference ===

impl ServiceReference {
    /// The DNS name the server's certificate must be valid for.
    pub(crate) fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

#[cfg(test)]
mod tests;
