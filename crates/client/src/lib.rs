//! API client: typed handles over [`setpoint_api::Serve`], and an implementation of it over HTTPS.
//!
//! A [`Client`] works the same on a server in this process and on a remote one. It sends one request for each call and
//! returns the response: it keeps no cache, starts no watch by itself, and retries only where the caller requests it.
//!
//! Start reading at [`client`] and [`api`], then [`http`] for remote servers.

#![warn(missing_docs)]

pub mod api;
pub mod client;
pub mod decode;
pub mod discovery;
pub mod dynamic;
pub mod http;
pub mod kubeconfig;
pub mod metadata;
pub mod pager;
pub mod patch;
pub mod retry;
pub mod selector;
pub mod typed_object;

pub use api::{Api, ObjectList};
pub use client::Client;
pub use discovery::{ApiResource, RestMapper};
pub use dynamic::DynamicApi;
pub use http::{ExecOutput, ExecTarget, Http};
pub use kubeconfig::Kubeconfig;
pub use pager::ListPager;
pub use patch::Patch;
pub use retry::retry_on_conflict;
pub use selector::label_selector;
pub use typed_object::{Object, TypedObject};

/// The examples of the README, compiled with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
