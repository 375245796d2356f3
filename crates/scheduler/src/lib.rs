//! The scheduler: finds a node for every pod that has none, and binds it there.
//!
//! A decision is pure: a pod, a picture of the nodes and a list of rules in, a place or the reasons against all
//! places out. It is optimistic: several schedulers may work on the same pods, and the API takes the first binding
//! of each. The scheduler writes nothing but bindings, the condition that says why a pod waits, and events.
//!
//! Start reading at [`cycle`] for the decision, then [`scheduler`] for the loop around it.

mod bind;
pub mod cycle;
#[cfg(test)]
mod fixtures;
pub mod framework;
pub mod node_info;
pub mod plugins;
pub mod pod_info;
pub mod queue;
mod report;
pub mod resources;
pub mod scheduler;
pub mod snapshot;

pub use plugins::default_profile;
pub use scheduler::{Config, DEFAULT_NAME, run};
