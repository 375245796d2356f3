//! What runs the containers of a pod: the [`Runtime`] trait and its implementations.
//!
//! A runtime knows pods and containers and nothing of the API. Calls may be repeated: each says what should be, and
//! the answer says how far that has come.

mod life;
mod simulated;

use std::fmt;
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use setpoint_api::Key;

pub use simulated::Simulated;

use crate::config::Machine;

/// Runs pods on a machine.
pub trait Runtime: fmt::Debug + Send + Sync {
    /// Sees to it that the pod runs. Called again until it does, and whenever the pod changed.
    fn start(&self, wanted: Wanted<'_>) -> Work<'_, Sandbox>;

    /// Sees to it that the pod does not run. Called again until it does not.
    fn stop(&self, unwanted: Unwanted<'_>) -> Work<'_, ()>;

    /// The pod is gone from the API: nothing of it may be left.
    fn forget(&self, key: &Key);
}

/// Work under way at a runtime.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = Result<Progress<T>, Error>> + Send + 'a>>;

/// How far the work has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress<T> {
    Done(T),
    /// Not yet; worth another look after this.
    Wait(Duration),
}

/// A pod that should run.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub machine: &'a Machine,
    pub key: &'a Key,
    pub pod: &'a Pod,
    pub now: Timestamp,
}

/// A pod that should not run any more.
#[derive(Debug, Clone, Copy)]
pub struct Unwanted<'a> {
    pub key: &'a Key,
    pub uid: &'a str,
    /// How long its containers may take to end by themselves.
    pub grace: Duration,
    pub now: Timestamp,
}

/// A pod that runs: what the runtime can say of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    pub address: Ipv4Addr,
    pub started: Timestamp,
    /// The scheme of container ids.
    pub scheme: &'static str,
    pub life: Life,
}

/// How the containers of a pod that was started fare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// They run since then, for as often started again, and are worth another look after a while.
    Running {
        since: Timestamp,
        restarts: i32,
        look: Option<Duration>,
    },
    /// They have ended and are not started again.
    Ended { exit_code: i32, at: Timestamp },
}

/// The runtime could not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("no pod address is left on node {0:?}")]
    NoAddress(String),
}
