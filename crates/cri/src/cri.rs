//! [`Cri`]: the client of one container runtime.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use prost::Message;
use setpoint_container_runtime::{
    Error, ErrorKind, Event, EventReceiver, Runtime, RuntimeFuture, RuntimeStatus, RuntimeVersion,
};
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use crate::error::from_status;
use crate::event;
use crate::proto::{Empty, node};
use setpoint_grpc::{Channel, Endpoint, Status};

/// How long a call may take, unless it waits for something.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// How many events a receiver may be behind.
const EVENT_CAPACITY: usize = 1024;

/// The client of a container runtime, by its socket.
#[derive(Debug)]
pub struct Cri {
    pub(crate) channel: Arc<Channel>,
    pub(crate) pods: Arc<PodIndex>,
    events: broadcast::Sender<Event>,
    /// The task that reads the runtime's events; it ends with the client.
    _watcher: JoinSet<()>,
}

/// The pod of each sandbox and container that this client saw, so that events name their pod and the status of a
/// container its sandbox.
#[derive(Debug, Default)]
pub(crate) struct PodIndex {
    entries: Mutex<HashMap<String, PodEntry>>,
}

/// The pod of a sandbox or a container.
#[derive(Debug, Clone)]
pub(crate) struct PodEntry {
    pub(crate) uid: String,
    /// The sandbox itself, or that of the container.
    pub(crate) sandbox: String,
}

// === impl Cri ===

impl Cri {
    /// A client of the runtime at this socket. Fails if the runtime does not respond; a runtime that is restarted later
    /// is connected again.
    pub async fn connect(socket: impl Into<PathBuf>) -> Result<Self, Error> {
        let cri = Self::new(socket);
        cri.version().await?;
        Ok(cri)
    }

    /// A client that connects with its first call. It must be created within a tokio runtime.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        let channel = Arc::new(Channel::new(Endpoint::Unix(socket.into())));
        let pods = Arc::<PodIndex>::default();
        let (events, _) = broadcast::channel(EVENT_CAPACITY);
        let mut watcher = JoinSet::new();
        watcher.spawn(event::run(channel.clone(), pods.clone(), events.clone()));
        Self {
            channel,
            pods,
            events,
            _watcher: watcher,
        }
    }

    /// Calls a method of the runtime service. `kind` is that of errors of the operation itself.
    pub(crate) async fn runtime<Q: Message, A: Message + Default>(
        &self,
        method: &str,
        request: &Q,
        kind: ErrorKind,
    ) -> Result<A, Error> {
        let called = self.runtime_within(method, request, CALL_TIMEOUT).await;
        called.map_err(|status| from_status(&status, kind))
    }

    /// Calls a method of the runtime service that may take as long as this.
    pub(crate) async fn runtime_within<Q: Message, A: Message + Default>(
        &self,
        method: &str,
        request: &Q,
        timeout: Duration,
    ) -> Result<A, Status> {
        let method = format!("runtime.v1.RuntimeService/{method}");
        self.channel.unary(&method, request, timeout, Vec::new()).await
    }

    async fn runtime_status(&self) -> Result<RuntimeStatus, Error> {
        let response: node::StatusResponse = self.runtime("Status", &Empty {}, ErrorKind::Other).await?;
        let conditions = response.status.unwrap_or_default().conditions;
        let reason = |name: &str| match conditions.iter().find(|one| one.r#type == name) {
            Some(condition) if condition.status => None,
            Some(condition) => Some(format!("{}: {}", condition.reason, condition.message)),
            None => Some(format!("the runtime reports no condition {name}")),
        };
        Ok(RuntimeStatus {
            runtime_not_ready: reason("RuntimeReady"),
            network_not_ready: reason("NetworkReady"),
        })
    }
}

impl Runtime for Cri {
    fn version(&self) -> RuntimeFuture<'_, RuntimeVersion> {
        Box::pin(async move {
            let request = node::VersionRequest {
                version: "0.1.0".to_owned(),
            };
            let response: node::VersionResponse = self.runtime("Version", &request, ErrorKind::Other).await?;
            let version = response.runtime_version;
            Ok(RuntimeVersion {
                name: response.runtime_name,
                version: version.strip_prefix('v').unwrap_or(&version).to_owned(),
            })
        })
    }

    fn status(&self) -> RuntimeFuture<'_, RuntimeStatus> {
        Box::pin(self.runtime_status())
    }

    fn subscribe(&self) -> EventReceiver {
        self.events.subscribe()
    }
}

// === impl PodIndex ===

impl PodIndex {
    pub(crate) fn insert(&self, id: &str, uid: &str, sandbox: &str) {
        let entry = PodEntry {
            uid: uid.to_owned(),
            sandbox: sandbox.to_owned(),
        };
        self.entries.lock().insert(id.to_owned(), entry);
    }

    pub(crate) fn remove(&self, id: &str) {
        self.entries.lock().remove(id);
    }

    /// Removes a sandbox with its containers, which the runtime has removed together.
    pub(crate) fn remove_sandbox(&self, sandbox: &str) {
        self.entries.lock().retain(|_, entry| entry.sandbox != sandbox);
    }

    pub(crate) fn find(&self, id: &str) -> Option<PodEntry> {
        self.entries.lock().get(id).cloned()
    }

    /// The uid of the pod that a sandbox or container belongs to, if this client saw it.
    pub(crate) fn uid(&self, id: &str) -> Option<String> {
        self.find(id).map(|entry| entry.uid)
    }
}

/// The time of a number of nanoseconds since the Unix epoch, which is what CRI has.
pub(crate) fn time(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_sandbox_takes_its_containers_out_of_the_index() {
        let pods = PodIndex::default();
        for (id, uid, sandbox) in [("s1", "a", "s1"), ("c1", "a", "s1"), ("s2", "b", "s2")] {
            pods.insert(id, uid, sandbox);
        }
        pods.remove_sandbox("s1");
        assert_eq!(pods.uid("c1"), None);
        assert_eq!(pods.uid("s2").as_deref(), Some("b"));
        assert_eq!(pods.entries.lock().len(), 1);
    }
}
