//! The scheduler: finds a node for every pod that has none, and binds it there.
//!
//! A scheduling cycle is pure: a pod, a snapshot of the nodes and a list of plugins in; a node, or the reasons why no node
//! fits, out. Scheduling is optimistic: several schedulers may work on the same pods, and the API server accepts the first
//! binding of each. The scheduler writes nothing but bindings, the PodScheduled condition, and events.
//!
//! Start reading at [`cycle`] for the scheduling cycle, then [`scheduler`] for the loop around it.

mod bind;
pub mod configuration;
pub mod cycle;
pub mod explain;
#[cfg(test)]
mod fixtures;
pub mod framework;
pub mod metrics;
pub mod plugins;
pub mod pod_info;
pub mod queue;
mod report;
pub mod resources;
pub mod scheduler;
pub mod state;
mod state_change;

pub use plugins::default_profile;
pub use scheduler::{Config, DEFAULT_NAME, run};
