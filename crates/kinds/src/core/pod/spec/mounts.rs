//! Volume mounts and volume devices of a container.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_schema::fields;
use setpoint_strategy::FieldRef;

use super::{ContainerContext, paths};

const PROPAGATIONS: &[&str] = &["Bidirectional", "HostToContainer", "None"];
const READ_ONLY: &[&str] = &["Disabled", "Enabled", "IfPossible"];

/// Validates volume mounts and devices.
pub(super) fn validate(container: &FieldRef<'_>, container_context: &ContainerContext<'_>) {
    let (mounts, devices) = (
        container.at(fields::VOLUME_MOUNTS),
        container.at(fields::VOLUME_DEVICES),
    );
    let mounted = by_name(&mounts, fields::MOUNT_PATH);
    let attached = by_name(&devices, fields::DEVICE_PATH);
    let mut seen = BTreeSet::new();
    for mount in mounts.items() {
        validate_mount(&mount, &attached, container_context, &mut seen);
        validate_paths(&mount, &mounts);
        validate_propagation(&mount, &mounts, container);
        validate_read_only(&mount, &mounts);
    }
    let mut seen = (BTreeSet::new(), BTreeSet::new());
    for device in devices.items() {
        validate_device(&device, &mounted, container_context, &mut seen);
    }
}

/// The volume names of mounts or devices, and their paths.
struct NamedPaths<'a> {
    names: BTreeSet<&'a str>,
    paths: BTreeSet<&'a str>,
}

/// Of two items with the same name the last one counts.
fn by_name<'a>(list: &FieldRef<'a>, path: &'a str) -> NamedPaths<'a> {
    let items = list.items();
    let items: BTreeMap<&str, &str> = items
        .map(|item| (item.at(fields::NAME).str(), item.at(path).str()))
        .collect();
    let (names, paths) = items.into_iter().unzip();
    NamedPaths { names, paths }
}

fn validate_mount<'a>(
    mount: &FieldRef<'a>,
    devices: &NamedPaths<'_>,
    container_context: &ContainerContext<'_>,
    seen: &mut BTreeSet<&'a str>,
) {
    let (name, path) = (mount.at(fields::NAME), mount.at(fields::MOUNT_PATH));
    name.require();
    if !container_context.volumes.contains_key(name.str()) {
        name.not_found();
    }
    path.require();
    if !seen.insert(path.str()) {
        path.invalid("must be unique");
    }
    if devices.names.contains(name.str()) {
        name.invalid("must not already exist in volumeDevices");
    }
    if devices.paths.contains(path.str()) {
        path.invalid("must not already exist as a path in volumeDevices");
    }
}

/// Kubernetes reports `subPath` and the fields after it without the index of the mount.
fn validate_paths(mount: &FieldRef<'_>, mounts: &FieldRef<'_>) {
    let (path, expression) = (mount.at(fields::SUB_PATH), mount.at(fields::SUB_PATH_EXPR));
    if !path.is_empty() {
        paths::check_relative_path(path.str(), &mounts.errors().at(fields::SUB_PATH));
    }
    if !expression.is_empty() {
        if !path.is_empty() {
            expression.invalid("subPathExpr and subPath are mutually exclusive");
        }
        paths::check_relative_path(expression.str(), &mounts.errors().at(fields::SUB_PATH_EXPR));
    }
}

fn validate_propagation(mount: &FieldRef<'_>, mounts: &FieldRef<'_>, container: &FieldRef<'_>) {
    let propagation = mount.at(fields::MOUNT_PROPAGATION);
    if !propagation.is_set() {
        return;
    }
    let propagation = propagation.with_errors(mounts.errors().at(fields::MOUNT_PROPAGATION));
    if !PROPAGATIONS.contains(&propagation.str()) {
        propagation.not_supported(PROPAGATIONS);
    }
    if propagation.str() == "Bidirectional"
        && !container
            .at(fields::SECURITY_CONTEXT)
            .at(fields::PRIVILEGED)
            .bool()
    {
        propagation.forbidden("Bidirectional mount propagation is available only to privileged containers");
    }
}

fn validate_read_only(mount: &FieldRef<'_>, mounts: &FieldRef<'_>) {
    let recursive = mount.at(fields::RECURSIVE_READ_ONLY);
    if !recursive.is_set() {
        return;
    }
    let recursive = recursive.with_errors(mounts.errors().at(fields::RECURSIVE_READ_ONLY));
    match recursive.str() {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.at(fields::READ_ONLY).bool() {
                recursive.forbidden("may only be specified when readOnly is true");
            }
            if !matches!(mount.at(fields::MOUNT_PROPAGATION).str(), "" | "None") {
                recursive.forbidden("may only be specified when mountPropagation is None or not specified");
            }
        }
        _ => recursive.not_supported(READ_ONLY),
    }
}

fn validate_device<'a>(
    device: &FieldRef<'a>,
    mounts: &NamedPaths<'_>,
    container_context: &ContainerContext<'_>,
    (names, paths): &mut (BTreeSet<&'a str>, BTreeSet<&'a str>),
) {
    let (name, path) = (device.at(fields::NAME), device.at(fields::DEVICE_PATH));
    name.require();
    if !name.is_empty() && !names.insert(name.str()) {
        name.invalid("must be unique");
    }
    match container_context.volumes.get(name.str()) {
        None => name.not_found(),
        Some(volume)
            if !volume.at(fields::PERSISTENT_VOLUME_CLAIM).is_set()
                && !volume.at(fields::EPHEMERAL).is_set() =>
        {
            name.invalid(
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            );
        }
        Some(_) => {}
    }
    path.require();
    if paths.contains(path.str()) {
        path.invalid("must be unique");
    }
    if paths::has_parent_steps(path.str()) {
        path.invalid("can not contain backsteps ('..')");
    } else {
        paths.insert(path.str());
    }
    if mounts.names.contains(name.str()) {
        name.invalid("must not already exist in volumeMounts");
    }
    if mounts.paths.contains(path.str()) {
        path.invalid("must not already exist as a path in volumeMounts");
    }
}
