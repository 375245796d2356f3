//! Pods: the worker that brings each pod bound to a node of the agent to the state that the API demands.
//!
//! A pod is in one of these states, all of which follow from the API and the runtime, so that a restarted agent
//! continues where its predecessor stopped:
//!
//! ```text
//!  admitted ──▶ starting ──▶ running ──▶ ended ──┐
//!     │             │  ▲        │                 ├──▶ terminating ──▶ removed
//!     ▼             └──┴────────┴─────────────────┘
//!  rejected
//! ```
//!
//! * *rejected*: the node cannot run it; its phase is Failed, and nothing of it is started.
//! * *starting*, *running*: [`plan`] computes what is missing: a sandbox, init containers in order, sidecars, regular
//!   containers, restarts within their back-off.
//! * *ended*: its phase is terminal; what still runs of it is stopped, its containers stay for their logs.
//! * *terminating*: it is deleted; its containers are stopped within the grace period.
//! * *removed*: nothing of it is in the runtime, and the object is deleted from the API.
//!
//! One [`reconciler`] serves all pods. A step observes the runtime, plans, carries the plan out ([`work`]) and reports the
//! [`status`]. Work that does not complete at once goes on in a task, whose end reconciles the pod again; so do events of
//! the runtime, results of probes, and the end of a back-off.

pub(crate) mod admission;
mod backoff;
pub(crate) mod bound_pod;
pub(crate) mod events;
mod hooks;
mod images;
pub(crate) mod observed;
pub(crate) mod plan;
mod pull_secrets;
pub(crate) mod reconciler;
pub(crate) mod record;
pub(crate) mod resize;
pub(crate) mod setup;
pub(crate) mod status;
mod step;
mod termination;
pub(crate) mod work;
