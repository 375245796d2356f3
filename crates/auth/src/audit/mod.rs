//! The audit log: who asked what, when, and what came of it.
//!
//! A [`Policy`] says how much is told about a request; a [`Record`] follows one request and writes a line at each of its
//! stages; the [`Log`] takes the lines to where they are kept. Policy and record are pure; only the log's writer does I/O.
//!
//! The formats are those of `audit.k8s.io/v1`, `staging/src/k8s.io/apiserver/pkg/apis/audit/v1/types.go` in Kubernetes.
//!
//! Start reading at [`policy`], then [`record`].

pub mod event;
pub mod file;
pub mod log;
pub mod policy;
pub mod record;

pub use event::Event;
pub use file::{Limits, RotatingFile};
pub use log::{Log, Writer};
pub use policy::{Level, Policy, Stage};
pub use record::Record;
