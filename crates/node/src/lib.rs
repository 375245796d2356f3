//! The node agent: brings up the pods bound to its nodes and tells the API how they fare.
//!
//! One agent may stand for many nodes; with the simulated runtime, for thousands. It looks only at pods bound to a
//! node of its own, and writes only their status, its nodes and their leases. What actually runs containers is
//! behind the [`runtime::Runtime`] trait.
//!
//! Start reading at [`agent`], then [`pods`] and [`plan`].

pub mod agent;
pub mod config;
mod heartbeat;
mod lease;
mod plan;
mod pods;
mod register;
pub mod runtime;
mod status;

pub use agent::run;
pub use config::{Config, Machine};
