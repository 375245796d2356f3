//! The scheduler: finds a node for every pod that has none, and binds it there.
//!
//! A scheduling cycle is pure: a pod, the cluster state and a profile of plugins in; a node, or the reasons why no node
//! fits, out. Scheduling is optimistic twice: workers plan in parallel on one shared state and commit if their node did not
//! change, and several schedulers may work on the same pods, of whose bindings the API server accepts the first. Of a pod,
//! the scheduler writes nothing but its binding and its status; it deletes the pods that it preempts.
//!
//! Start reading at [`cycle`] for the scheduling cycle, then [`scheduler`] for the loop around it, then [`framework`] to
//! write a plugin.

mod bind;
pub mod configuration;
pub mod cycle;
pub mod explain;
pub mod extender;
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
pub use scheduler::{Config, DEFAULT_NAME, resources_to_watch, run};
