//! The [`Runtime`] trait, which runs the containers of a pod, and its implementations.
//!
//! A runtime knows pods and containers and nothing of the API. Calls are level-triggered and may be repeated: each names the
//! desired state, and its result reports the progress.

mod containers_state;
mod simulated;

use std::fmt;
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::Key;

pub use simulated::SimulatedRuntime;

use crate::config::Machine;
use crate::pod::Pod;

/// Runs pods on machines.
pub trait Runtime: fmt::Debug + Send + Sync {
    /// Starts the pod. Called again until it runs, and whenever the pod changes.
    fn start(&self, request: SyncPod<'_>) -> RuntimeFuture<'_, Sandbox>;

    /// Stops the pod. Called again until it has stopped.
    fn stop(&self, request: KillPod<'_>) -> RuntimeFuture<'_, ()>;

    /// The pod was deleted from the API: everything left of it is removed.
    fn forget(&self, key: &Key);
}

/// The future of a runtime call.
pub type RuntimeFuture<'a, T> = Pin<Box<dyn Future<Output = Result<Progress<T>, Error>> + Send + 'a>>;

/// How far a runtime call has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress<T> {
    Done(T),
    /// Not done yet; to be called again after this.
    Wait(Duration),
}

/// Request to run a pod.
#[derive(Debug, Clone, Copy)]
pub struct SyncPod<'a> {
    pub machine: &'a Machine,
    pub key: &'a Key,
    pub pod: &'a Pod,
    pub now: Timestamp,
}

/// Request to stop a pod.
#[derive(Debug, Clone, Copy)]
pub struct KillPod<'a> {
    pub key: &'a Key,
    pub uid: &'a str,
    /// The grace period of its containers.
    pub grace: Duration,
    pub now: Timestamp,
}

/// A started pod, as the runtime reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    pub address: Ipv4Addr,
    pub started: Timestamp,
    /// The scheme of container ids.
    pub scheme: &'static str,
    pub containers: ContainersState,
}

/// The state of the containers of a started pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainersState {
    /// Running since then, after this many restarts. `recheck_after` is when that may change by itself.
    Running {
        since: Timestamp,
        restarts: i32,
        recheck_after: Option<Duration>,
    },
    /// Terminated, and not restarted.
    Terminated { exit_code: i32, at: Timestamp },
}

/// Why a runtime call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("no pod address is left on node {0:?}")]
    NoAddress(String),
}
