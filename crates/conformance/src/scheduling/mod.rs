//! Scheduling decisions: scripted situations, each a cluster state and a pod, with the decision that kube-scheduler made.
//!
//! The situations are YAML files in `crates/conformance/scheduling/`; the decisions are in `reference/scheduling.jsonl`,
//! recorded from a real kube-scheduler. Both sides see the same objects and are observed through the API only.
//!
//! The set of nodes that fit is found by elimination: every pod under test requests one host port. After it was bound to a
//! node, a pod with that port blocks the node and the next copy of the pod is scheduled, until one is unschedulable. Host
//! ports are the one thing that no plugin which compares nodes depends on; pinning the pod by node affinity instead would
//! change which domains a topology spread constraint counts.
//!
//! `situation` is the file format, `objects` writes objects, `trial` schedules one pod, `volumes` completes the binding of
//! volumes as the controller-manager does, `devices` reads allocations and acts as a DRA driver, `run` has [`record`] and [`check`]. Start reading at [`record`].

mod decision;
mod devices;
mod objects;
mod run;
mod situation;
mod trial;
mod volumes;

pub use decision::{Decision, read_decisions, write_decisions};
pub use run::{Difference, check, record};
pub use situation::{Situation, World, read_worlds};

/// The flags of a Setpoint server for the check: only the scheduler runs. Nodes are objects without a kubelet, so the
/// admission plugin that taints new nodes is off, and pods need no ServiceAccount.
pub const SERVER_FLAGS: &[&str] = &[
    "--memory",
    "--controllers",
    "scheduler",
    "--nodes",
    "0",
    "--disable-admission-plugins",
    "ServiceAccount,TaintNodesByCondition",
];
