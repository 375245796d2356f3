//! Admission plugins: rules that look at other objects before a write.
//!
//! Validation of a kind sees only the object; a plugin here may look at others: does the namespace exist, is the quota
//! exceeded. [`Chain`] runs the plugins in order, inside each write, on every attempt.
//!
//! A plugin never writes, and rejects with Kubernetes' messages. Objects that must change together with the written one are
//! added to the review as side writes. Only webhooks wait: they are called over the network.
//!
//! Start reading at [`chain`], then `plugins/namespace_lifecycle.rs`.

pub mod chain;

mod admission_request;
mod expressions;
mod matching;
mod object_form;
mod plugins;

mod policy_types;
mod resource_list;
mod review;

pub use chain::{AccessAttributes, AccessChecker, Chain, Config, ConfigError, Plugin, WaitingPlugin};
pub use plugins::webhook::{WebhookMetrics, Webhooks};
pub use policy_types::{ExpressionWarning, check_policy_types};
