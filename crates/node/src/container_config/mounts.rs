//! Mounts of a container: its volumes, the hosts file and the termination message.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use k8s_openapi::api::core::v1;
use setpoint_container_runtime::container::{Mount, Propagation};

use super::expansion::expand;
use super::{ConfigError, ContainerRequest, files, identity};
use crate::volumes::{MountedVolume, subpath};

const HOSTS: &str = "/etc/hosts";

/// The mounts, in the pod's order.
pub(super) fn mounts(
    request: &ContainerRequest<'_>,
    env: &BTreeMap<String, String>,
) -> Result<Vec<Mount>, ConfigError> {
    let container = request.container;
    let mut mounts = Vec::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        mounts.push(volume_mount(request, env, (index, mount))?);
    }
    add_files(request, &mut mounts).map_err(|error| ConfigError(error.to_string()))?;
    Ok(mounts)
}

/// Adds the files that the agent writes, unless a volume is mounted over them.
fn add_files(request: &ContainerRequest<'_>, mounts: &mut Vec<Mount>) -> std::io::Result<()> {
    let [_, _, uid] = identity(request.pod);
    let (root, container) = (&request.node.root, request.container);
    files::prepare_pod(request.pod, request.node, request.pod_addresses)?;
    files::prepare_container(request.pod, request.node, container, request.attempt)?;
    if mounts.iter().all(|mount| mount.container_path != HOSTS) {
        mounts.push(file_mount(&files::hosts_path(root, uid), HOSTS));
    }
    let message = container.termination_message_path.as_deref().unwrap_or_default();
    if !message.is_empty() {
        let path = files::termination_message_path(root, uid, &container.name, request.attempt);
        mounts.push(file_mount(&path, message));
    }
    Ok(())
}

fn file_mount(host_path: &Path, container_path: &str) -> Mount {
    Mount {
        host_path: host_path.display().to_string(),
        container_path: container_path.to_owned(),
        ..Mount::default()
    }
}

fn volume_mount(
    request: &ContainerRequest<'_>,
    env: &BTreeMap<String, String>,
    (index, mount): (usize, &v1::VolumeMount),
) -> Result<Mount, ConfigError> {
    let container = &request.container.name;
    let volume = request.volumes.find(&mount.name).ok_or_else(|| {
        let name = &mount.name;
        ConfigError(format!(
            "cannot find volume {name:?} to mount into container {container:?}"
        ))
    })?;
    let sub_path = sub_path(mount, env)?;
    let mut made = Mount {
        container_path: absolute(&mount.mount_path),
        read_only: mount.read_only.unwrap_or_default() || volume.read_only,
        recursive_read_only: is_recursive_read_only(mount)?,
        propagation: propagation(mount),
        ..Mount::default()
    };
    match &volume.image {
        Some(image) => {
            made.image.clone_from(image);
            made.image_sub_path = sub_path;
        }
        None if sub_path.is_empty() => made.host_path = volume.path.display().to_string(),
        None => made.host_path = host_sub_path(request, volume, (index, mount), &sub_path)?,
    }
    Ok(made)
}

/// The path of a part of a volume. What leads outside of the volume is an error, without details of the node.
fn host_sub_path(
    request: &ContainerRequest<'_>,
    volume: &MountedVolume,
    (index, mount): (usize, &v1::VolumeMount),
    sub_path: &str,
) -> Result<String, ConfigError> {
    let [_, _, uid] = identity(request.pod);
    let pod_directory = files::pod_directory(&request.node.root, uid);
    let directory = pod_directory.join("volume-subpaths").join(&mount.name);
    let target = directory.join(&request.container.name).join(index.to_string());
    let prepared = subpath::prepare(&volume.path, Path::new(sub_path), &target);
    let path = prepared.map_err(|error| {
        tracing::warn!(pod = uid, volume = %mount.name, %error, "cannot prepare a subPath");
        let (name, container) = (&mount.name, &request.container.name);
        ConfigError(format!(
            "failed to prepare subPath for volumeMount {name:?} of container {container:?}"
        ))
    })?;
    Ok(path.display().to_string())
}

/// The sub-path of a mount; empty for the whole volume.
fn sub_path(mount: &v1::VolumeMount, env: &BTreeMap<String, String>) -> Result<String, ConfigError> {
    let mut path = mount.sub_path.clone().unwrap_or_default();
    if let Some(expression) = mount.sub_path_expr.as_deref().filter(|text| !text.is_empty()) {
        let mut missing = BTreeSet::new();
        path = expand(expression, |name| {
            let value = env.get(name).cloned().unwrap_or_default();
            if value.is_empty() {
                missing.insert(name.to_owned());
            }
            value
        });
        if !missing.is_empty() {
            let names: Vec<_> = missing.into_iter().collect();
            return Err(ConfigError(format!("missing value for {}", names.join(", "))));
        }
    }
    if path.starts_with('/') {
        return Err(ConfigError(format!(
            "error SubPath `{path}` must not be an absolute path"
        )));
    }
    if path.split('/').any(|part| part == "..") {
        let message = format!("unable to provision SubPath `{path}`: must not contain '..'");
        return Err(ConfigError(message));
    }
    Ok(path)
}

fn absolute(path: &str) -> String {
    match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("/{path}"),
    }
}

fn propagation(mount: &v1::VolumeMount) -> Propagation {
    match mount.mount_propagation.as_deref() {
        Some("HostToContainer") => Propagation::HostToContainer,
        Some("Bidirectional") => Propagation::Bidirectional,
        _ => Propagation::Private,
    }
}

/// Whether mounts below this one are read-only too. No runtime of this agent reports that it supports it.
fn is_recursive_read_only(mount: &v1::VolumeMount) -> Result<bool, ConfigError> {
    let mode = mount.recursive_read_only.as_deref().unwrap_or("Disabled");
    let propagation = mount.mount_propagation.as_deref().unwrap_or("None");
    let reason = match mode {
        "Disabled" => return Ok(false),
        _ if mount.read_only != Some(true) => "it is not read-only".to_owned(),
        _ if propagation != "None" => format!("it is not compatible with propagation {propagation:?}"),
        "IfPossible" => return Ok(false),
        _ => "it is not supported by the runtime".to_owned(),
    };
    let name = &mount.name;
    Err(ConfigError(format!(
        "failed to resolve recursive read-only mode: volume {name:?} requested recursive read-only mode, but {reason}"
    )))
}
