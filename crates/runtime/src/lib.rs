//! Controller library for any Kubernetes: informer caches, a work queue of keys, and the loop that reconciles them.
//!
//! ```text
//! Serve -> reflector -> Cache -> informer -> Queue -> controller -> Reconcile -> Client -> Serve
//! ```
//!
//! In the server's own process the first arrow is not needed: the caches are the server's watch caches. A controller sees
//! no difference. The crate knows no kind but Event, which the recorder writes, and Lease, for leader election. It makes no
//! decisions: it passes a key to a reconciler and requeues the key by the outcome.
//!
//! Start reading at [`reconcile`], then [`controller`], then [`queue`].

#![warn(missing_docs)]

pub mod reconcile;

pub mod controller;
pub mod informer;
pub mod queue;

pub mod activity;
pub mod batches;
pub mod conditions;
pub mod controller_ref;
pub mod create_or_update;
pub mod delta;
pub mod events;
pub mod expectations;
pub mod factory;
pub mod finalizer;
pub mod leader;
pub mod lister;
pub mod manager;
pub mod metrics;
pub mod owner;
pub mod predicate;
pub mod rbac;
pub mod reflector;
pub mod webhook;

mod http_server;
mod probe_server;
mod read_your_writes;
mod tasks;
mod worker;

pub use setpoint_cache::{Cache, Caches, Snapshot, Subscription};
pub use setpoint_client::{
    Api, Client, DynamicApi, Object, Patch, TypedObject, label_selector, retry_on_conflict,
};

pub use activity::Activity;
pub use controller::{Controller, for_};
pub use create_or_update::create_or_update;
pub use events::{EventType, Recorder, Sink};
pub use expectations::Expectations;
pub use factory::{HandlerOptions, Registration, SharedInformer, SharedInformerFactory};
pub use informer::{Event, Informer};
pub use leader::Elector;
pub use lister::Lister;
pub use manager::{Context, Manager};
pub use predicate::Predicate;
pub use queue::{ItemGuard, Queue};
pub use rbac::RbacRules;
pub use reconcile::{Error, Next, Reconcile};
pub use reflector::Reflector;

/// The examples of the README, compiled with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
