//! The node agent (kubelet): starts the pods bound to its nodes and reports their status to the API.
//!
//! One agent may run many nodes; with the simulated runtime, thousands. It reads only pods bound to a node of its own, and
//! writes only their status, its nodes and their leases. Containers are run by an implementation of
//! [`runtime::Runtime`].
//!
//! Start reading at [`agent`], then [`pods`] and [`plan`].

pub mod agent;
pub mod config;
mod heartbeat;
mod lease;
mod node_object;
mod plan;
pub mod pod;
mod pods;
pub mod runtime;
mod status;
mod status_update;

pub use agent::run;
pub use config::{Config, Machine};
