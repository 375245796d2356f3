//! The API without HTTP: the verbs, over the store and the caches, by the rules of the kinds.
//!
//! [`Registry`] implements [`setpoint_api::Serve`]. A write runs through the steps of its verb in `verbs/` into the
//! store; the feed applies committed changes to the caches; reads and watches are served from the caches, once these
//! have reached the revision that the store had when the request came in.
//!
//! This crate names no kind: what differs from kind to kind is behind [`setpoint_strategy::Kind`]. It knows no HTTP, and
//! it is the only crate where a store's revision becomes a resource version.
//!
//! Start reading at [`registry`], then `verbs/create.rs`.

pub mod registry;

pub mod watch_caches;

mod backend;

pub mod etcd_layout;

mod admission;

mod request_context;

mod decode;

mod commit;
mod confirmed_read;
mod connect;

mod verbs;

mod subresources;

mod conversion;
mod convert;
mod crd;
mod deletion;
mod encoded_object;
mod field_managers;
mod names;
mod object_size;
mod owner_references;
mod page;
mod ranges;
mod served_resources;
mod side_writes;
mod stored_object;
mod write_txn;

mod bootstrap;
mod error;
mod feed;
mod key;
mod large_requests;
mod maintenance;
mod metrics;
mod reconciled_objects;

pub use backend::Stores;
pub use error::Error;
pub use etcd_layout::EtcdLayout;
pub use metrics::{Metrics, VerbMetrics};
pub use registry::{Config, Registry};
pub use watch_caches::WatchCaches;
