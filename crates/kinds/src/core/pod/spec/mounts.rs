//! Where volumes appear in a container, as directories or as devices.

use std::collections::{BTreeMap, BTreeSet};

use crate::at::At;

use super::{Inside, paths};

const PROPAGATIONS: &[&str] = &["Bidirectional", "HostToContainer", "None"];
const READ_ONLY: &[&str] = &["Disabled", "Enabled", "IfPossible"];

/// Reports what is wrong with mounts and devices.
pub(super) fn validate(container: &At<'_>, inside: &Inside<'_>) {
    let (mounts, devices) = (container.at("volumeMounts"), container.at("volumeDevices"));
    let mounted = by_name(&mounts, "mountPath");
    let attached = by_name(&devices, "devicePath");
    let mut seen = BTreeSet::new();
    for mount in mounts.items() {
        validate_mount(&mount, &attached, inside, &mut seen);
        validate_paths(&mount, &mounts);
        validate_propagation(&mount, &mounts, container);
        validate_read_only(&mount, &mounts);
    }
    let mut seen = (BTreeSet::new(), BTreeSet::new());
    for device in devices.items() {
        validate_device(&device, &mounted, inside, &mut seen);
    }
}

fn by_name<'a>(list: &At<'a>, path: &str) -> BTreeMap<&'a str, &'a str> {
    let items = list.items();
    items
        .map(|item| (item.at("name").str(), item.at(path).str()))
        .collect()
}

fn validate_mount<'a>(
    mount: &At<'a>,
    devices: &BTreeMap<&str, &str>,
    inside: &Inside<'_>,
    seen: &mut BTreeSet<&'a str>,
) {
    let (own, path) = (mount.at("name"), mount.at("mountPath"));
    own.require();
    if !inside.volumes.contains_key(own.str()) {
        own.not_found();
    }
    path.require();
    if !seen.insert(path.str()) {
        path.invalid("must be unique");
    }
    if devices.contains_key(own.str()) {
        own.invalid("must not already exist in volumeDevices");
    }
    if devices.values().any(|other| *other == path.str()) {
        path.invalid("must not already exist as a path in volumeDevices");
    }
}

/// Kubernetes reports the paths inside a volume, and what follows, without the number of the mount.
fn validate_paths(mount: &At<'_>, mounts: &At<'_>) {
    let (path, expression) = (mount.at("subPath"), mount.at("subPathExpr"));
    if !path.is_empty() {
        paths::check_descending(path.str(), &mounts.errors().at("subPath"));
    }
    if !expression.is_empty() {
        if !path.is_empty() {
            expression.invalid("subPathExpr and subPath are mutually exclusive");
        }
        paths::check_descending(expression.str(), &mounts.errors().at("subPathExpr"));
    }
}

fn validate_propagation(mount: &At<'_>, mounts: &At<'_>, container: &At<'_>) {
    let own = mount.at("mountPropagation");
    if !own.is_set() {
        return;
    }
    let own = own.reported_at(mounts.errors().at("mountPropagation"));
    if !PROPAGATIONS.contains(&own.str()) {
        own.not_supported(PROPAGATIONS);
    }
    if own.str() == "Bidirectional" && !container.at("securityContext").at("privileged").bool() {
        own.forbidden("Bidirectional mount propagation is available only to privileged containers");
    }
}

fn validate_read_only(mount: &At<'_>, mounts: &At<'_>) {
    let own = mount.at("recursiveReadOnly");
    if !own.is_set() {
        return;
    }
    let own = own.reported_at(mounts.errors().at("recursiveReadOnly"));
    match own.str() {
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.at("readOnly").bool() {
                own.forbidden("may only be specified when readOnly is true");
            }
            if !matches!(mount.at("mountPropagation").str(), "" | "None") {
                own.forbidden("may only be specified when mountPropagation is None or not specified");
            }
        }
        _ => own.not_supported(READ_ONLY),
    }
}

fn validate_device<'a>(
    device: &At<'a>,
    mounts: &BTreeMap<&str, &str>,
    inside: &Inside<'_>,
    (names, places): &mut (BTreeSet<&'a str>, BTreeSet<&'a str>),
) {
    let (own, path) = (device.at("name"), device.at("devicePath"));
    own.require();
    if !own.is_empty() && !names.insert(own.str()) {
        own.invalid("must be unique");
    }
    match inside.volumes.get(own.str()) {
        None => own.not_found(),
        Some(volume) if !volume.at("persistentVolumeClaim").is_set() && !volume.at("ephemeral").is_set() => {
            own.invalid(
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            );
        }
        Some(_) => {}
    }
    path.require();
    if places.contains(path.str()) {
        path.invalid("must be unique");
    }
    if paths::has_backsteps(path.str()) {
        path.invalid("can not contain backsteps ('..')");
    } else {
        places.insert(path.str());
    }
    if mounts.contains_key(own.str()) {
        own.invalid("must not already exist in volumeMounts");
    }
    if mounts.values().any(|other| *other == path.str()) {
        path.invalid("must not already exist as a path in volumeMounts");
    }
}
