//! The etcd engine: a store whose log is an etcd cluster (3.4 or newer), shared with other servers.
//!
//! [`open`] lists the keys under the codec's prefix at one revision, fills the store's replica with them, and then follows
//! one watch. Transactions go to etcd as they are, with compares on revisions; `setpoint_store` waits until the replica
//! shows them. Everything runs on one thread with a runtime of its own, so that callers need none.
//!
//! What it must never do: interpret values, acknowledge a write of which the outcome is not known, or repeat a write that may
//! have been executed.
//!
//! Start reading at `engine.rs`, then `follow.rs` (list and watch), `txn.rs` (transactions), `client.rs` (endpoints).
//! Protocol: <https://github.com/etcd-io/etcd/blob/main/api/etcdserverpb/rpc.proto>.

mod client;
mod compaction;
mod config;
mod confirm;
mod engine;
mod failure;
mod follow;
mod health;
mod lease;
mod leased_keys;
mod proto;
mod txn;

pub use config::{ConfigError, Credentials, EtcdConfig, TlsFiles};
pub use engine::open;
pub use leased_keys::LeasedKeys;
