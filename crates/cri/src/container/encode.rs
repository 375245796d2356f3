//! Configurations of containers as CRI has them.

use setpoint_container_runtime::ContainerConfig;
use setpoint_container_runtime::container::{
    Device, Mount, Propagation, Resources, SeccompProfile, Security,
};

use crate::proto::image::ImageSpec;
use crate::proto::{Int64Value, container as proto, values};
use crate::sandbox::encode_namespaces;

pub(super) fn container_config(config: ContainerConfig) -> proto::ContainerConfig {
    proto::ContainerConfig {
        metadata: Some(proto::ContainerMetadata {
            name: config.name,
            attempt: config.attempt,
        }),
        image: Some(ImageSpec {
            image: config.image,
            user_specified_image: config.user_specified_image,
        }),
        command: config.command,
        args: config.args,
        working_dir: config.working_dir,
        envs: config
            .env
            .into_iter()
            .map(|(key, value)| proto::KeyValue { key, value })
            .collect(),
        mounts: config.mounts.into_iter().map(mount).collect(),
        devices: config.devices.into_iter().map(device).collect(),
        labels: config.labels,
        annotations: config.annotations,
        log_path: config.log_path,
        stdin: config.stdin,
        stdin_once: config.stdin_once,
        tty: config.tty,
        linux: Some(proto::LinuxContainerConfig {
            resources: Some(resources(config.resources)),
            security_context: Some(security(config.security)),
        }),
        stop_signal: signal(&config.stop_signal),
    }
}

pub(super) fn resources(resources: Resources) -> proto::LinuxContainerResources {
    let huge_pages = resources.huge_pages.into_iter();
    proto::LinuxContainerResources {
        cpu_period: resources.cpu_period,
        cpu_quota: resources.cpu_quota,
        cpu_shares: resources.cpu_shares,
        memory_limit_in_bytes: resources.memory_limit,
        oom_score_adj: resources.oom_score_adj,
        hugepage_limits: huge_pages
            .map(|(page_size, limit)| proto::HugepageLimit { page_size, limit })
            .collect(),
        unified: resources.unified,
    }
}

pub(super) fn decode_resources(resources: proto::LinuxContainerResources) -> Resources {
    let huge_pages = resources.hugepage_limits.into_iter();
    Resources {
        cpu_shares: resources.cpu_shares,
        cpu_period: resources.cpu_period,
        cpu_quota: resources.cpu_quota,
        memory_limit: resources.memory_limit_in_bytes,
        oom_score_adj: resources.oom_score_adj,
        huge_pages: huge_pages.map(|limit| (limit.page_size, limit.limit)).collect(),
        unified: resources.unified,
    }
}

fn mount(mount: Mount) -> proto::Mount {
    proto::Mount {
        container_path: mount.container_path,
        host_path: mount.host_path,
        readonly: mount.read_only,
        propagation: match mount.propagation {
            Propagation::Private => 0,
            Propagation::HostToContainer => 1,
            Propagation::Bidirectional => 2,
        },
        recursive_read_only: mount.recursive_read_only,
        image: (!mount.image.is_empty()).then(|| ImageSpec {
            image: mount.image,
            user_specified_image: String::new(),
        }),
        image_sub_path: mount.image_sub_path,
    }
}

fn device(device: Device) -> proto::Device {
    proto::Device {
        container_path: device.container_path,
        host_path: device.host_path,
        permissions: device.permissions,
    }
}

fn security(security: Security) -> proto::LinuxContainerSecurityContext {
    let mut namespaces = encode_namespaces(security.namespaces);
    if let Some(target) = security.target_container {
        namespaces.pid = values::NAMESPACE_TARGET;
        namespaces.target_id = target.0;
    }
    let value = |value| Int64Value { value };
    proto::LinuxContainerSecurityContext {
        capabilities: Some(proto::Capability {
            add_capabilities: security.add_capabilities,
            drop_capabilities: security.drop_capabilities,
        }),
        privileged: security.privileged,
        namespace_options: Some(namespaces),
        run_as_user: security.run_as_user.map(value),
        run_as_group: security.run_as_group.map(value),
        run_as_username: security.run_as_username,
        readonly_rootfs: security.read_only_root,
        supplemental_groups: security.supplemental_groups,
        supplemental_groups_policy: match security.strict_supplemental_groups {
            true => values::GROUPS_STRICT,
            false => 0,
        },
        no_new_privs: security.no_new_privileges,
        masked_paths: security.masked_paths,
        readonly_paths: security.readonly_paths,
        seccomp: Some(seccomp(security.seccomp)),
    }
}

fn seccomp(profile: SeccompProfile) -> proto::SecurityProfile {
    let (profile_type, localhost_ref) = match profile {
        SeccompProfile::Unconfined => (values::PROFILE_UNCONFINED, String::new()),
        SeccompProfile::RuntimeDefault => (values::PROFILE_RUNTIME_DEFAULT, String::new()),
        SeccompProfile::Localhost(path) => (values::PROFILE_LOCALHOST, path),
    };
    proto::SecurityProfile {
        profile_type,
        localhost_ref,
    }
}

/// The number of a signal; 0, the runtime's choice, for none and for unknown ones.
fn signal(name: &str) -> i32 {
    let found = values::SIGNALS.iter().position(|known| *known == name);
    i32::try_from(found.unwrap_or(0)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use setpoint_container_runtime::ContainerId;

    #[test]
    fn signals_have_the_numbers_of_cri() {
        for (name, number) in [
            ("", 0),
            ("SIGTERM", 23),
            ("SIGUSR1", 29),
            ("SIGRTMIN+15", 50),
            ("SIGRTMAX", 65),
        ] {
            assert_eq!(signal(name), number, "{name}");
        }
    }

    #[test]
    fn a_container_that_targets_another_joins_its_processes() {
        let encoded = security(Security {
            target_container: Some(ContainerId("c1".to_owned())),
            ..Security::default()
        });
        let namespaces = encoded.namespace_options.unwrap();
        assert_eq!(
            (namespaces.pid, namespaces.target_id.as_str()),
            (values::NAMESPACE_TARGET, "c1")
        );
    }
}
