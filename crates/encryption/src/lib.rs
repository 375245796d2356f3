//! Encryption at rest: what `--encryption-provider-config` configures, in the formats of kube-apiserver, which can read
//! what this crate writes, and the other way round.
//!
//! [`Encryption`] is the [`setpoint_store::ValueTransformer`] of a server: it finds the providers of a key's resource,
//! seals with the first and opens with the one that matches. The file is validated as kube-apiserver validates it.
//!
//! This crate never writes a key or a plain value to a log or an error.
//!
//! Start reading at [`Encryption`], then `provider.rs`, then `cipher.rs`. Formats:
//! `staging/src/k8s.io/apiserver/pkg/storage/value/encrypt` in Kubernetes.

mod encryption;

mod provider;

mod cipher;

mod config;
mod resource_rules;
mod validation;

mod kms;

pub use config::ConfigError;
pub use encryption::Encryption;
