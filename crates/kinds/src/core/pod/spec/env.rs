//! The environment of a container, and where its values come from.

use crate::at::At;
use crate::meta;
use crate::shared::name;

use super::{all_containers, paths};

/// The fields of its pod that a variable may hold.
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
/// The fields of a pod that are known at all.
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
/// The amounts that a variable or a file may hold.
const AMOUNTS: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
/// The units that amounts of bytes are given in.
const BYTES: &[&str] = &[
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];

/// Where a value may come from, and the rule of each.
type Source = (&'static str, fn(&At<'_>));
const SOURCES: [Source; 5] = [
    ("fieldRef", |place| validate_field(place, FIELDS)),
    ("resourceFieldRef", validate_amount),
    ("configMapKeyRef", validate_key),
    ("secretKeyRef", validate_key),
    ("fileKeyRef", validate_file),
];

/// Reports what is wrong with variables.
pub(super) fn validate(variables: &At<'_>) {
    for variable in variables.items() {
        let own = variable.at("name");
        if own.require() {
            name::check(&own, name::env_var);
        }
        if variable.at("valueFrom").is_set() {
            validate_source(&variable);
        }
    }
}

fn validate_source(variable: &At<'_>) {
    let source = variable.at("valueFrom");
    let mut sources = 0;
    for (field, rule) in SOURCES {
        let place = source.at(field);
        if place.is_set() {
            sources += 1;
            rule(&place);
        }
    }
    let detail = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !variable.at("value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    source.invalid_as("", detail);
}

/// Reports a field of the pod that may not stand here.
pub(super) fn validate_field(reference: &At<'_>, allowed: &[&str]) {
    let (version, path) = (reference.at("apiVersion"), reference.at("fieldPath"));
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
            name::report(&key, name::qualified(&key), reference.errors());
        }
        Some(key) => name::report(key, name::qualified(key), reference.errors()),
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

/// A field, and the key of the one entry of it that is meant: `metadata.labels['app']`.
fn split_key(path: &str) -> (&str, Option<&str>) {
    let parts = path.strip_suffix("']").and_then(|path| path.split_once("['"));
    match parts {
        Some((field, key)) if !field.is_empty() => (field, Some(key)),
        _ => (path, None),
    }
}

fn validate_amount(reference: &At<'_>) {
    validate_resource(&reference.at("resource"));
    validate_divisor(reference);
}

/// Reports an amount of a container that may not stand in a file.
pub(super) fn validate_amount_in_file(reference: &At<'_>) {
    if reference.at("containerName").require() {
        validate_resource(&reference.at("resource"));
    }
    validate_divisor(reference);
}

fn validate_resource(resource: &At<'_>) {
    if resource.require() && !AMOUNTS.contains(&resource.str()) && !is_pages(resource.str()) {
        resource.not_supported(AMOUNTS);
    }
}

fn is_pages(resource: &str) -> bool {
    resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-")
}

fn validate_divisor(reference: &At<'_>) {
    let (resource, divisor) = (reference.at("resource").str(), reference.at("divisor"));
    if divisor.quantity().is_none_or(|divisor| divisor.is_zero()) {
        return;
    }
    let kind = match resource.split_once('.') {
        Some(("limits" | "requests", "cpu")) => "cpu",
        Some(("limits" | "requests", "memory")) => "memory",
        Some(("limits" | "requests", "ephemeral-storage")) => "local ephemeral storage",
        _ if is_pages(resource) => "hugepages",
        _ => return,
    };
    let (units, said) = match kind {
        "cpu" => (&["1m", "1"][..], "1m and 1".to_owned()),
        _ => (BYTES, BYTES.join(", ")),
    };
    if !units.contains(&divisor.str()) {
        let detail = format!("only divisor's values {said} are supported with the {kind} resource");
        divisor.invalid_as(resource, &detail);
    }
}

fn validate_key(reference: &At<'_>) {
    name::check(&reference.at("name"), name::subdomain);
    let key = reference.at("key");
    if key.require() {
        name::check(&key, name::config_key);
    }
}

fn validate_file(reference: &At<'_>) {
    let (key, volume, path) = (
        reference.at("key"),
        reference.at("volumeName"),
        reference.at("path"),
    );
    if key.require() {
        name::check(&key, name::env_var);
    }
    if volume.require() {
        name::check(&volume, name::label);
    }
    if path.require() {
        paths::check_no_backsteps(path.str(), path.errors());
    }
}

/// Reports what is wrong with where many variables come from at once.
pub(super) fn validate_from(sources: &At<'_>) {
    for source in sources.items() {
        if !source.at("prefix").is_empty() {
            name::check(&source.at("prefix"), name::env_var);
        }
        let mut count = 0;
        for reference in ["configMapRef", "secretRef"].map(|field| source.at(field)) {
            if reference.is_set() {
                count += 1;
                let own = reference.at("name");
                if own.require() {
                    name::report(own.str(), name::subdomain(&meta::masked(own.str())), own.errors());
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

/// A file that variables come from is in a directory of the pod's own.
pub(super) fn validate_file_volumes(spec: &At<'_>) {
    let volumes = spec.at("volumes");
    for variable in all_containers(spec).flat_map(|container| container.at("env").items()) {
        let reference = variable.at("valueFrom").at("fileKeyRef");
        if !reference.is_set() {
            continue;
        }
        let own = reference.at("volumeName");
        match volumes
            .items()
            .find(|volume| volume.at("name").str() == own.str())
        {
            None => own.not_found(),
            Some(volume) if !volume.at("emptyDir").is_set() => {
                own.invalid("referenced volume must be of type emptyDir");
            }
            Some(_) => {}
        }
    }
}
