//! What a controller author uses, on any Kubernetes: caches kept current, keys in a queue, reconciles until it is done.
//!
//! ```text
//! Serve -> reflector -> Cache -> informer -> Queue -> controller -> Reconcile -> Client -> Serve
//! ```
//!
//! In the server's own process the first arrow is not needed: the caches are the server's. A controller cannot tell. The
//! room knows no kind but Event, which the recorder writes, and it decides nothing: it brings a key to a reconciler, and
//! does what the outcome says.
//!
//! Start reading at [`reconcile`], then [`controller`], then [`queue`].

#![warn(missing_docs)]

pub mod reconcile;

pub mod controller;
pub mod informer;
pub mod queue;

pub mod activity;
pub mod batches;
pub mod claim;
pub mod conditions;
pub mod delta;
mod endpoints;
pub mod ensure;
pub mod events;
pub mod expectations;
pub mod factory;
pub mod finalizer;
pub mod freshness;
pub mod leader;
pub mod lister;
pub mod manager;
pub mod metrics;
pub mod owner;
pub mod predicate;
pub mod reflector;
pub mod rights;
pub mod webhook;

mod accept;
mod worker;

pub use setpoint_cache::{Cache, Caches, Snapshot, Subscription};
pub use setpoint_client::{Client, Dynamic, Handle, Object, Patch, Typed, retry_on_conflict};

pub use activity::Activity;
pub use controller::{Controller, for_};
pub use ensure::create_or_update;
pub use events::{Recorder, Severity, Sink};
pub use expectations::Expectations;
pub use factory::{Factory, Registration, SharedInformer, Wishes};
pub use informer::{Informer, Notice};
pub use leader::Elector;
pub use lister::Lister;
pub use manager::{Context, Manager};
pub use predicate::Predicate;
pub use queue::{Queue, Taken};
pub use reconcile::{Error, Next, Reconcile};
pub use reflector::Reflector;
pub use rights::Rights;
