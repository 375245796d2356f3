//! Files of a pod on the node: its hosts file, and the termination messages of its containers.

use std::io;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1;

use super::{NodeFacts, hosts, identity, sandbox, spec};

/// The file whose content a pod with the host's network sees.
const HOST_HOSTS: &str = "/etc/hosts";

/// The directory of a pod.
pub fn pod_directory(root: &Path, uid: &str) -> PathBuf {
    root.join("pods").join(uid)
}

/// Creates the directory of a pod. Only root may enter it: volumes below it are open to every user, and tokens to those of
/// the containers.
pub(crate) fn create_pod_directory(root: &Path, uid: &str) -> io::Result<()> {
    let directory = pod_directory(root, uid);
    std::fs::create_dir_all(&directory)?;
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o750))
}

/// The hosts file of a pod.
pub fn hosts_path(root: &Path, uid: &str) -> PathBuf {
    pod_directory(root, uid).join("etc-hosts")
}

/// The file that a container writes its termination message to.
pub fn termination_message_path(root: &Path, uid: &str, container: &str, attempt: u32) -> PathBuf {
    let directory = pod_directory(root, uid).join("containers").join(container);
    directory.join(attempt.to_string())
}

/// Creates the directories of a pod and writes its hosts file. It is written again with each container: the addresses
/// of a new sandbox are others.
pub fn prepare_pod(pod: &v1::Pod, node: &NodeFacts, addresses: &[IpAddr]) -> io::Result<()> {
    let spec = spec(pod);
    let [_, _, uid] = identity(pod);
    create_pod_directory(&node.root, uid)?;
    std::fs::create_dir_all(sandbox::log_directory(pod, node))?;
    let aliases = spec.host_aliases.as_deref().unwrap_or_default();
    let content = match spec.host_network {
        Some(true) => hosts::host_network_hosts(&std::fs::read_to_string(HOST_HOSTS)?, aliases),
        _ => {
            let (hostname, domain) = sandbox::hostname_and_domain(pod, node).map_err(io::Error::other)?;
            hosts::pod_hosts(addresses, &hostname, &domain, aliases)
        }
    };
    write(&hosts_path(&node.root, uid), content.as_bytes(), 0o644)
}

/// Creates the directory of a container's logs and the file of its termination message, which any user may write.
pub fn prepare_container(
    pod: &v1::Pod,
    node: &NodeFacts,
    container: &v1::Container,
    attempt: u32,
) -> io::Result<()> {
    let [_, _, uid] = identity(pod);
    std::fs::create_dir_all(sandbox::log_directory(pod, node).join(&container.name))?;
    let path = termination_message_path(&node.root, uid, &container.name, attempt);
    std::fs::create_dir_all(path.parent().unwrap_or(&node.root))?;
    write(&path, b"", 0o666)
}

/// Writes a file with these permissions, whatever the process's mask.
fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    std::fs::write(path, content)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_pod_is_closed_to_other_users_of_the_node() {
        let root = tempfile::tempdir().unwrap();
        create_pod_directory(root.path(), "u").unwrap();
        let metadata = std::fs::metadata(pod_directory(root.path(), "u")).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o750);
    }
}
