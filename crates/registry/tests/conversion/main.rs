//! Custom kinds whose versions a webhook converts: every verb in every version, failures, and changes of the storage
//! version.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../cluster/mod.rs"]
mod cluster;
mod failures;
mod fixture;
mod reads;
mod watches;
mod writes;
