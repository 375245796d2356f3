//! A line to a server on which things go wrong.
//!
//! A [`Proxy`] stands between a client and a [`crate::Served`] cluster and hands on what either says, over real
//! connections, until its [`Plan`] says otherwise: connections are cut and stall, requests are refused, events of a watch
//! come twice or not at all. The plan draws from a seed, so a bad run can be had again.
//!
//! Only reads pass: an informer makes no others, and a write whose answer is lost is another subject.
//!
//! Start reading at [`plan`], then [`proxy`].

pub mod plan;
pub mod proxy;

mod chunks;
mod upstream;

pub use plan::{Fault, Odds, Plan};
pub use proxy::{Proxy, Target};
