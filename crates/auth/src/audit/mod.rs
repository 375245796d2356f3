//! The audit log: which user made which request when, and its outcome.
//!
//! A [`Policy`] specifies how much of a request is logged; a [`Record`] collects the event of one request and formats a
//! line at each stage; the [`Log`] writes the lines. Policy and record are pure; only the log's writer does I/O.
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
