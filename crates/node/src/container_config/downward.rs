//! The downward API: fields of a pod and resources of a container as text.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1;
use setpoint_api::Quantity;

use super::{ConfigError, ContainerRequest, NodeFacts, spec};

/// The value of a field for an environment variable: those of [`field_value`], and the pod's and the node's addresses.
pub(super) fn field_of_request(request: &ContainerRequest<'_>, path: &str) -> Result<String, ConfigError> {
    let join = |addresses: &[IpAddr]| {
        let texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        texts.join(",")
    };
    let first = |addresses: &[IpAddr]| join(&addresses[..addresses.len().min(1)]);
    Ok(match path {
        "status.podIP" => first(request.pod_addresses),
        "status.podIPs" => join(request.pod_addresses),
        "status.hostIP" => first(&request.node.addresses),
        "status.hostIPs" => join(&request.node.addresses),
        _ => return field_value(request.pod, path),
    })
}

/// The value of a field that does not depend on the node.
pub(crate) fn field_value(pod: &v1::Pod, path: &str) -> Result<String, ConfigError> {
    let metadata = &pod.metadata;
    if let Some((map, key)) = subscript(path) {
        return match map {
            "metadata.annotations" => Ok(entry(metadata.annotations.as_ref(), key)),
            "metadata.labels" => Ok(entry(metadata.labels.as_ref(), key)),
            _ => Err(ConfigError(format!(
                "fieldPath {path:?} does not support subscript"
            ))),
        };
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Ok(match path {
        "metadata.annotations" => format_map(metadata.annotations.as_ref()),
        "metadata.labels" => format_map(metadata.labels.as_ref()),
        "metadata.name" => text(&metadata.name),
        "metadata.namespace" => text(&metadata.namespace),
        "metadata.uid" => text(&metadata.uid),
        "spec.nodeName" => text(&spec(pod).node_name),
        "spec.serviceAccountName" => text(&spec(pod).service_account_name),
        _ => return Err(ConfigError(format!("unsupported fieldPath: {path}"))),
    })
}

/// A path such as `metadata.labels['key']`, in two.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    (!map.is_empty()).then_some((map, key))
}

fn entry(map: Option<&BTreeMap<String, String>>, key: &str) -> String {
    map.and_then(|map| map.get(key)).cloned().unwrap_or_default()
}

/// One `key="value"` per line, quoted as Go does.
fn format_map(map: Option<&BTreeMap<String, String>>) -> String {
    let lines = map
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", quote(value)));
    lines.collect::<Vec<_>>().join("\n")
}

/// The text in double quotes, as Go's `strconv.Quote` has it.
fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            control if control.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", control as u32)),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// The value of a resource of a container, divided and rounded up. A limit that is not set is what the node has.
pub(crate) fn resource_value(
    container: &v1::Container,
    selector: &v1::ResourceFieldSelector,
    node: &NodeFacts,
) -> Result<String, ConfigError> {
    let unsupported = || ConfigError(format!("unsupported container resource : {}", selector.resource));
    let (list, name) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let is_huge_page = name.starts_with("hugepages-");
    if !["cpu", "memory", "ephemeral-storage"].contains(&name) && !is_huge_page {
        return Err(unsupported());
    }
    let resources = container.resources.as_ref();
    let amounts = match list {
        "limits" => resources.and_then(|resources| resources.limits.as_ref()),
        "requests" => resources.and_then(|resources| resources.requests.as_ref()),
        _ => return Err(unsupported()),
    };
    let own = amounts
        .and_then(|amounts| quantity(&amounts.get(name)?.0))
        .filter(|own| !own.is_zero());
    let of_node = || match list {
        "limits" if !is_huge_page => quantity(node.allocatable.get(name)?),
        _ => None,
    };
    let amount = own.or_else(of_node);
    let divisor = selector.divisor.as_ref().and_then(|divisor| quantity(&divisor.0));
    let divisor = divisor.filter(|divisor| !divisor.is_zero());
    let number = |quantity: Quantity| match name {
        "cpu" => quantity.milli_value(),
        _ => quantity.value(),
    };
    let divisor = divisor
        .map_or(if name == "cpu" { 1000 } else { 1 }, number)
        .max(1);
    let amount = amount.map_or(0, number);
    Ok((amount / divisor + i64::from(amount % divisor > 0)).to_string())
}

fn quantity(text: &str) -> Option<Quantity> {
    text.parse().ok()
}
