//! Aggregation: versions of groups that another server serves, as if this one did.
//!
//! Who serves what is told from outside ([`Aggregator::register`]), as is where a service is. A request for such a
//! version is let in by this server's own rules and then passed on (`passing`), with the caller's name in headers that
//! the other server trusts because of the certificate that comes with them (`line`). What the others serve is asked
//! for now and then (`learn`), so that discovery tells of it without waiting for anyone. In-process callers reach the
//! others through [`Routed`], which is one more implementation of [`setpoint_api::Serve`].
//!
//! This room knows no object that registers a server and none that tells where it is.
//!
//! Start reading at [`Aggregator`], then `passing`.

use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;
use parking_lot::RwLock;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use setpoint_api::{Clock, Gvr};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connect::Place;
use crate::request::{Asked, Place as Asking};

mod caller;
mod learn;
mod line;
mod others;
pub(crate) mod passing;
mod probe;
mod routed;
mod trust;

use line::Line;
pub use others::Resource;
pub(crate) use others::{Other, Others};
pub use passing::Carrying;
pub use routed::Routed;

/// One version of one group that another server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// As it is registered: `v1beta1.metrics.k8s.io`.
    pub name: String,
    pub group: CompactString,
    pub version: CompactString,
    pub service: Backend,
    pub trust: Trust,
    /// Whether it answered when it was last asked. Nothing is passed on to one that did not.
    pub available: bool,
    /// Groups and versions with greater numbers are listed first.
    pub group_priority: i32,
    pub version_priority: i32,
}

/// The service that leads to a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Backend {
    pub namespace: String,
    pub name: String,
    pub port: u16,
}

/// Whose word is taken for it that a server is who it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// That of these authorities, in PEM.
    Authorities(Vec<u8>),
    /// Nobody's: any certificate will do.
    Anyone,
}

/// What this server shows to the others.
#[derive(Debug)]
pub struct Identity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

/// Finds where a service is, or says why it is nowhere.
pub type Resolve = Box<dyn Fn(&Backend) -> Result<Place, String> + Send + Sync>;

/// The other servers, and the connections to them.
pub struct Aggregator {
    resolve: Resolve,
    identity: Option<Identity>,
    clock: Arc<dyn Clock>,
    registered: watch::Sender<Arc<[Arc<Known>]>>,
    learned: RwLock<Arc<Others>>,
    /// Counts the changes of what is learned.
    changes: watch::Sender<u64>,
    tasks: Tasks,
}

/// A version that is registered, and how its server is reached.
#[derive(Debug)]
pub(crate) struct Known {
    pub remote: Remote,
    line: Arc<Line>,
}

/// What drives connections. They end when the server does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

// === impl Aggregator ===

impl Aggregator {
    /// Nobody is registered at first.
    pub fn new(identity: Option<Identity>, clock: Arc<dyn Clock>, resolve: Resolve) -> Arc<Self> {
        Arc::new(Self {
            resolve,
            identity,
            clock,
            registered: watch::Sender::new(Arc::from([])),
            learned: RwLock::default(),
            changes: watch::Sender::default(),
            tasks: Tasks::default(),
        })
    }

    /// A server that stands alone.
    pub fn none(clock: Arc<dyn Clock>) -> Arc<Self> {
        Self::new(None, clock, Box::new(|_| Err("there are no services".to_owned())))
    }

    /// These are all versions that others serve, from now on. Connections to those that were known before are kept.
    pub fn register(&self, remotes: Vec<Remote>) {
        self.registered.send_if_modified(|known| {
            if known.iter().map(|one| &one.remote).eq(&remotes) {
                return false;
            }
            *known = remotes
                .into_iter()
                .map(|remote| self.known(known, remote))
                .collect();
            true
        });
        self.tell(None);
    }

    fn known(&self, before: &[Arc<Known>], remote: Remote) -> Arc<Known> {
        let same = |one: &&Arc<Known>| {
            let (old, new) = (&one.remote, &remote);
            (&old.name, &old.service, &old.trust) == (&new.name, &new.service, &new.trust)
        };
        let line = match before.iter().find(same) {
            Some(known) => known.line.clone(),
            None => Arc::new(Line::new(&remote, self.identity.as_ref(), self.tasks.clone())),
        };
        Arc::new(Known { remote, line })
    }

    /// Who serves what a request asks for, if that is somebody else.
    pub(crate) fn find(&self, asked: &Asked<'_>) -> Option<Arc<Known>> {
        if self.registered.borrow().is_empty() {
            return None;
        }
        match &asked.place {
            Asking::Resource(address) => {
                let resource = &address.target.resource;
                self.find_version(&resource.group, &resource.version)
            }
            Asking::Path(path) => match path.strip_prefix("/openapi/v3/") {
                Some(document) => {
                    let other = self.others();
                    let other = other.find_document(document)?;
                    self.find_version(&other.group, &other.version)
                }
                None => {
                    let rest = path.strip_prefix("/apis/")?;
                    let (group, version) = rest.trim_end_matches('/').split_once('/')?;
                    self.find_version(group, version)
                }
            },
        }
    }

    fn find_version(&self, group: &str, version: &str) -> Option<Arc<Known>> {
        let registered = self.registered.borrow();
        let mut found = registered.iter().filter(|one| !one.remote.group.is_empty());
        found
            .find(|one| one.remote.group == group && one.remote.version == version)
            .cloned()
    }

    /// Whether somebody else serves a resource.
    pub(crate) fn serves(&self, resource: &Gvr) -> bool {
        self.find_version(&resource.group, &resource.version).is_some()
    }

    /// What the others serve, as far as is known. The same value, by its place, until that changes.
    pub(crate) fn others(&self) -> Arc<Others> {
        self.learned.read().clone()
    }

    /// Every resource that others serve and that is known now.
    pub fn resources(&self) -> Vec<Resource> {
        self.others().resources()
    }

    /// The versions of which it is not known what they hold, as `group/version`.
    pub fn unknown(&self) -> Vec<String> {
        self.others().unknown()
    }

    /// Tells when [`Aggregator::resources`] or [`Aggregator::unknown`] changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Keeps asking what the others serve until stopped, then breaks off every connection.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            never = self.learn() => match never {},
        }
        self.tasks.stop.cancel();
        self.tasks.tracker.close();
        self.tasks.tracker.wait().await;
    }
}

impl fmt::Debug for Aggregator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registered = self.registered.borrow();
        let names = registered.iter().map(|one| &one.remote.name);
        f.debug_list().entries(names).finish()
    }
}

// === impl Tasks ===

impl Tasks {
    /// Runs something until it ends or the server does.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }
}

// === impl Backend ===

impl Backend {
    /// The name that the server's certificate must be good for.
    fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

#[cfg(test)]
mod tests;
