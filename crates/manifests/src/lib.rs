//! Manifests of a controller: its CustomResourceDefinitions, its RBAC role, its webhook configurations and its Deployment.
//!
//! Everything is generated from the code: the CRDs from the derive, the role from the resources that the controllers watch,
//! own and request. So the manifests cannot fall behind the code. Nothing here talks to a server.
//!
//! Start reading at [`Manifests`]; [`schema`] has schemas of common field types.

mod manifests;
mod roles;
pub mod schema;
mod webhooks;

pub use manifests::Manifests;
pub use webhooks::{FailurePolicy, Webhook};

/// The examples of the README, compiled with the doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
