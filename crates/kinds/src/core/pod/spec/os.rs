//! The operating system of a pod, and the fields that are not supported on it.

use crate::field::FieldRef;

use super::all_containers;

const WINDOWS: &str = "windows";
const LINUX: &str = "linux";
const NOT_FOR_WINDOWS: &str = "cannot be set for a windows pod";
const NOT_FOR_LINUX: &str = "windows options cannot be set for a linux pod";
/// Linux-only fields of a pod's security context.
const LINUX_POD_FIELDS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];
/// Linux-only fields of a container's security context.
const LINUX_CONTAINER_FIELDS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Reports an unknown operating system, or fields that it does not support.
pub(super) fn validate(spec: &FieldRef<'_>) {
    let os = spec.at("os");
    if !os.is_set() {
        return;
    }
    match os.at("name").str() {
        "" => os.at("name").required(""),
        LINUX => validate_linux(spec),
        WINDOWS => validate_windows(spec),
        other => os.errors().not_supported(other, &[LINUX, WINDOWS]),
    }
}

/// Whether the pod's `os.name` is `windows`.
pub(super) fn is_windows(spec: &FieldRef<'_>) -> bool {
    spec.at("os").at("name").str() == WINDOWS
}

fn validate_linux(spec: &FieldRef<'_>) {
    let security_context = spec.at("securityContext");
    let contexts = all_containers(spec).map(|container| container.at("securityContext"));
    for context in std::iter::once(security_context).chain(contexts) {
        forbid_if_set(&context.at("windowsOptions"), NOT_FOR_LINUX);
    }
}

fn validate_windows(spec: &FieldRef<'_>) {
    let security_context = spec.at("securityContext");
    for field in LINUX_POD_FIELDS {
        forbid_if_set(&security_context.at(field), NOT_FOR_WINDOWS);
    }
    forbid_if_set(&spec.at("hostUsers"), NOT_FOR_WINDOWS);
    for field in ["hostPID", "hostIPC"] {
        if spec.at(field).bool() {
            spec.at(field).forbidden(NOT_FOR_WINDOWS);
        }
    }
    forbid_if_set(&spec.at("shareProcessNamespace"), NOT_FOR_WINDOWS);
    for container in all_containers(spec) {
        let security_context = container.at("securityContext");
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
