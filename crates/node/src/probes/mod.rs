//! Probes of containers: startup, liveness and readiness.
//!
//! All probes of the agent share one heap of due times and one loop, [`Prober::run`]; a probe costs a task only while it
//! is carried out. The reconciler registers the probes of running containers and reads their [`results`]; a result that
//! changes lets the pod be reconciled. What a single outcome means is in [`state`], which is pure.

mod check;
mod get_request;
mod grpc;
mod prober;
mod results;
mod spec;
mod state;
mod tls;

pub(crate) use check::{Endpoint, http_get};
pub(crate) use prober::Prober;
pub(crate) use results::{ContainerProbes, ProbeResults};
