//! Environment variables of a container and their sources.

use std::collections::HashMap;

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, meta, name};

use super::{all_containers, paths};

/// The pod fields that a variable may reference.
const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// All supported field paths.
const KNOWN_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// The container resources that a variable or a file may reference.
const AMOUNTS: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
/// The divisors of resources in bytes.
const BYTES: &[&str] = &[
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];

/// A source of a value, and its validation.
type Source = (&'static str, fn(&FieldRef<'_>));
const SOURCES: [Source; 5] = [
    (fields::FIELD_REF, |reference| validate_field(reference, FIELDS)),
    (fields::RESOURCE_FIELD_REF, validate_amount),
    (fields::CONFIG_MAP_KEY_REF, validate_key),
    (fields::SECRET_KEY_REF, validate_key),
    (fields::FILE_KEY_REF, validate_file),
];

/// Validates environment variables.
pub(super) fn validate(variables: &FieldRef<'_>) {
    for variable in variables.items() {
        let name = variable.at(fields::NAME);
        if name.require() {
            name::check(&name, name::env_var);
        }
        if variable.at(fields::VALUE_FROM).is_set() {
            validate_source(&variable);
        }
    }
}

fn validate_source(variable: &FieldRef<'_>) {
    let source = variable.at(fields::VALUE_FROM);
    let mut sources = 0;
    for (field, rule) in SOURCES {
        let value = source.at(field);
        if value.is_set() {
            sources += 1;
            rule(&value);
        }
    }
    let detail = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !variable.at(fields::VALUE).is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    source.invalid_as("", detail);
}

/// Reports a field reference that is not allowed here.
pub(super) fn validate_field(reference: &FieldRef<'_>, allowed: &[&str]) {
    let (version, path) = (
        reference.at(fields::API_VERSION),
        reference.at(fields::FIELD_PATH),
    );
    if !version.require() || !path.require() {
        return;
    }
    let (field, key) = split_key(path.str());
    let problem = match key {
        _ if version.str() != "v1" => format!("unsupported pod version: {}", version.str()),
        Some(_) if !matches!(field, "metadata.annotations" | "metadata.labels") => {
            format!("field label does not support subscript: {}", path.str())
        }
        None if field != "spec.host" && !KNOWN_FIELDS.contains(&field) => {
            format!("field label not supported: {field}")
        }
        _ => String::new(),
    };
    if !problem.is_empty() {
        return path.invalid(&format!("error converting fieldPath: {problem}"));
    }
    match key {
        Some(key) if field == "metadata.annotations" => {
            let key = key.to_lowercase();
            name::report(&key, name::check_qualified_name(&key), reference.errors());
        }
        Some(key) => name::report(key, name::check_qualified_name(key), reference.errors()),
        None => {
            let field = if field == "spec.host" {
                "spec.nodeName"
            } else {
                field
            };
            if !allowed.contains(&field) {
                path.errors().not_supported(field, allowed);
            }
        }
    }
}

/// A field path, and the key of its subscript: `metadata.labels['app']`.
fn split_key(path: &str) -> (&str, Option<&str>) {
    let parts = path.strip_suffix("']").and_then(|path| path.split_once("['"));
    match parts {
        Some((field, key)) if !field.is_empty() => (field, Some(key)),
        _ => (path, None),
    }
}

fn validate_amount(reference: &FieldRef<'_>) {
    validate_resource(&reference.at(fields::RESOURCE));
    validate_divisor(reference);
}

/// Validates a reference to a container resource from a file.
pub(super) fn validate_amount_in_file(reference: &FieldRef<'_>) {
    if reference.at(fields::CONTAINER_NAME).require() {
        validate_resource(&reference.at(fields::RESOURCE));
    }
    validate_divisor(reference);
}

fn validate_resource(resource: &FieldRef<'_>) {
    if resource.require() && !AMOUNTS.contains(&resource.str()) && !is_pages(resource.str()) {
        resource.not_supported(AMOUNTS);
    }
}

fn is_pages(resource: &str) -> bool {
    resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-")
}

fn validate_divisor(reference: &FieldRef<'_>) {
    let (resource, divisor) = (
        reference.at(fields::RESOURCE).str(),
        reference.at(fields::DIVISOR),
    );
    if divisor.quantity().is_none_or(|divisor| divisor.is_zero()) {
        return;
    }
    let kind = match resource.split_once('.') {
        Some((fields::LIMITS | fields::REQUESTS, "cpu")) => "cpu",
        Some((fields::LIMITS | fields::REQUESTS, "memory")) => "memory",
        Some((fields::LIMITS | fields::REQUESTS, "ephemeral-storage")) => "local ephemeral storage",
        _ if is_pages(resource) => "hugepages",
        _ => return,
    };
    let (units, supported) = match kind {
        "cpu" => (&["1m", "1"][..], "1m and 1".to_owned()),
        _ => (BYTES, BYTES.join(", ")),
    };
    if !units.contains(&divisor.str()) {
        let detail = format!("only divisor's values {supported} are supported with the {kind} resource");
        divisor.invalid_as(resource, &detail);
    }
}

fn validate_key(reference: &FieldRef<'_>) {
    name::check(&reference.at(fields::NAME), name::check_dns1123_subdomain);
    let key = reference.at(fields::KEY);
    if key.require() {
        name::check(&key, name::config_key);
    }
}

fn validate_file(reference: &FieldRef<'_>) {
    let (key, volume, path) = (
        reference.at(fields::KEY),
        reference.at(fields::VOLUME_NAME),
        reference.at(fields::PATH),
    );
    if key.require() {
        name::check(&key, name::env_var);
    }
    if volume.require() {
        name::check(&volume, name::check_dns1123_label);
    }
    if path.require() {
        paths::check_no_parent_steps(path.str(), path.errors());
    }
}

/// Validates `envFrom`.
pub(super) fn validate_from(sources: &FieldRef<'_>) {
    for source in sources.items() {
        if !source.at(fields::PREFIX).is_empty() {
            name::check(&source.at(fields::PREFIX), name::env_var);
        }
        let mut count = 0;
        for reference in [fields::CONFIG_MAP_REF, fields::SECRET_REF].map(|field| source.at(field)) {
            if reference.is_set() {
                count += 1;
                let name = reference.at(fields::NAME);
                if name.require() {
                    name::report(
                        name.str(),
                        name::check_dns1123_subdomain(&meta::mask_trailing_dash(name.str())),
                        name.errors(),
                    );
                }
            }
        }
        match count {
            0 => sources.invalid_as("", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => sources.invalid_as("", "may not have more than one field specified at a time"),
        }
    }
}

/// A `fileKeyRef` must reference an emptyDir volume of the pod.
pub(super) fn validate_file_volumes(spec: &FieldRef<'_>) {
    // Of two volumes with the same name the first one counts.
    let volumes = spec.at(fields::VOLUMES).items().rev();
    let volumes: HashMap<&str, FieldRef<'_>> = volumes
        .map(|volume| (volume.at(fields::NAME).str(), volume))
        .collect();
    for variable in all_containers(spec).flat_map(|container| container.at(fields::ENV).items()) {
        let reference = variable.at(fields::VALUE_FROM).at(fields::FILE_KEY_REF);
        if !reference.is_set() {
            continue;
        }
        let volume_name = reference.at(fields::VOLUME_NAME);
        match volumes.get(volume_name.str()) {
            None => volume_name.not_found(),
            Some(volume) if !volume.at(fields::EMPTY_DIR).is_set() => {
                volume_name.invalid("referenced volume must be of type emptyDir");
            }
            Some(_) => {}
        }
    }
}
