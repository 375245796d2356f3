//! Conformance tests against a running server: its responses are compared with recordings of kube-apiserver and with those
//! of another server, and fuzzed requests are checked for responses that must never occur.
//!
//! A development tool: no other crate's production code depends on it, and it reaches the server over HTTP only. It must
//! never change a response to make it equal; values that may differ become placeholders in [`normalize`], or a row with its
//! reason in the list of known differences.
//!
//! Start reading at [`transcript`] for recorded responses, [`corpus`] and [`differential`] for two servers side by side,
//! [`mutation`] for random requests to both, [`fuzz`] for fuzzed requests to one, [`scheduling`] for the decisions of a
//! scheduler.

pub mod compare;
pub mod corpus;
pub mod differential;
mod etcd;
pub mod fuzz;
mod json_pointer;
pub mod mutation;
pub mod normalize;
pub mod scheduling;
pub mod server;
pub mod time;
pub mod transcript;
pub mod wire;
