//! The operating system of a pod, and the fields that are not supported on it.

use setpoint_schema::fields;
use setpoint_strategy::FieldRef;

use super::all_containers;

const WINDOWS: &str = "windows";
const LINUX: &str = "linux";
const NOT_FOR_WINDOWS: &str = "cannot be set for a windows pod";
const NOT_FOR_LINUX: &str = "windows options cannot be set for a linux pod";
/// Linux-only fields of a pod's security context.
const LINUX_POD_FIELDS: &[&str] = &[
    fields::APP_ARMOR_PROFILE,
    fields::SE_LINUX_OPTIONS,
    fields::SECCOMP_PROFILE,
    fields::FS_GROUP,
    fields::FS_GROUP_CHANGE_POLICY,
    fields::SYSCTLS,
    fields::RUN_AS_USER,
    fields::RUN_AS_GROUP,
    fields::SUPPLEMENTAL_GROUPS,
    fields::SUPPLEMENTAL_GROUPS_POLICY,
    fields::SE_LINUX_CHANGE_POLICY,
];
/// Linux-only fields of a container's security context.
const LINUX_CONTAINER_FIELDS: &[&str] = &[
    fields::APP_ARMOR_PROFILE,
    fields::SE_LINUX_OPTIONS,
    fields::SECCOMP_PROFILE,
    fields::CAPABILITIES,
    fields::READ_ONLY_ROOT_FILESYSTEM,
    fields::PRIVILEGED,
    fields::ALLOW_PRIVILEGE_ESCALATION,
    fields::PROC_MOUNT,
    fields::RUN_AS_USER,
    fields::RUN_AS_GROUP,
];

/// Reports an unknown operating system, or fields that it does not support.
pub(super) fn validate(spec: &FieldRef<'_>) {
    let os = spec.at(fields::OS);
    if !os.is_set() {
        return;
    }
    match os.at(fields::NAME).str() {
        "" => os.at(fields::NAME).required(""),
        LINUX => validate_linux(spec),
        WINDOWS => validate_windows(spec),
        other => os.errors().not_supported(other, &[LINUX, WINDOWS]),
    }
}

/// Whether the pod's `os.name` is `windows`.
pub(super) fn is_windows(spec: &FieldRef<'_>) -> bool {
    spec.at(fields::OS).at(fields::NAME).str() == WINDOWS
}

fn validate_linux(spec: &FieldRef<'_>) {
    let security_context = spec.at(fields::SECURITY_CONTEXT);
    let contexts = all_containers(spec).map(|container| container.at(fields::SECURITY_CONTEXT));
    for context in std::iter::once(security_context).chain(contexts) {
        forbid_if_set(&context.at(fields::WINDOWS_OPTIONS), NOT_FOR_LINUX);
    }
}

fn validate_windows(spec: &FieldRef<'_>) {
    let security_context = spec.at(fields::SECURITY_CONTEXT);
    for field in LINUX_POD_FIELDS {
        forbid_if_set(&security_context.at(field), NOT_FOR_WINDOWS);
    }
    forbid_if_set(&spec.at(fields::HOST_USERS), NOT_FOR_WINDOWS);
    for field in [fields::HOST_PID, fields::HOST_IPC] {
        if spec.at(field).bool() {
            spec.at(field).forbidden(NOT_FOR_WINDOWS);
        }
    }
    forbid_if_set(&spec.at(fields::SHARE_PROCESS_NAMESPACE), NOT_FOR_WINDOWS);
    for container in all_containers(spec) {
        let security_context = container.at(fields::SECURITY_CONTEXT);
        for field in LINUX_CONTAINER_FIELDS {
            forbid_if_set(&security_context.at(field), NOT_FOR_WINDOWS);
        }
    }
}

fn forbid_if_set(field: &FieldRef<'_>, detail: &str) {
    if field.is_set() {
        field.forbidden(detail);
    }
}
