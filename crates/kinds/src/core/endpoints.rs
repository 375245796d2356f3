//! Endpoints: the addresses of a Service, all in one object. Superseded by EndpointSlice.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column, NONE};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy, ip, meta, name};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const SHOWN: usize = 3;
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

#[derive(Debug)]
pub struct Endpoints;

impl Strategy for Endpoints {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "Endpoints");
    const NAMES: Names = Names::new("endpoints", "endpoints").short(&["ep"]);
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Endpoints", |endpoints, _| Cell::from(print(endpoints)))
            .description("The endpoint addresses."),
        columns::AGE,
    ];
    const RULES: Rules = Rules::DEFAULT
        .create_on_update()
        .error_storage_path("services/endpoints")
        .deprecation_warning("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice");

    fn default_fields(endpoints: &mut Tree) {
        for subset in endpoints.items_mut(fields::SUBSETS) {
            subset
                .items_mut(fields::PORTS)
                .for_each(|port| port.set_default(fields::PROTOCOL, "TCP"));
        }
    }

    fn validate(endpoints: &FieldRef<'_>, _facts: &RequestFacts) {
        for subset in endpoints.at(fields::SUBSETS).items() {
            validate_subset(&subset);
        }
    }

    // Unchanged subsets are not validated again.
    fn validate_for_update(endpoints: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
        if !endpoints.at(fields::SUBSETS).is_same(&old.at(fields::SUBSETS)) {
            Self::validate(endpoints, facts);
        }
    }

    fn warnings(endpoints: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
        if meta::entry(endpoints.value(), fields::LABELS, MANAGED_BY) == Some(MANAGER) {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        for subset in endpoints.at(fields::SUBSETS).items() {
            for field in [fields::ADDRESSES, fields::NOT_READY_ADDRESSES] {
                let addresses = subset.at(field);
                let addresses = addresses.items().map(|address| address.at(fields::IP));
                warnings.extend(addresses.filter_map(|ip| ip::warn(&ip.errors().path(), ip.str())));
            }
        }
        warnings
    }
}

fn validate_subset(subset: &FieldRef<'_>) {
    let groups = [
        subset.at(fields::ADDRESSES),
        subset.at(fields::NOT_READY_ADDRESSES),
    ];
    if groups.iter().all(FieldRef::is_empty) {
        subset.required("must specify `addresses` or `notReadyAddresses`");
    }
    for group in &groups {
        group.items().for_each(|address| validate_address(&address));
    }
    let ports = subset.at(fields::PORTS);
    for port in ports.items() {
        validate_port(&port, ports.len() > 1);
    }
}

fn validate_address(address: &FieldRef<'_>) {
    let ip = address.at(fields::IP);
    ip::check(ip.str(), ip.errors());
    if !address.at(fields::HOSTNAME).is_empty() {
        name::check(&address.at(fields::HOSTNAME), name::check_dns1123_label);
    }
    if address.at(fields::NODE_NAME).is_set() {
        name::check(&address.at(fields::NODE_NAME), name::check_dns1123_subdomain);
    }
    ip::check_endpoint(ip.str(), ip.errors());
}

fn validate_port(port: &FieldRef<'_>, must_be_named: bool) {
    let name = port.at(fields::NAME);
    if !name.is_empty() {
        name::check(&name, name::check_dns1123_label);
    } else if must_be_named {
        name.required("");
    }
    port.at(fields::PORT).in_range(1, 65535);
    port.at(fields::PROTOCOL).require_one_of(PROTOCOLS);
    if port.at(fields::APP_PROTOCOL).is_set() {
        name::check(&port.at(fields::APP_PROTOCOL), name::check_qualified_name);
    }
}

fn print(endpoints: &FieldRef<'_>) -> String {
    let subsets = endpoints.at(fields::SUBSETS);
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    let mut texts = Vec::new();
    for subset in subsets.items() {
        let addresses = subset.at(fields::ADDRESSES);
        let ips: Vec<&str> = addresses
            .items()
            .map(|address| address.at(fields::IP).str())
            .collect();
        if subset.at(fields::PORTS).is_empty() {
            texts.extend(ips.iter().map(|ip| (*ip).to_owned()));
        }
        for port in subset.at(fields::PORTS).items() {
            let port = port.at(fields::PORT).int();
            texts.extend(ips.iter().map(|ip| host_and_port(ip, port)));
        }
    }
    match texts.len() {
        0 => String::new(),
        _ => columns::first_few(&texts, SHOWN),
    }
}

fn host_and_port(host: &str, port: i64) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
