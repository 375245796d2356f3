//! Configuration of a pod's sandbox.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1;
use setpoint_container_runtime::sandbox::PortMapping;
use setpoint_container_runtime::{PodIdentity, SandboxConfig};

use super::qos::{QosClass, qos_class};
use super::{ConfigError, NodeFacts, dns, identity, labels, security, spec};

/// The longest host name.
const MAX_HOSTNAME_CHARS: usize = 63;
/// The longest name that the kernel keeps.
const MAX_FQDN_CHARS: usize = 64;

/// The configuration of the first sandbox of a pod; the caller counts the attempts.
pub fn sandbox_config(pod: &v1::Pod, node: &NodeFacts) -> Result<SandboxConfig, ConfigError> {
    let spec = spec(pod);
    let [name, namespace, uid] = identity(pod);
    let context = spec.security_context.clone().unwrap_or_default();
    let namespaces = security::namespaces(&spec);
    if !namespaces.host_users {
        // The pod must not run with the users of the host instead.
        return Err(ConfigError(
            "RuntimeClass handler \"\" does not support user namespaces".to_owned(),
        ));
    }
    let hostname = match namespaces.host_network {
        true => String::new(),
        false => kernel_hostname(pod, node)?,
    };
    let sysctls = context.sysctls.iter().flatten();
    Ok(SandboxConfig {
        pod: PodIdentity {
            node: node.name.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        },
        attempt: 0,
        hostname,
        log_directory: log_directory(pod, node).display().to_string(),
        dns: Some(dns::dns_config(pod, node)),
        port_mappings: port_mappings(&spec),
        labels: labels::sandbox_labels(pod),
        annotations: pod.metadata.annotations.clone().unwrap_or_default(),
        namespaces,
        cgroup_parent: cgroup_parent(pod, node),
        sysctls: sysctls
            .map(|sysctl| (sysctl.name.clone(), sysctl.value.clone()))
            .collect::<BTreeMap<_, _>>(),
        privileged: has_privileged_container(&spec),
        run_as_user: context.run_as_user,
        run_as_group: context.run_as_group,
        supplemental_groups: security::supplemental_groups(&context),
        handler: String::new(),
    })
}

/// The cgroup of a pod: below that of its class, which guaranteed pods have not.
pub fn cgroup_parent(pod: &v1::Pod, node: &NodeFacts) -> String {
    let root = node.cgroup_root.trim_end_matches('/');
    let [_, _, uid] = identity(pod);
    match qos_class(pod) {
        QosClass::Guaranteed => format!("{root}/pod{uid}"),
        QosClass::Burstable => format!("{root}/burstable/pod{uid}"),
        QosClass::BestEffort => format!("{root}/besteffort/pod{uid}"),
    }
}

/// The directory of the logs of a pod, named as other tools expect it.
pub fn log_directory(pod: &v1::Pod, node: &NodeFacts) -> PathBuf {
    let [name, namespace, uid] = identity(pod);
    node.logs_root.join(format!("{namespace}_{name}_{uid}"))
}

/// The host name and the domain of a pod.
pub(super) fn hostname_and_domain(pod: &v1::Pod, node: &NodeFacts) -> Result<(String, String), ConfigError> {
    let spec = spec(pod);
    let [name, namespace, _] = identity(pod);
    if let Some(hostname) = &spec.hostname_override {
        return Ok((truncate_hostname(name, hostname)?, String::new()));
    }
    let hostname = spec
        .hostname
        .as_deref()
        .filter(|hostname| !hostname.is_empty())
        .unwrap_or(name);
    let domain = match spec.subdomain.as_deref() {
        Some(subdomain) if !subdomain.is_empty() => {
            format!("{subdomain}.{namespace}.svc.{}", node.cluster_domain)
        }
        _ => String::new(),
    };
    Ok((truncate_hostname(name, hostname)?, domain))
}

fn truncate_hostname(pod: &str, hostname: &str) -> Result<String, ConfigError> {
    if hostname.len() <= MAX_HOSTNAME_CHARS {
        return Ok(hostname.to_owned());
    }
    let truncated = hostname[..hostname.floor_char_boundary(MAX_HOSTNAME_CHARS)].trim_end_matches(['-', '.']);
    match truncated {
        "" => Err(ConfigError(format!(
            "hostname for pod {pod:?} was invalid: {hostname:?}"
        ))),
        _ => Ok(truncated.to_owned()),
    }
}

/// The host name as the kernel has it: with the domain if the pod wants that.
fn kernel_hostname(pod: &v1::Pod, node: &NodeFacts) -> Result<String, ConfigError> {
    let (hostname, domain) = hostname_and_domain(pod, node)?;
    if domain.is_empty() || spec(pod).set_hostname_as_fqdn != Some(true) {
        return Ok(hostname);
    }
    let fqdn = format!("{hostname}.{domain}");
    let length = fqdn.len();
    if length > MAX_FQDN_CHARS {
        return Err(ConfigError(format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long \
             ({MAX_FQDN_CHARS} characters is the max, {length} characters requested)"
        )));
    }
    Ok(fqdn)
}

/// The ports of the containers that are forwarded from the host.
fn port_mappings(spec: &v1::PodSpec) -> Vec<PortMapping> {
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let containers = sidecars.chain(&spec.containers);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    let mapping = |port: &v1::ContainerPort| {
        Some(PortMapping {
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            container_port: u16::try_from(port.container_port).ok()?,
            host_port: u16::try_from(port.host_port?).ok().filter(|port| *port != 0)?,
            host_ip: port.host_ip.clone().unwrap_or_default(),
        })
    };
    ports.filter_map(mapping).collect()
}

fn has_privileged_container(spec: &v1::PodSpec) -> bool {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let privileged = |context: &v1::SecurityContext| context.privileged == Some(true);
    let mut contexts = containers.filter_map(|container| container.security_context.as_ref());
    contexts.any(privileged)
}
