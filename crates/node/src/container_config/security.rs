//! Security settings of a container: those of the pod, overridden by its own.

use k8s_openapi::api::core::v1;
use setpoint_container_runtime::container::{Namespaces, SeccompProfile, Security};

use super::{ConfigError, ContainerRequest, NodeFacts, format_pod, spec};

const MASKED_PATHS: &[&str] = &[
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];

const READ_ONLY_PATHS: &[&str] = &[
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

pub(super) fn container_security(request: &ContainerRequest<'_>) -> Result<Security, ConfigError> {
    let spec = spec(request.pod);
    let empty = v1::SecurityContext::default();
    let no_pod_context = v1::PodSecurityContext::default();
    let own = request.container.security_context.as_ref().unwrap_or(&empty);
    let of_pod = spec.security_context.as_ref().unwrap_or(&no_pod_context);
    let user = own.run_as_user.or(of_pod.run_as_user);
    if own.run_as_non_root.or(of_pod.run_as_non_root) == Some(true) {
        verify_non_root(request, user)?;
    }
    check_app_armor(
        own.app_armor_profile
            .as_ref()
            .or(of_pod.app_armor_profile.as_ref()),
    )?;
    let unmasked = own.proc_mount.as_deref() == Some("Unmasked");
    let paths = |all: &[&str]| match unmasked {
        true => Vec::new(),
        false => all.iter().map(ToString::to_string).collect(),
    };
    let capabilities = own.capabilities.clone().unwrap_or_default();
    Ok(Security {
        privileged: own.privileged.unwrap_or_default(),
        run_as_user: user.or(request.image.uid),
        run_as_username: match user {
            None => request.image.username.clone(),
            Some(_) => String::new(),
        },
        run_as_group: own.run_as_group.or(of_pod.run_as_group),
        supplemental_groups: supplemental_groups(of_pod),
        strict_supplemental_groups: of_pod.supplemental_groups_policy.as_deref() == Some("Strict"),
        read_only_root: own.read_only_root_filesystem.unwrap_or_default(),
        no_new_privileges: own.allow_privilege_escalation == Some(false),
        add_capabilities: capabilities.add.unwrap_or_default(),
        drop_capabilities: capabilities.drop.unwrap_or_default(),
        seccomp: seccomp(
            own.seccomp_profile.as_ref().or(of_pod.seccomp_profile.as_ref()),
            request.node,
        )?,
        masked_paths: paths(MASKED_PATHS),
        readonly_paths: paths(READ_ONLY_PATHS),
        target_container: request
            .target
            .cloned()
            .filter(|_| namespaces(&spec).uses_own_processes()),
        namespaces: namespaces(&spec),
    })
}

/// The group of the pod's volumes, and the further ones.
pub(super) fn supplemental_groups(context: &v1::PodSecurityContext) -> Vec<i64> {
    let further = context.supplemental_groups.iter().flatten().copied();
    context.fs_group.into_iter().chain(further).collect()
}

/// The namespaces that the pod's containers share with the host or with each other.
pub(super) fn namespaces(spec: &v1::PodSpec) -> Namespaces {
    Namespaces {
        host_network: spec.host_network.unwrap_or_default(),
        host_pid: spec.host_pid.unwrap_or_default(),
        host_ipc: spec.host_ipc.unwrap_or_default(),
        share_process_namespace: spec.share_process_namespace.unwrap_or_default(),
        host_users: spec.host_users.unwrap_or(true),
    }
}

/// Whether each container sees its own processes only.
trait OwnProcesses {
    fn uses_own_processes(self) -> bool;
}

impl OwnProcesses for Namespaces {
    fn uses_own_processes(self) -> bool {
        !self.host_pid && !self.share_process_namespace
    }
}

fn verify_non_root(request: &ContainerRequest<'_>, user: Option<i64>) -> Result<(), ConfigError> {
    let pod = format_pod(request.pod);
    let who = format!("(pod: {pod:?}, container: {})", request.container.name);
    let username = &request.image.username;
    let message = match (user, request.image.uid) {
        (Some(0), _) => format!("container's runAsUser breaks non-root policy {who}"),
        (Some(_), _) => return Ok(()),
        (None, None) if !username.is_empty() => format!(
            "container has runAsNonRoot and image has non-numeric user ({username}), cannot verify user is non-root {who}"
        ),
        (None, Some(0)) => format!("container has runAsNonRoot and image will run as root {who}"),
        (None, _) => return Ok(()),
    };
    Err(ConfigError(message))
}

/// Rejects a profile of the node, which the container would run without. The runtime's own is in force by default.
fn check_app_armor(profile: Option<&v1::AppArmorProfile>) -> Result<(), ConfigError> {
    match profile.filter(|profile| profile.type_ == "Localhost") {
        None => Ok(()),
        Some(profile) => {
            let name = profile.localhost_profile.as_deref().unwrap_or_default();
            Err(ConfigError(format!(
                "Cannot enforce AppArmor: profiles of the node are not supported: {name:?}"
            )))
        }
    }
}

fn seccomp(profile: Option<&v1::SeccompProfile>, node: &NodeFacts) -> Result<SeccompProfile, ConfigError> {
    let Some(profile) = profile else {
        return Ok(SeccompProfile::Unconfined);
    };
    match (profile.type_.as_str(), profile.localhost_profile.as_deref()) {
        ("RuntimeDefault", _) => Ok(SeccompProfile::RuntimeDefault),
        ("Localhost", Some(name)) if !name.is_empty() => {
            let path = node.root.join("seccomp").join(name);
            Ok(SeccompProfile::Localhost(path.display().to_string()))
        }
        ("Localhost", _) => Err(ConfigError(
            "localhostProfile must be set if seccompProfile type is Localhost.".to_owned(),
        )),
        _ => Ok(SeccompProfile::Unconfined),
    }
}
