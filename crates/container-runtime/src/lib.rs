//! The interface between the node agent and what runs containers: sandboxes, containers, images, streams, events.
//!
//! It follows the Container Runtime Interface (CRI): a sandbox holds the namespaces and the network of one pod, and its
//! containers are created, started, stopped and removed one by one. A runtime knows nothing of the Kubernetes API; pods
//! and containers are recognized by the labels of their configuration. Calls may be repeated: stopping what has
//! stopped and removing what is gone succeeds.
//!
//! Start reading at [`Runtime`]; [`sandbox`], [`container`], [`image`] and [`stream`] have one trait each.

#![warn(missing_docs)]

pub mod container;
#[cfg(feature = "contract")]
pub mod contract;
pub mod error;
pub mod event;
pub mod image;
pub mod sandbox;
pub mod stats;
pub mod stream;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

pub use container::{
    ContainerConfig, ContainerId, ContainerRecord, ContainerService, ContainerState, ExitStatus,
};
pub use error::{Error, ErrorKind};
pub use event::{Event, EventReceiver};
pub use image::{Image, ImageService, PullCredentials};
pub use sandbox::{PodIdentity, SandboxConfig, SandboxId, SandboxRecord, SandboxService, SandboxState};
pub use stats::{ContainerStats, StatsService};
pub use stream::{ExecOutput, ExecRequest, StreamService, Streams};

/// The future of a runtime call.
pub type RuntimeFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Runs the containers of one node, or of many simulated ones.
pub trait Runtime:
    SandboxService + ContainerService + ImageService + StreamService + StatsService + fmt::Debug + Send + Sync
{
    /// The name and version of the runtime, as in `containerd` and `1.6.20`.
    fn version(&self) -> RuntimeFuture<'_, RuntimeVersion>;

    /// Whether the runtime and its pod network are ready.
    fn status(&self) -> RuntimeFuture<'_, RuntimeStatus>;

    /// Subscribes to changes of sandboxes and containers. Events are hints: a receiver that lags or misses one finds the
    /// state by [`SandboxService::list_sandboxes`] and [`ContainerService::list_containers`].
    fn subscribe(&self) -> EventReceiver;
}

/// The name and version of a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeVersion {
    /// The name, which is the scheme of container ids in pod statuses too: `containerd`.
    pub name: String,
    /// The version, without a leading `v`.
    pub version: String,
}

/// The two conditions of a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeStatus {
    /// Why the runtime is not ready; `None` if it is.
    pub runtime_not_ready: Option<String>,
    /// Why the pod network is not ready; `None` if it is.
    pub network_not_ready: Option<String>,
}

impl fmt::Display for RuntimeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.name, self.version)
    }
}
