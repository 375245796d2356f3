//! Test environment for controllers and API clients: object builders, and a whole cluster in the test process.
//!
//! There is no fake server here: a test runs against the real registry, on an in-memory store and a clock that only the test
//! moves. Only tests may depend on this crate.
//!
//! [`cluster`] is the in-process cluster, [`https_server`] serves it on a real port, [`interceptor`], [`watch_faults`] and
//! [`faults`] inject failures between a client and the server.
//!
//! Start reading at [`cluster`], then [`builders`].

#![warn(missing_docs)]

pub mod builders;
pub mod canonical_dump;
pub mod clock;
pub mod cluster;
pub mod component;
pub mod crash;
mod custom_kind;
pub mod extension_api_server;
pub mod faults;
pub mod https_server;
pub mod interceptor;
pub mod lagging_caches;
pub mod notification_recorder;
pub mod process;
pub mod quiet;
pub mod watch_faults;

pub use builders::{config_map, deployment, namespace, node, persistent_volume, pod, replica_set, service};
pub use clock::SteppedClock;
pub use cluster::Cluster;
pub use component::{Component, RunningComponent};
pub use crash::{Crash, CrashPoint};
pub use extension_api_server::ExtensionApiServer;
pub use https_server::HttpsServer;
pub use interceptor::{Interceptor, RecordedRequest};
pub use lagging_caches::LaggingCaches;
pub use notification_recorder::NotificationRecorder;
pub use process::{ChildProcess, SetpointProcess};
pub use quiet::StillBusy;
pub use watch_faults::WatchFaults;

/// The examples of the README, compiled with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
