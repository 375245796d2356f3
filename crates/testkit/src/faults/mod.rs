//! Fault injection between a client and a server, over real connections.
//!
//! A [`FaultProxy`] forwards requests to a [`crate::HttpsServer`] and injects the faults of its [`FaultPlan`]:
//! connections are cut and stall, requests are rejected, watch events are duplicated or dropped. The plan is seeded, so
//! a failing run can be repeated.
//!
//! Only reads are forwarded: an informer makes no others, and a write whose response is lost is another subject.
//!
//! Start reading at [`plan`], then [`proxy`].

pub mod plan;
pub mod proxy;

mod chunks;
mod upstream;

pub use plan::{Fault, FaultPlan, FaultRates};
pub use proxy::{FaultProxy, ServerAddress};
