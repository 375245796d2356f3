//! HTTP: connections, paths, filters, media types, discovery and OpenAPI around the one function [`setpoint_api::Serve`].
//!
//! A request is understood by [`request`], passes the filters of `chain` in order, and is carried out by `handler`,
//! which calls `Serve` and lets `respond` or `watch` write the answer. There is no route per kind: one parser and the
//! table of kinds answer for all of them. This room keeps no objects and knows no rule of a kind.
//!
//! Start reading at [`serve`], then `chain`.

pub mod aggregate;
mod body;
mod chain;
pub mod connect;
mod discovery;
mod filters;
mod handler;
pub mod health;
mod made;
mod member;
pub mod metrics;
mod negotiate;
mod openapi;
mod paths;
mod protobuf;
pub mod request;
mod respond;
pub mod serve;
mod table;
pub mod tls;
mod told;
pub mod version;
mod watch;
mod websocket;
mod zip;

pub use aggregate::Aggregator;
pub use body::{Body, Pieces};
pub use connect::{Connect, Network};
pub use filters::record::Audit;
pub use paths::{Answering, Extra};
pub use serve::{Config, Server};
