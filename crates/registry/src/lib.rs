//! The API without HTTP: the verbs, over the store and the caches, by the rules of the kinds.
//!
//! [`Registry`] implements [`setpoint_api::Serve`]. A write goes through its verb's story in `verbs/` into the store;
//! the feed brings what was committed to the caches; reads and watches are answered from those, once they have reached
//! what the store had when the request came in.
//!
//! This room names no kind: what differs from kind to kind is asked of [`setpoint_kinds::Kind`]. It knows no HTTP, and
//! it is the only place where a store's revision becomes a resource version.
//!
//! Start reading at [`registry`], then `verbs/create.rs`.

pub mod registry;

pub mod admit;

pub mod answer;

mod call;

mod verbs;

mod actions;

mod companions;
mod definitions;
mod deletion;
mod document;
mod managers;
mod names;
mod owners;
mod page;
mod present;
mod ready;
mod table;

mod bootstrap;
mod error;
mod feed;
mod key;
mod metrics;
mod upkeep;

pub use admit::{Admit, AdmitAll, Companion, Operation, Review, Verdict};
pub use answer::{Answer, AnswerNone, Answered, Question};
pub use error::Error;
pub use metrics::{Metrics, VerbMetrics};
pub use registry::{Config, Registry};
