//! The node agent (kubelet): starts the pods bound to its nodes and reports their status to the API.
//!
//! One agent may run many nodes; with the simulated runtime, thousands. It reads only pods bound to a node of its own, and
//! writes only their status, its nodes and their leases. Containers are run by an implementation of
//! [`setpoint_container_runtime::Runtime`]; [`simulated`] is one.
//!
//! Start reading at [`agent`], then `pod` for the states of a pod, its plan and its status.

pub mod agent;
pub mod bootstrap;
mod cgroups;
pub mod config;
pub mod container_config;
pub mod eviction;
mod garbage_collection;
mod heartbeat;
mod image_pulls;
mod lease;
pub mod local_path;
pub mod logs;
mod loops;
mod machine_facts;
pub mod machine_usage;
mod node_health;
mod node_object;
mod pod;
mod pod_view;
mod probes;
mod relist;
mod runtime_events;
pub mod server;
mod shutdown;
pub mod simulated;
mod static_pods;
mod status_update;
mod tasks;
pub mod volumes;

pub use agent::run;
pub use config::{Config, HostConfig, Machine, RuntimeConfig};
pub use garbage_collection::ImageGcPolicy;
pub use shutdown::Shutdown;
pub use static_pods::StaticPodSource;
