//! Volume types backed by network storage.

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, name};

use super::require_all;

const NO_PORTAL: &str = "must be valid format starting with iqn, eui, or naa";
const NO_FORM: &str = "must be valid format";
const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
const MANAGED: &str =
    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
const BLOB: &str = "https://{account-name}.blob.windows.net/{container-name}/{disk-name}.vhd";
const ISCSI_BYTES: usize = 64;
const DRIVER_BYTES: usize = 63;

pub(super) fn validate_git(repository: &FieldRef<'_>) {
    repository.at(fields::REPOSITORY).require();
    let directory = repository.at(fields::DIRECTORY);
    super::paths::check_relative_path(directory.str(), directory.errors());
}

/// Validates a cloud provider's disk; `named` is the field with its name.
pub(super) fn validate_disk(disk: &FieldRef<'_>, named: &str) {
    disk.at(named).require();
    let partition = disk.at(fields::PARTITION);
    if !(0..=255).contains(&partition.int()) {
        partition.invalid("must be between 1 and 255, inclusive");
    }
}

pub(super) fn validate_nfs(share: &FieldRef<'_>) {
    require_all(share, &[fields::SERVER, fields::PATH]);
    let path = share.at(fields::PATH);
    if !path.str().starts_with('/') {
        path.invalid("must be an absolute path");
    }
}

pub(super) fn validate_iscsi(target: &FieldRef<'_>) {
    target.at(fields::TARGET_PORTAL).require();
    let (iqn, initiator, lun) = (
        target.at(fields::IQN),
        target.at(fields::INITIATOR_NAME),
        target.at(fields::LUN),
    );
    if iqn.require() {
        validate_iqn(&iqn);
    }
    if !(0..=255).contains(&lun.int()) {
        lun.invalid("must be between 0 and 255, inclusive");
    }
    let uses_chap =
        target.at(fields::CHAP_AUTH_DISCOVERY).bool() || target.at(fields::CHAP_AUTH_SESSION).bool();
    if uses_chap && !target.at(fields::SECRET_REF).is_set() {
        target.at(fields::SECRET_REF).required("");
    }
    if initiator.is_set() {
        validate_iqn(&initiator.with_errors(target.errors().at("initiatorname")));
    }
}

/// The initiator name is built from the volume's and the portal's, so their length is limited together.
pub(super) fn validate_iscsi_length(volume: &FieldRef<'_>) {
    let (name, target) = (volume.at(fields::NAME), volume.at(fields::ISCSI));
    let bytes = name.str().len() + 1 + target.at(fields::TARGET_PORTAL).str().len();
    if target.at(fields::INITIATOR_NAME).is_set() && bytes > ISCSI_BYTES {
        name.invalid(
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.",
        );
    }
}

fn validate_iqn(iqn: &FieldRef<'_>) {
    let text = iqn.str();
    let formed = match text.get(..3) {
        Some("iqn") => is_iqn(text),
        Some("eui") => is_number(text, 16),
        Some("naa") => is_number(text, 32),
        _ => return iqn.invalid(NO_PORTAL),
    };
    if !formed {
        iqn.invalid(NO_FORM);
    }
}

/// `iqn.2014-12.com.example:target`
fn is_iqn(text: &str) -> bool {
    let Some((authority, target)) = text.split_once(':') else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((date, domain)) = authority
        .strip_prefix("iqn.")
        .and_then(|rest| rest.split_once('.'))
    else {
        return false;
    };
    let dated = date
        .split_once('-')
        .is_some_and(|(year, month)| year.len() == 4 && month.len() == 2 && digits(year) && digits(month));
    let named = !domain.is_empty()
        && domain
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    let bad = |char: char| ",;*&$|".contains(char) || char.is_ascii_whitespace();
    dated && named && !target.is_empty() && !target.contains(bad)
}

/// Three letters, any character, and a fixed number of hexadecimal digits.
fn is_number(text: &str, digits: usize) -> bool {
    let mut rest = text.chars().skip(4);
    text.chars().count() == 4 + digits && rest.all(|char| char.is_ascii_alphanumeric())
}

pub(super) fn validate_fc(target: &FieldRef<'_>) {
    let (names, ids, lun) = (
        target.at(fields::TARGET_WWNS),
        target.at(fields::WWIDS),
        target.at(fields::LUN),
    );
    if names.is_empty() && ids.is_empty() {
        names.required("must specify either targetWWNs or wwids, but not both");
    }
    if !names.is_empty() && !ids.is_empty() {
        names.invalid("targetWWNs and wwids can not be specified simultaneously");
    }
    if names.is_empty() {
        return;
    }
    match lun.find_int() {
        None => lun.required("lun is required if targetWWNs is specified"),
        Some(0..=255) => {}
        Some(_) => lun.invalid("must be between 0 and 255, inclusive"),
    }
}

pub(super) fn validate_flocker(data: &FieldRef<'_>) {
    let (dataset_name, uuid) = (data.at(fields::DATASET_NAME), data.at(fields::DATASET_UUID));
    if dataset_name.is_empty() && uuid.is_empty() {
        data.required("one of datasetName and datasetUUID is required");
    }
    if !dataset_name.is_empty() && !uuid.is_empty() {
        data.invalid_as(
            "resource",
            "datasetName and datasetUUID can not be specified simultaneously",
        );
    }
    if dataset_name.str().contains('/') {
        dataset_name.invalid("must not contain '/'");
    }
}

pub(super) fn validate_cinder(disk: &FieldRef<'_>) {
    disk.at(fields::VOLUME_ID).require();
    require_secret_name(disk);
}

fn require_secret_name(volume: &FieldRef<'_>) {
    let secret = volume.at(fields::SECRET_REF);
    if secret.is_set() {
        secret.at(fields::NAME).require();
    }
}

pub(super) fn validate_quobyte(volume: &FieldRef<'_>) {
    let (registry, tenant) = (volume.at(fields::REGISTRY), volume.at(fields::TENANT));
    if registry.is_empty() {
        registry.required(PAIRS);
    } else if tenant.str().len() >= 65 {
        tenant.required("must be a UUID and may not exceed a length of 64 characters");
    } else {
        for _ in registry.str().split(',').filter(|pair| !is_host_port(pair)) {
            registry.invalid(PAIRS);
        }
    }
    volume.at(fields::VOLUME).require();
}

fn is_host_port(pair: &str) -> bool {
    match pair.rsplit_once(':') {
        Some((host, _)) if host.starts_with('[') => host.ends_with(']'),
        Some((host, _)) => !host.contains([':', '[', ']']),
        None => false,
    }
}

pub(super) fn validate_flex(volume: &FieldRef<'_>) {
    volume.at(fields::DRIVER).require();
    for (key, option) in volume.at(fields::OPTIONS).entries() {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            option.invalid_as(key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

pub(super) fn validate_azure_disk(disk: &FieldRef<'_>) {
    require_all(disk, &[fields::DISK_NAME, fields::DISK_URI]);
    let (caching, kind, uri) = (
        disk.at(fields::CACHING_MODE),
        disk.at(fields::KIND),
        disk.at(fields::DISK_URI),
    );
    for (field, known) in [
        (&caching, ["None", "ReadOnly", "ReadWrite"]),
        (&kind, ["Dedicated", "Managed", "Shared"]),
    ] {
        if field.is_set() && !known.contains(&field.str()) {
            field.not_supported(&known);
        }
    }
    match kind.find_str() {
        Some("Managed") if !uri.str().starts_with("/subscriptions/") => uri.not_supported(&[MANAGED]),
        Some("Managed") | None => {}
        Some(_) if !uri.str().starts_with("https://") => uri.not_supported(&[BLOB]),
        Some(_) => {}
    }
}

pub(super) fn validate_storage_os(volume: &FieldRef<'_>) {
    let (volume_name, namespace) = (
        volume.at(fields::VOLUME_NAME),
        volume.at(fields::VOLUME_NAMESPACE),
    );
    if volume_name.require() {
        name::check(&volume_name, name::check_dns1123_label);
    }
    if !namespace.is_empty() {
        name::check(&namespace, name::check_dns1123_label);
    }
    require_secret_name(volume);
}

pub(super) fn validate_csi(volume: &FieldRef<'_>) {
    let driver = volume.at(fields::DRIVER);
    driver.require();
    if driver.str().len() > DRIVER_BYTES {
        driver.too_long(DRIVER_BYTES);
    }
    let violations = name::check_dns1123_subdomain(&driver.str().to_lowercase());
    name::report(driver.str(), violations, driver.errors());
    let secret = volume.at(fields::NODE_PUBLISH_SECRET_REF);
    if !secret.is_set() {
        return;
    }
    let name = secret.at(fields::NAME);
    if name.require() {
        name::report(
            name.str(),
            name::check_dns1123_subdomain(name.str()),
            &volume.errors().at(fields::NAME),
        );
    }
}
