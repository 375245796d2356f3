//! The system a pod is for, and what it does not have.

use crate::at::At;

use super::all_containers;

const WINDOWS: &str = "windows";
const LINUX: &str = "linux";
const NOT_FOR_WINDOWS: &str = "cannot be set for a windows pod";
const NOT_FOR_LINUX: &str = "windows options cannot be set for a linux pod";
/// What a pod's security context has on Linux only.
const OF_LINUX_PODS: &[&str] = &[
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
/// What a container's security context has on Linux only.
const OF_LINUX_CONTAINERS: &[&str] = &[
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

/// Reports a system there is not, or what it does not have.
pub(super) fn validate(spec: &At<'_>) {
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

/// Whether the pod says that it is for Windows.
pub(super) fn is_windows(spec: &At<'_>) -> bool {
    spec.at("os").at("name").str() == WINDOWS
}

fn validate_linux(spec: &At<'_>) {
    let own = spec.at("securityContext");
    let contexts = all_containers(spec).map(|container| container.at("securityContext"));
    for context in std::iter::once(own).chain(contexts) {
        forbid_if_set(&context.at("windowsOptions"), NOT_FOR_LINUX);
    }
}

fn validate_windows(spec: &At<'_>) {
    let own = spec.at("securityContext");
    for field in OF_LINUX_PODS {
        forbid_if_set(&own.at(field), NOT_FOR_WINDOWS);
    }
    forbid_if_set(&spec.at("hostUsers"), NOT_FOR_WINDOWS);
    for field in ["hostPID", "hostIPC"] {
        if spec.at(field).bool() {
            spec.at(field).forbidden(NOT_FOR_WINDOWS);
        }
    }
    forbid_if_set(&spec.at("shareProcessNamespace"), NOT_FOR_WINDOWS);
    for container in all_containers(spec) {
        let own = container.at("securityContext");
        for field in OF_LINUX_CONTAINERS {
            forbid_if_set(&own.at(field), NOT_FOR_WINDOWS);
        }
    }
}

fn forbid_if_set(place: &At<'_>, detail: &str) {
    if place.is_set() {
        place.forbidden(detail);
    }
}
