//! The rules of the built-in kinds: names, defaults, validation, printer columns, versions and subresources.
//!
//! A kind implements [`Strategy`](setpoint_strategy::Strategy) in a file of its own, in the folder of its API group;
//! [`builtin`] lists all of them. No code outside this crate has a condition on a particular kind.
//!
//! A rule here sees the object, its old version and the [`RequestFacts`](setpoint_strategy::RequestFacts). It never
//! looks at another object, never awaits, never reads a clock, and does no I/O: rules about other objects belong to
//! admission, actions to controllers.
//!
//! Start reading at [`setpoint_strategy::strategy`], then [`core::config_map`] for the smallest kind.

mod builtin;

pub mod shared;

pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod apps;
pub mod authentication;
pub mod authorization;
pub mod autoscaling;
pub mod batch;
pub mod bootstrap;
pub mod certificates;
pub mod coordination;
pub mod core;
pub mod discovery;
pub mod events;
pub mod flowcontrol;
pub mod metrics;
pub mod networking;
pub mod node_k8s;
pub mod policy;
pub mod rbac;
pub mod resource;
pub mod scheduling;
pub mod storage;
pub mod storagemigration;

pub use builtin::builtin;
