//! Operators as hook programs: runs executables in a directory on events of Kubernetes objects, on schedules, at start and
//! for the reviews of webhooks.
//!
//! The hooks, their configuration, the files they exchange with this program, flags, environment variables and metrics are
//! those of [shell-operator](https://github.com/flant/shell-operator), so that its hooks run unchanged.
//!
//! ```text
//! informers -> monitor -> Queue -> operator -> executor -> the hook's process
//! API server -> webhook ---------> operator -> executor -> the hook's process
//! ```
//!
//! All monitors share one informer factory: one watch for each resource, namespace and selector, however many hooks use
//! it. Each queue runs its tasks one after another; a task that fails is retried before the next one starts. The crate
//! never drops a task, and never waits for a hook of another queue.
//!
//! Start reading at [`operator`], then [`queue`], [`monitor`] and [`binding_context`].

#![warn(missing_docs)]

pub mod operator;

pub mod binding_context;
pub mod command;
pub mod config;
pub mod hook;
pub mod jq;
pub mod log;
pub mod metrics;
pub mod monitor;
pub mod patch;
pub mod queue;
pub mod webhook;

mod executor;
mod hook_files;
mod http;
mod rate_limit;
mod resource;
mod schedule;
mod tmp_dir;

pub use operator::{Operator, Options};
