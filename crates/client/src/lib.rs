//! Talking to the API: a typed handle over [`setpoint_api::Serve`], and its implementation over HTTPS.
//!
//! A [`Client`] cannot tell whether its server is in the same process or at the other end of a connection. It asks once
//! and hands on the answer: it caches nothing, follows nothing by itself and retries only where it is told to.
//!
//! Start reading at [`client`] and [`handle`], then [`http`] for the way to a remote server.

#![warn(missing_docs)]

pub mod client;
pub mod discovery;
pub mod dynamic;
pub mod handle;
pub mod http;
pub mod kubeconfig;
pub mod metadata;
pub mod pages;
pub mod patch;
pub mod retry;
pub mod stored;
pub mod typed;

pub use client::Client;
pub use discovery::{ApiResource, Mapper};
pub use dynamic::Dynamic;
pub use handle::{Handle, Listed};
pub use http::Http;
pub use kubeconfig::Kubeconfig;
pub use pages::Pages;
pub use patch::Patch;
pub use retry::retry_on_conflict;
pub use typed::{Object, Typed};
