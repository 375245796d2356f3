//! What a cluster must be told before a controller can run in it: its kinds, its rights, its webhooks and its pod.
//!
//! Everything comes from the types and from the builder: the definitions from the derive, the role from what the
//! controllers say they watch, own and may. So the manifests cannot fall behind the code. Nothing here talks to a server.
//!
//! Start reading at [`Manifests`]; [`schema`] is for fields whose types do not say what they are.

mod hooks;
mod list;
mod roles;
pub mod schema;

pub use hooks::{FailurePolicy, Hook};
pub use list::Manifests;
