//! The agent's HTTP API, as the kubelet's: logs, exec, attach, port-forward, pods, metrics.
//!
//! Connections come from the API server: over TLS, authenticated by a client certificate or a token and authorized by the
//! cluster ([`listener`]), or inside the process ([`local`]). Nothing here changes a pod.
//!
//! Start reading at [`connection::serve`], then `router.rs`.

pub mod agent_api;
mod authorization;
mod body;
mod command;
pub(crate) mod component;
pub mod connection;
mod container_logs;
mod containers;
pub mod listener;
pub mod local;
mod metrics;
mod pod_view;
mod pods;
mod port_forward;
mod query;
mod router;
mod stats;

pub use agent_api::{AgentApi, CachedPods};
pub use authorization::Access;
pub use component::{PortConfig, ServerConfig};
pub use connection::{Server, serve};
pub use listener::{Listener, ServerTls};
pub use local::{LocalConnector, LocalListener};

#[cfg(test)]
mod tests;
