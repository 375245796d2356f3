//! Plain values that several components compute with: CIDRs, cron schedules, sets of completion indexes, resource lists,
//! quota usage, tolerations, node selectors, metrics.
//!
//! Each has Kubernetes' semantics and is written once, so that the validation of an object and the controller that acts
//! on it agree. A value is made from text or numbers and compared, combined or written; nothing here reads an object
//! from a cache, a clock or a file, and nothing waits.
//!
//! Start reading at any module; only [`quota`] depends on another, on [`resource_list`].

#![warn(missing_docs)]

pub mod cidr;
#[cfg(feature = "cron")]
pub mod cron;
pub mod indexes;
pub mod int_or_percent;
pub mod metrics;
pub mod node_selector;
pub mod quota;
pub mod resource_list;
pub mod toleration;

pub use cidr::Cidr;
pub use resource_list::ResourceList;
