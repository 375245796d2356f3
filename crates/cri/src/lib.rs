//! Container runtimes over CRI v1 gRPC: containerd, CRI-O.
//!
//! [`Cri`] implements [`setpoint_container_runtime::Runtime`] on the runtime's socket. It keeps no state of its own but
//! the connection and the pod of each container it saw, so an agent that restarts finds everything in the runtime. It
//! never decides what runs; that is the agent's work. [`containerd`] starts a private containerd for machines that have
//! the binary but no service.
//!
//! Start reading at [`cri`], then `sandbox.rs` and `container.rs`, which implement the traits of these names.

#![warn(missing_docs)]

mod container;
pub mod containerd;
pub mod cri;
mod error;
mod event;
mod image;
mod network_namespace;
pub mod oci;
mod proto;
mod sandbox;
mod spdy;
mod stats;
mod stream;

pub use containerd::Containerd;
pub use cri::Cri;
