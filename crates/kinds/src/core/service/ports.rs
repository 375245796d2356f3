//! The ports of a service.

use std::collections::BTreeSet;

use crate::at::At;
use crate::columns::NONE;
use crate::shared::internal::Internal;
use crate::shared::name;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// Reports what is wrong with each port by itself.
pub(super) fn validate(spec: &At<'_>) {
    let ports = spec.at("ports");
    let must_be_named = ports.len() > 1;
    let mut names = BTreeSet::new();
    for port in ports.items() {
        validate_name(&port.at("name"), must_be_named, &mut names);
        port.at("port").within(1, 65535);
        port.at("protocol").require_one_of(PROTOCOLS);
        check_target(&port.at("targetPort"));
        if port.at("appProtocol").is_set() {
            name::check(&port.at("appProtocol"), name::qualified);
        }
    }
}

fn validate_name<'a>(own: &At<'a>, required: bool, names: &mut BTreeSet<&'a str>) {
    if own.is_empty() {
        if required {
            own.required("");
        }
        return;
    }
    name::check(own, name::label);
    if !names.insert(own.str()) {
        own.duplicate();
    }
}

/// A port by its number or by its name.
fn check_target(target: &At<'_>) {
    match target.find_str() {
        Some(_) => name::check(target, name::port),
        None => target.within(1, 65535),
    }
}

/// Reports ports that are there twice, or on nodes where the type has none.
pub(super) fn validate_unique(spec: &At<'_>) {
    let ports = spec.at("ports");
    let node_port = |port: &At<'_>| port.at("nodePort").int();
    if spec.at("type").str() == "ClusterIP" {
        for port in ports.items().filter(|port| node_port(port) != 0) {
            let place = port.at("nodePort");
            place.forbidden("may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen = BTreeSet::new();
    for port in ports.items().filter(|port| node_port(port) != 0) {
        if !seen.insert((port.at("protocol").str(), node_port(&port))) {
            port.at("nodePort").duplicate();
        }
    }
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        if !seen.insert((port.at("protocol").str(), port.at("port").int())) {
            report_twice(&port);
        }
    }
}

/// The report shows a port with nothing but what makes it the same.
fn report_twice(port: &At<'_>) {
    let mut bare = port.value().clone();
    bare.map_or_default()
        .retain(|field, _| field == "protocol" || field == "port");
    if let Some(shape) = port.shape() {
        let bare = At::reading(&bare, shape);
        port.errors().duplicate(Internal(&bare));
    }
}

pub(super) fn print(ports: &At<'_>) -> String {
    let texts: Vec<String> = ports
        .items()
        .map(|port| {
            let (number, protocol) = (port.at("port").int(), port.at("protocol").str());
            match port.at("nodePort").int() {
                0 => format!("{number}/{protocol}"),
                node => format!("{number}:{node}/{protocol}"),
            }
        })
        .collect();
    if texts.is_empty() {
        return NONE.to_owned();
    }
    texts.join(",")
}
