//! The built-in controllers, one folder each.
//!
//! A controller reads the caches, plans (in a `plan.rs` that is pure) and acts through the API, like any other
//! client. It knows no other controller, keeps nothing that it could not read again, and cannot name the server.
//! To add one: a folder here and a line in [`all()`]; those that are the API server's own are in [`of_server()`].
//!
//! Start reading at [`replica_set`].

pub mod all;
pub mod api_service;
pub mod flow_schema;
pub mod garbage_collector;
pub mod namespace;
pub mod replica_set;
pub mod resources;
pub mod server;
pub mod service_account;

pub use all::{Config, Named, all, select};
pub use resources::{Resource, Resources, Served};
pub use server::of_server;
