//! The built-in controllers, one folder each.
//!
//! A controller reads the caches, plans (in a `plan.rs` that is pure) and acts through the API, like any other
//! client. It knows no other controller, keeps nothing that it could not read again, and cannot name the server.
//! To add one: a folder here and a line in [`all()`]; those that are the API server's own are in [`of_server()`].
//!
//! Start reading at [`replica_set`].

pub mod account_tokens;
pub mod all;
pub mod api_service;
pub mod autoscaler;
pub mod bootstrap;
pub mod certificates;
pub mod claim_protection;
pub mod class_protection;
pub mod cluster_role_aggregation;
pub mod cron_job;
pub mod daemon_set;
pub mod deployment;
pub mod device_taint_eviction;
pub mod disruption;
pub mod endpoint_mirroring;
pub mod endpoint_slice;
pub mod endpoints;
pub mod ephemeral_volume;
pub mod flow_schema;
pub mod garbage_collector;
pub mod job;
pub mod namespace;
pub mod node_ipam;
pub mod node_lifecycle;
pub mod node_ttl;
pub mod pod_gc;
pub mod policy_status;
pub mod ranges;
pub mod replica_set;
pub mod resource_claim;
pub mod resource_quota;
pub mod resources;
pub mod root_ca;
pub mod server;
pub mod service_account;
pub mod service_cidr;
pub mod stateful_set;
pub mod storage_migration;
pub mod taint_eviction;
pub mod trust_bundle;
pub mod ttl_after_finished;
pub mod volume_binder;
pub mod volume_expander;
pub mod volume_protection;

mod backends;
mod claims;
mod eviction;
mod expiry;
mod hash;
mod moments;
mod node_fit;
mod periodic;
mod pods;
mod portion;
mod revisions;
mod template;
mod victims;

pub use all::{Config, Named, all, select};
pub use resources::{Resource, Resources, Served};
pub use server::of_server;
