//! Ports of a service.

use std::collections::BTreeSet;

use setpoint_schema::fields;
use setpoint_strategy::columns::NONE;
use setpoint_strategy::go_dump::GoDump;
use setpoint_strategy::{FieldRef, name};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// Validates each port.
pub(super) fn validate(spec: &FieldRef<'_>) {
    let ports = spec.at(fields::PORTS);
    let must_be_named = ports.len() > 1;
    let mut names = BTreeSet::new();
    for port in ports.items() {
        validate_name(&port.at(fields::NAME), must_be_named, &mut names);
        port.at(fields::PORT).in_range(1, 65535);
        port.at(fields::PROTOCOL).require_one_of(PROTOCOLS);
        check_target(&port.at(fields::TARGET_PORT));
        if port.at(fields::APP_PROTOCOL).is_set() {
            name::check(&port.at(fields::APP_PROTOCOL), name::check_qualified_name);
        }
    }
}

fn validate_name<'a>(name: &FieldRef<'a>, required: bool, names: &mut BTreeSet<&'a str>) {
    if name.is_empty() {
        if required {
            name.required("");
        }
        return;
    }
    name::check(name, name::check_dns1123_label);
    if !names.insert(name.str()) {
        name.duplicate();
    }
}

/// A port number or a port name.
fn check_target(target: &FieldRef<'_>) {
    match target.find_str() {
        Some(_) => name::check(target, name::port),
        None => target.in_range(1, 65535),
    }
}

/// Reports duplicate ports, and node ports where the type has none.
pub(super) fn validate_unique(spec: &FieldRef<'_>) {
    let ports = spec.at(fields::PORTS);
    let node_port = |port: &FieldRef<'_>| port.at(fields::NODE_PORT).int();
    if spec.at(fields::TYPE).str() == "ClusterIP" {
        for port in ports.items().filter(|port| node_port(port) != 0) {
            let field = port.at(fields::NODE_PORT);
            field.forbidden("may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen = BTreeSet::new();
    for port in ports.items().filter(|port| node_port(port) != 0) {
        if !seen.insert((port.at(fields::PROTOCOL).str(), node_port(&port))) {
            port.at(fields::NODE_PORT).duplicate();
        }
    }
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        if !seen.insert((port.at(fields::PROTOCOL).str(), port.at(fields::PORT).int())) {
            report_duplicate(&port);
        }
    }
}

/// Reports a duplicate port; the message shows only the fields that are equal.
fn report_duplicate(port: &FieldRef<'_>) {
    let mut bare = port.value().clone();
    bare.map_or_default()
        .retain(|field, _| field == fields::PROTOCOL || field == fields::PORT);
    if let Some(shape) = port.shape() {
        let bare = FieldRef::read_only(&bare, shape);
        port.errors().duplicate(GoDump(&bare));
    }
}

pub(super) fn print(ports: &FieldRef<'_>) -> String {
    let texts: Vec<String> = ports
        .items()
        .map(|port| {
            let (number, protocol) = (port.at(fields::PORT).int(), port.at(fields::PROTOCOL).str());
            match port.at(fields::NODE_PORT).int() {
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
