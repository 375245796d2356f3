//! Endpoints: the addresses of a Service, all in one object. Superseded by EndpointSlice.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use crate::columns::{self, Column, NONE};
use crate::field::FieldRef;
use crate::meta;
use crate::shared::{ip, name};
use crate::strategy::{Names, Rules, Strategy};

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
    const RULES: Rules = Rules {
        create_on_update: true,
        error_storage_path: "services/endpoints",
        deprecation_warning: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ..Rules::DEFAULT
    };

    fn default_fields(endpoints: &mut Tree) {
        for subset in endpoints.items_mut("subsets") {
            subset
                .items_mut("ports")
                .for_each(|port| port.set_default("protocol", "TCP"));
        }
    }

    fn validate(endpoints: &FieldRef<'_>) {
        for subset in endpoints.at("subsets").items() {
            validate_subset(&subset);
        }
    }

    // Unchanged subsets are not validated again.
    fn validate_for_update(endpoints: &FieldRef<'_>, old: &FieldRef<'_>) {
        if !endpoints.at("subsets").is_same(&old.at("subsets")) {
            Self::validate(endpoints);
        }
    }

    fn warnings(endpoints: &FieldRef<'_>, _old: Option<&FieldRef<'_>>) -> Vec<String> {
        if meta::entry(endpoints.value(), "labels", MANAGED_BY) == Some(MANAGER) {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        for subset in endpoints.at("subsets").items() {
            for field in ["addresses", "notReadyAddresses"] {
                let addresses = subset.at(field);
                let addresses = addresses.items().map(|address| address.at("ip"));
                warnings.extend(addresses.filter_map(|ip| ip::warn(&ip.errors().path(), ip.str())));
            }
        }
        warnings
    }
}

fn validate_subset(subset: &FieldRef<'_>) {
    let groups = [subset.at("addresses"), subset.at("notReadyAddresses")];
    if groups.iter().all(FieldRef::is_empty) {
        subset.required("must specify `addresses` or `notReadyAddresses`");
    }
    for group in &groups {
        group.items().for_each(|address| validate_address(&address));
    }
    let ports = subset.at("ports");
    for port in ports.items() {
        validate_port(&port, ports.len() > 1);
    }
}

fn validate_address(address: &FieldRef<'_>) {
    let ip = address.at("ip");
    ip::check(ip.str(), ip.errors());
    if !address.at("hostname").is_empty() {
        name::check(&address.at("hostname"), name::check_dns1123_label);
    }
    if address.at("nodeName").is_set() {
        name::check(&address.at("nodeName"), name::check_dns1123_subdomain);
    }
    ip::check_endpoint(ip.str(), ip.errors());
}

fn validate_port(port: &FieldRef<'_>, must_be_named: bool) {
    let name = port.at("name");
    if !name.is_empty() {
        name::check(&name, name::check_dns1123_label);
    } else if must_be_named {
        name.required("");
    }
    port.at("port").in_range(1, 65535);
    port.at("protocol").require_one_of(PROTOCOLS);
    if port.at("appProtocol").is_set() {
        name::check(&port.at("appProtocol"), name::check_qualified_name);
    }
}

fn print(endpoints: &FieldRef<'_>) -> String {
    let subsets = endpoints.at("subsets");
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    let mut texts = Vec::new();
    for subset in subsets.items() {
        let addresses = subset.at("addresses");
        let ips: Vec<&str> = addresses.items().map(|address| address.at("ip").str()).collect();
        if subset.at("ports").is_empty() {
            texts.extend(ips.iter().map(|ip| (*ip).to_owned()));
        }
        for port in subset.at("ports").items() {
            let port = port.at("port").int();
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
