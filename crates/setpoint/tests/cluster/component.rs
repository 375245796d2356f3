//! A component of a cluster as a process of its own.

use std::process::{Child, Command, Stdio};

use k8s_openapi::api::coordination::v1::Lease;

use super::Cluster;

/// A running component. It is killed when it is dropped.
pub(crate) struct Component(Child);

impl Component {
    /// Starts `setpoint COMMAND` with the kubeconfig of the cluster.
    pub(crate) fn start(cluster: &Cluster, command: &str, flags: &[&str]) -> Self {
        let process = Command::new(env!("CARGO_BIN_EXE_setpoint"))
            .args([command, "--kubeconfig"])
            .arg(cluster.kubeconfig())
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Self(process.unwrap())
    }

    /// Whether it holds the lease: the identity of the holder ends with the number of its process.
    pub(crate) fn holds(&self, lease: &Lease) -> bool {
        let holder = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.as_deref());
        holder.is_some_and(|holder| holder.ends_with(&format!("_{}", self.0.id())))
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
