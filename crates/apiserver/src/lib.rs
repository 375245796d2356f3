//! HTTP: connections, paths, filters, media types, discovery and OpenAPI around the one function
//! [`setpoint_api::Serve`].
//!
//! A connection's requests are handled by a [`View`], found by the beginning of their path. A request is parsed by
//! [`request`], passes the filters of `chain` in order, and is executed by `handler`, which
//! calls `Serve` and encodes the result with `respond` or `watch`. There is no route per kind: one path parser and the
//! set of kinds cover all of them. This crate stores no objects and contains no rule of any kind.
//!
//! Start reading at [`serve`], then [`view`] and `chain`.

pub mod aggregate;
mod body;
mod chain;
mod compression;
pub mod connect;
mod discovery;
pub mod etcd_endpoint;
mod filters;
mod handler;
mod header_budget;
pub mod health;
mod memo;
pub mod metrics;
mod negotiate;
mod non_resource;
mod openapi;
mod protobuf;
pub mod request;
pub mod resource_metrics;
mod respond;
pub mod serve;
mod socket;
mod table;
pub mod tls;
pub mod version;
pub mod view;
mod watch;
pub mod webhook_client;

pub use aggregate::Aggregator;
pub use body::{Body, ByteStream};
pub use connect::{Connect, KubeletTls, Network};
pub use filters::audit::Audit;
pub use filters::flow_control::FlowControlConfig;
pub use filters::priority_and_fairness::work_estimator::{ObjectStats, ObjectStatsProvider};
pub use filters::request_header::RequestHeaders;
pub use non_resource::{CustomRoute, RouteFuture, RouteHandler, RouteRequest, RouteResponse};
pub use serve::{Listener, Server};
pub use view::{Config, View, Views};
pub use webhook_client::HttpsWebhookClient;
