//! Sandboxes over CRI.

use std::net::IpAddr;

use setpoint_container_runtime::sandbox::DnsConfig;
use setpoint_container_runtime::{Error, container::Namespaces};
use setpoint_container_runtime::{
    ErrorKind, PodIdentity, RuntimeFuture, SandboxConfig, SandboxId, SandboxRecord, SandboxService,
    SandboxState,
};

use crate::cri::{CALL_TIMEOUT, Cri, time};
use crate::error::from_status;
use crate::proto::container::SecurityProfile;
use crate::proto::{Empty, Int64Value, sandbox as proto, values};

impl SandboxService for Cri {
    fn run_sandbox(&self, config: SandboxConfig) -> RuntimeFuture<'_, SandboxId> {
        Box::pin(async move {
            let request = proto::RunPodSandboxRequest {
                runtime_handler: config.handler.clone(),
                config: Some(encode(&config)),
            };
            let called = self
                .runtime_within("RunPodSandbox", &request, CALL_TIMEOUT * 2)
                .await;
            let response: proto::RunPodSandboxResponse =
                called.map_err(|status| from_status(&status, ErrorKind::Other))?;
            let id = response.pod_sandbox_id;
            self.pods.insert(&id, &config.pod.uid, &id);
            Ok(SandboxId(id))
        })
    }

    fn stop_sandbox(&self, id: &SandboxId) -> RuntimeFuture<'_, ()> {
        let request = request(id);
        Box::pin(async move {
            let stopped: Result<Empty, _> = self.runtime("StopPodSandbox", &request, ErrorKind::Other).await;
            ignore_absent(stopped)
        })
    }

    fn remove_sandbox(&self, id: &SandboxId) -> RuntimeFuture<'_, ()> {
        let request = request(id);
        Box::pin(async move {
            let removed: Result<Empty, _> =
                self.runtime("RemovePodSandbox", &request, ErrorKind::Other).await;
            if removed.is_ok() {
                self.pods.remove_sandbox(&request.pod_sandbox_id);
            }
            ignore_absent(removed)
        })
    }

    fn sandbox(&self, id: &SandboxId) -> RuntimeFuture<'_, Option<SandboxRecord>> {
        let request = proto::PodSandboxStatusRequest {
            pod_sandbox_id: id.0.clone(),
            verbose: false,
        };
        Box::pin(async move {
            let found = self.runtime("PodSandboxStatus", &request, ErrorKind::Other).await;
            let response: proto::PodSandboxStatusResponse = match found {
                Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
                found => found?,
            };
            Ok(response.status.map(record_of_status))
        })
    }

    fn list_sandboxes(&self) -> RuntimeFuture<'_, Vec<SandboxRecord>> {
        Box::pin(async move {
            let response: proto::ListPodSandboxResponse = self
                .runtime("ListPodSandbox", &Empty {}, ErrorKind::Other)
                .await?;
            let records: Vec<_> = response.items.into_iter().map(record_of_item).collect();
            for record in &records {
                self.pods.insert(&record.id.0, &record.pod.uid, &record.id.0);
            }
            Ok(records)
        })
    }
}

fn request(id: &SandboxId) -> proto::PodSandboxRequest {
    proto::PodSandboxRequest {
        pod_sandbox_id: id.0.clone(),
    }
}

/// The outcome of stopping or removing, which succeeds where nothing is left to do.
pub(crate) fn ignore_absent(outcome: Result<Empty, Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if error.kind != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The configuration as CRI has it. It is sent again with each container of the sandbox.
pub(crate) fn encode(config: &SandboxConfig) -> proto::PodSandboxConfig {
    proto::PodSandboxConfig {
        metadata: Some(proto::PodSandboxMetadata {
            name: config.pod.name.clone(),
            uid: config.pod.uid.clone(),
            namespace: config.pod.namespace.clone(),
            attempt: config.attempt,
        }),
        hostname: config.hostname.clone(),
        log_directory: config.log_directory.clone(),
        dns_config: config.dns.as_ref().map(encode_dns),
        port_mappings: config.port_mappings.iter().map(encode_port).collect(),
        labels: config.labels.clone(),
        annotations: config.annotations.clone(),
        linux: Some(proto::LinuxPodSandboxConfig {
            cgroup_parent: config.cgroup_parent.clone(),
            security_context: Some(encode_security(config)),
            sysctls: config.sysctls.clone(),
        }),
    }
}

fn encode_dns(dns: &DnsConfig) -> proto::DnsConfig {
    proto::DnsConfig {
        servers: dns.servers.clone(),
        searches: dns.searches.clone(),
        options: dns.options.clone(),
    }
}

fn encode_port(port: &setpoint_container_runtime::sandbox::PortMapping) -> proto::PortMapping {
    proto::PortMapping {
        protocol: match port.protocol.as_str() {
            "UDP" => values::PROTOCOL_UDP,
            "SCTP" => values::PROTOCOL_SCTP,
            _ => values::PROTOCOL_TCP,
        },
        container_port: i32::from(port.container_port),
        host_port: i32::from(port.host_port),
        host_ip: port.host_ip.clone(),
    }
}

fn encode_security(config: &SandboxConfig) -> proto::LinuxSandboxSecurityContext {
    proto::LinuxSandboxSecurityContext {
        namespace_options: Some(encode_namespaces(config.namespaces)),
        run_as_user: config.run_as_user.map(|value| Int64Value { value }),
        run_as_group: config.run_as_group.map(|value| Int64Value { value }),
        supplemental_groups: config.supplemental_groups.clone(),
        privileged: config.privileged,
        seccomp: Some(SecurityProfile {
            profile_type: values::PROFILE_RUNTIME_DEFAULT,
            localhost_ref: String::new(),
        }),
    }
}

/// The namespaces of a sandbox, and of its containers unless one targets another.
pub(crate) fn encode_namespaces(namespaces: Namespaces) -> proto::NamespaceOption {
    let of_host = |host: bool, otherwise: i32| if host { values::NAMESPACE_NODE } else { otherwise };
    let own_pid = match namespaces.share_process_namespace {
        true => values::NAMESPACE_POD,
        false => values::NAMESPACE_CONTAINER,
    };
    proto::NamespaceOption {
        network: of_host(namespaces.host_network, values::NAMESPACE_POD),
        pid: of_host(namespaces.host_pid, own_pid),
        ipc: of_host(namespaces.host_ipc, values::NAMESPACE_POD),
        target_id: String::new(),
        userns_options: None,
    }
}

fn record_of_status(status: proto::PodSandboxStatus) -> SandboxRecord {
    let network = status.network.unwrap_or_default();
    let addresses = std::iter::once(network.ip).chain(network.additional_ips.into_iter().map(|ip| ip.ip));
    SandboxRecord {
        id: SandboxId(status.id),
        attempt: status.metadata.as_ref().map_or(0, |metadata| metadata.attempt),
        pod: identity(status.metadata.unwrap_or_default()),
        state: state(status.state),
        created_at: time(status.created_at),
        addresses: addresses.filter_map(|ip| ip.parse::<IpAddr>().ok()).collect(),
    }
}

fn record_of_item(item: proto::PodSandbox) -> SandboxRecord {
    SandboxRecord {
        id: SandboxId(item.id),
        attempt: item.metadata.as_ref().map_or(0, |metadata| metadata.attempt),
        pod: identity(item.metadata.unwrap_or_default()),
        state: state(item.state),
        created_at: time(item.created_at),
        addresses: Vec::new(),
    }
}

fn identity(metadata: proto::PodSandboxMetadata) -> PodIdentity {
    PodIdentity {
        node: String::new(),
        namespace: metadata.namespace,
        name: metadata.name,
        uid: metadata.uid,
    }
}

fn state(number: i32) -> SandboxState {
    match number {
        values::SANDBOX_READY => SandboxState::Ready,
        _ => SandboxState::NotReady,
    }
}
