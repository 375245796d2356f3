//! `/etc/hosts` of a pod, which the agent writes and mounts into every container.

use std::net::IpAddr;

use k8s_openapi::api::core::v1;

/// The file of a pod with a network of its own.
pub(super) fn pod_hosts(
    addresses: &[IpAddr],
    hostname: &str,
    domain: &str,
    aliases: &[v1::HostAlias],
) -> String {
    let mut text = String::from(
        "# Kubernetes-managed hosts file.\n\
         127.0.0.1\tlocalhost\n\
         ::1\tlocalhost ip6-localhost ip6-loopback\n\
         fe00::0\tip6-localnet\n\
         fe00::0\tip6-mcastprefix\n\
         fe00::1\tip6-allnodes\n\
         fe00::2\tip6-allrouters\n",
    );
    for address in addresses {
        text += &match domain {
            "" => format!("{address}\t{hostname}\n"),
            _ => format!("{address}\t{hostname}.{domain}\t{hostname}\n"),
        };
    }
    text + &alias_lines(aliases)
}

/// The file of a pod that uses the host's network: the host's own, and the pod's aliases.
pub(super) fn host_network_hosts(of_host: &str, aliases: &[v1::HostAlias]) -> String {
    let header = "# Kubernetes-managed hosts file (host network).\n";
    format!("{header}{of_host}{}", alias_lines(aliases))
}

fn alias_lines(aliases: &[v1::HostAlias]) -> String {
    if aliases.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n# Entries added by HostAliases.\n");
    for alias in aliases {
        let names = alias.hostnames.as_deref().unwrap_or_default();
        text += &format!("{}\t{}\n", alias.ip, names.join("\t"));
    }
    text
}
