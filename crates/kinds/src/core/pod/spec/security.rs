//! Security contexts of pods and containers.

use std::collections::BTreeSet;

use setpoint_schema::fields;
use setpoint_strategy::FieldRef;

use super::{ContainerContext, PodContext, all_containers, paths, windows};

const IDS: std::ops::RangeInclusive<i64> = 0..=i32::MAX as i64;
const BAD_ID: &str = "must be between 0 and 2147483647, inclusive";
const ADMIN: &str = "CAP_SYS_ADMIN";
const SYSCTL_BYTES: usize = 253;
const APP_ARMOR_BYTES: usize = 4095;
const PROFILES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

/// Validates the security context of a container.
pub(super) fn validate(context: &FieldRef<'_>, container_context: &ContainerContext<'_>) {
    if !context.is_set() {
        return;
    }
    let (privileged, escalation) = (
        context.at(fields::PRIVILEGED),
        context.at(fields::ALLOW_PRIVILEGE_ESCALATION),
    );
    if privileged.bool() && !container_context.allow_privileged {
        privileged.forbidden("disallowed by cluster policy");
    }
    for id in [fields::RUN_AS_USER, fields::RUN_AS_GROUP] {
        check_id(&context.at(id));
    }
    let mount = context.at(fields::PROC_MOUNT);
    if mount.is_set() && !matches!(mount.str(), "Default" | "Unmasked") {
        mount.not_supported(&["Default", "Unmasked"]);
    }
    if mount.str() == "Unmasked" && container_context.has_host_users() {
        mount.invalid("`hostUsers` must be false to use `Unmasked`");
    }
    validate_seccomp(&context.at(fields::SECCOMP_PROFILE));
    if escalation.find_bool() == Some(false) {
        if privileged.bool() {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            context.invalid(detail);
        }
        let added = context.at(fields::CAPABILITIES).at(fields::ADD);
        if !container_context.options.admin_without_escalation {
            for _ in added.strs().filter(|capability| *capability == ADMIN) {
                let detail =
                    "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
                context.invalid(detail);
            }
        }
    }
    windows::validate_options(&context.at(fields::WINDOWS_OPTIONS));
    validate_app_armor(&context.at(fields::APP_ARMOR_PROFILE));
}

/// Whether a container has CAP_SYS_ADMIN and forbids privilege escalation, which older versions accepted.
pub(super) fn is_admin_without_escalation(context: &FieldRef<'_>) -> bool {
    let mut added = context.at(fields::CAPABILITIES).at(fields::ADD).strs();
    !context.at(fields::ALLOW_PRIVILEGE_ESCALATION).bool() && added.any(|capability| capability == ADMIN)
}

/// Validates the security context of a pod and related fields.
pub(super) fn validate_pod(spec: &FieldRef<'_>, pod_context: &PodContext<'_>) {
    let context = spec.at(fields::SECURITY_CONTEXT);
    for id in [fields::FS_GROUP, fields::RUN_AS_USER, fields::RUN_AS_GROUP] {
        check_id(&context.at(id));
    }
    context
        .at(fields::SUPPLEMENTAL_GROUPS)
        .items()
        .for_each(|id| check_id(&id));
    validate_sysctls(spec, pod_context);
    let policy = context.at(fields::FS_GROUP_CHANGE_POLICY);
    check_known(&policy, &["Always", "OnRootMismatch"]);
    validate_seccomp(&context.at(fields::SECCOMP_PROFILE));
    windows::validate_options(&context.at(fields::WINDOWS_OPTIONS));
    validate_app_armor(&context.at(fields::APP_ARMOR_PROFILE));
    check_known(
        &context.at(fields::SUPPLEMENTAL_GROUPS_POLICY),
        &["Merge", "Strict"],
    );
    check_known(
        &context.at(fields::SE_LINUX_CHANGE_POLICY),
        &["MountOption", "Recursive"],
    );
    if spec.at(fields::HOST_PID).bool() && spec.at(fields::SHARE_PROCESS_NAMESPACE).bool() {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        spec.at(fields::SHARE_PROCESS_NAMESPACE).invalid(detail);
    }
}

fn check_known(field: &FieldRef<'_>, known: &[&str]) {
    if field.is_set() && !known.contains(&field.str()) {
        field.not_supported(known);
    }
}

fn check_id(id: &FieldRef<'_>) {
    if id.is_set() && !IDS.contains(&id.int()) {
        id.invalid(BAD_ID);
    }
}

/// Reports fields that need the host's user namespace in a pod with `hostUsers: false`.
pub(super) fn validate_host_users(spec: &FieldRef<'_>, pod_context: &PodContext<'_>) {
    const DETAIL: &str = "when `hostUsers` is false";
    if spec.at(fields::HOST_USERS).find_bool() != Some(false) {
        return;
    }
    if spec.at(fields::HOST_NETWORK).bool() && !pod_context.options.host_network_without_host_users {
        spec.at(fields::HOST_NETWORK).forbidden(DETAIL);
    }
    for (field, reported) in [(fields::HOST_PID, "HostPID"), (fields::HOST_IPC, "HostIPC")] {
        if spec.at(field).bool() {
            spec.errors().at(reported).forbidden(DETAIL);
        }
    }
    if pod_context.options.devices_without_host_users {
        return;
    }
    for devices in all_containers(spec).map(|container| container.at(fields::VOLUME_DEVICES)) {
        if !devices.is_empty() {
            devices.forbidden(DETAIL);
        }
    }
}

fn validate_seccomp(profile: &FieldRef<'_>) {
    if !profile.is_set() {
        return;
    }
    let (kind, path) = (profile.at(fields::TYPE), profile.at(fields::LOCALHOST_PROFILE));
    match kind.str() {
        "" => kind.required("type is required when seccompProfile is set"),
        known if PROFILES.contains(&known) => {}
        _ => kind.not_supported(PROFILES),
    }
    match (kind.str() == "Localhost", path.is_set()) {
        (true, false) => path.required("must be set when seccomp type is Localhost"),
        (true, true) => paths::check_relative_path(path.str(), path.errors()),
        (false, true) => path.invalid_as(profile, "can only be set when seccomp type is Localhost"),
        (false, false) => {}
    }
}

/// Validates an AppArmor profile.
pub(crate) fn validate_app_armor(profile: &FieldRef<'_>) {
    if !profile.is_set() {
        return;
    }
    let (kind, path) = (profile.at(fields::TYPE), profile.at(fields::LOCALHOST_PROFILE));
    match kind.str() {
        "Localhost" => validate_local_profile(&path),
        "RuntimeDefault" | "Unconfined" if path.is_set() => {
            path.invalid("can only be set when AppArmor type is Localhost");
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => kind.required("type is required when appArmorProfile is set"),
        _ => kind.not_supported(PROFILES),
    }
}

fn validate_local_profile(path: &FieldRef<'_>) {
    const MISSING: &str = "must be set when AppArmor type is Localhost";
    if !path.is_set() {
        return path.required(MISSING);
    }
    if path.str().trim() != path.str() {
        path.invalid("must not be padded with whitespace");
    } else if path.str().is_empty() {
        path.required(MISSING);
    }
    if path.str().len() > APP_ARMOR_BYTES {
        path.too_long(APP_ARMOR_BYTES);
    }
}

fn validate_sysctls(spec: &FieldRef<'_>, pod_context: &PodContext<'_>) {
    let mut seen = BTreeSet::new();
    for sysctl in spec.at(fields::SECURITY_CONTEXT).at(fields::SYSCTLS).items() {
        let name = sysctl.at(fields::NAME);
        if name.is_empty() {
            name.required("");
        } else if !is_sysctl(name.str()) {
            name.invalid(
                "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            );
        } else if seen.contains(name.str()) {
            name.duplicate();
        }
        if !pod_context.options.host_sysctls {
            validate_host_sysctl(&name, spec);
        }
        seen.insert(name.str());
    }
}

/// Reports sysctls of a namespace that the pod shares with the host.
pub(super) fn validate_host_sysctls(spec: &FieldRef<'_>) {
    for sysctl in spec.at(fields::SECURITY_CONTEXT).at(fields::SYSCTLS).items() {
        validate_host_sysctl(&sysctl.at(fields::NAME), spec);
    }
}

fn validate_host_sysctl(name: &FieldRef<'_>, spec: &FieldRef<'_>) {
    // A sysctl name is separated by dots or by slashes; the first separator decides.
    let dotted = match name.str().find(['.', '/']) {
        Some(at) if name.str()[at..].starts_with('/') => name.str().replace('/', "."),
        _ => name.str().to_owned(),
    };
    let of_ipc = dotted == "kernel.sem"
        || ["kernel.shm", "kernel.msg", "fs.mqueue."]
            .iter()
            .any(|start| dotted.starts_with(start));
    if dotted.starts_with("net.") && spec.at(fields::HOST_NETWORK).bool() {
        name.invalid("may not be specified when 'hostNetwork' is true");
    } else if of_ipc && spec.at(fields::HOST_IPC).bool() {
        name.invalid("may not be specified when 'hostIPC' is true");
    }
}

fn is_sysctl(text: &str) -> bool {
    let is_segment = |segment: &str| {
        let edge =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let bytes = segment.as_bytes();
        let inner = |byte: &u8| edge(Some(byte)) || b"-_".contains(byte);
        edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
    };
    text.len() <= SYSCTL_BYTES && text.split(['.', '/']).all(is_segment)
}
