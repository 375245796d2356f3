//! Object patches: operations on Kubernetes objects that a hook writes to `KUBERNETES_PATCH_PATH`.

mod execute;
mod operation;

pub use operation::{Change, Deletion, ObjectRef, Operation, parse_operations};

pub(crate) use execute::Patcher;
