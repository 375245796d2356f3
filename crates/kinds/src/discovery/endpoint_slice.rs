//! EndpointSlice: some of the addresses at which a service is answered.

use std::collections::BTreeSet;

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use crate::at::At;
use crate::columns::{self, Column};
use crate::shared::{ip, name};
use crate::strategy::{Facts, Names, Rules, Strategy};
use crate::{meta, parts};

const ADDRESS_TYPES: &[&str] = &["FQDN", "IPv4", "IPv6"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MOST_ENDPOINTS: usize = 1000;
const MOST_ADDRESSES: usize = 100;
const MOST_PORTS: usize = 20_000;
const MOST_HINTS: usize = 8;
const SHOWN: usize = 3;
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Those who write slices from what has been checked before.
const MANAGERS: &[&str] = &[
    "endpointslice-controller.k8s.io",
    "endpointslicemirroring-controller.k8s.io",
];
const HOST_LABEL: &str = "kubernetes.io/hostname";

#[derive(Debug)]
pub struct EndpointSlice;

impl Strategy for EndpointSlice {
    const KIND: (&'static str, &'static str, &'static str) = ("discovery.k8s.io", "v1", "EndpointSlice");
    const NAMES: Names = Names::new("endpointslices", "endpointslice");
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("AddressType", |slice, _| {
            columns::or_empty(&slice.at("addressType"))
        })
        .about("What sort of addresses it has."),
        Column::text("Ports", |slice, _| Cell::from(ports(slice))).about("The ports."),
        Column::text("Endpoints", |slice, _| Cell::from(addresses(slice))).about("The addresses."),
        columns::AGE,
    ];
    const RULES: Rules = Rules {
        tracks_generation: true,
        ..Rules::DEFAULT
    };

    fn default_fields(slice: &mut Tree) {
        for port in slice.items_mut("ports") {
            port.fill("name", "");
            port.fill("protocol", "TCP");
        }
    }

    fn prepare_create(slice: &mut Tree, _facts: &Facts) {
        drop_topology(slice, None);
    }

    fn prepare_update(slice: &mut Tree, old: &Tree, _facts: &Facts) {
        drop_topology(slice, Some(old));
    }

    // The labels say which service the slice is of.
    fn asks_for_else(slice: &Tree, old: &Tree) -> bool {
        meta::find(slice, "labels") != meta::find(old, "labels")
            || parts::differ_besides(slice, old, &["metadata"])
    }

    fn validate(slice: &At<'_>) {
        validate_ports(&slice.at("ports"));
        validate_endpoints(&slice.at("endpoints"), slice.at("addressType").str());
        validate_declared(slice);
    }

    // Endpoints that nobody changed are not asked again.
    fn validate_again(slice: &At<'_>, old: &At<'_>) {
        validate_ports(&slice.at("ports"));
        if !slice.at("endpoints").is_same(&old.at("endpoints")) {
            validate_endpoints(&slice.at("endpoints"), slice.at("addressType").str());
        }
        validate_declared(slice);
    }

    fn validate_update(slice: &At<'_>, old: &At<'_>) {
        slice.at("addressType").declared_immutable(&old.at("addressType"));
    }

    fn warnings(slice: &At<'_>, old: Option<&At<'_>>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() && slice.at("addressType").str() == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        let manager = meta::entry(slice.value(), "labels", MANAGED_BY).unwrap_or_default();
        if !MANAGERS.contains(&manager) {
            for endpoint in slice.at("endpoints").items() {
                let addresses = endpoint.at("addresses");
                warnings.extend(
                    addresses
                        .items()
                        .filter_map(|address| ip::warn(&address.errors().path(), address.str())),
                );
            }
        }
        warnings
    }
}

/// Topology by labels is of the past: only the name of a node that was already there comes over.
fn drop_topology(slice: &mut Tree, old: Option<&Tree>) {
    let null = Tree::Null;
    let before = old.and_then(|old| old.get("endpoints")).unwrap_or(&null);
    if old.is_some() && slice.get("endpoints").unwrap_or(&null).means_same(before) {
        return;
    }
    let host = |endpoint: &Tree| {
        Some(
            endpoint
                .get("deprecatedTopology")?
                .get(HOST_LABEL)?
                .as_str()?
                .to_owned(),
        )
    };
    let known: BTreeSet<String> = before
        .as_list()
        .unwrap_or_default()
        .iter()
        .filter_map(host)
        .collect();
    for endpoint in slice.items_mut("endpoints") {
        let node = host(endpoint).filter(|node| known.contains(node) && name::subdomain(node).is_empty());
        if let Some(node) = node {
            endpoint.fill("nodeName", node);
        }
        endpoint.take(&["deprecatedTopology"]);
    }
}

/// What the shape says by itself, which is checked last.
fn validate_declared(slice: &At<'_>) {
    slice.at("addressType").require_one_of(ADDRESS_TYPES);
    for endpoint in slice.at("endpoints").items() {
        let addresses = endpoint.at("addresses");
        if addresses.require() && addresses.len() > MOST_ADDRESSES {
            addresses.too_many(MOST_ADDRESSES);
        }
    }
}

fn validate_ports(ports: &At<'_>) {
    if ports.len() > MOST_PORTS {
        return ports.too_many(MOST_PORTS);
    }
    let mut names = BTreeSet::new();
    for port in ports.items() {
        let own = port.at("name");
        if !own.is_empty() {
            name::check(&own, name::label);
        }
        if !names.insert(own.str()) {
            own.duplicate();
        }
        port.at("protocol").require_one_of(PROTOCOLS);
        if port.at("appProtocol").is_set() {
            name::check(&port.at("appProtocol"), name::qualified);
        }
    }
}

fn validate_endpoints(endpoints: &At<'_>, kind: &str) {
    if endpoints.len() > MOST_ENDPOINTS {
        return endpoints.too_many(MOST_ENDPOINTS);
    }
    for endpoint in endpoints.items() {
        let addresses = endpoint.at("addresses");
        for address in addresses.items() {
            validate_address(&address, kind, addresses.errors());
        }
        if endpoint.at("nodeName").is_set() {
            name::check(&endpoint.at("nodeName"), name::subdomain);
        }
        if endpoint.at("hostname").is_set() {
            name::check(&endpoint.at("hostname"), name::label);
        }
        let hints = endpoint.at("hints");
        validate_hints(&hints.at("forZones"), name::label_value);
        validate_hints(&hints.at("forNodes"), name::subdomain);
    }
}

fn validate_address(address: &At<'_>, kind: &str, all: &Errors) {
    let text = address.str();
    match kind {
        "IPv4" if ip::check(text, address.errors()) => {
            if ip::is_v6(text) {
                all.invalid(text, "must be an IPv4 address");
            }
            ip::check_endpoint(text, address.errors());
        }
        "IPv6" => {
            let complaints = ip::strict(text);
            if !complaints.is_empty() {
                return name::report(text, complaints, address.errors());
            }
            if !ip::is_v6(text) {
                all.invalid(text, "must be an IPv6 address");
            }
            ip::check_endpoint(text, address.errors());
        }
        "FQDN" => check_domain(address),
        _ => {}
    }
}

/// A full domain name of at least two words.
fn check_domain(address: &At<'_>) {
    if !address.require() {
        return;
    }
    let domain = address.str().strip_suffix('.').unwrap_or(address.str());
    let complaints = name::subdomain(domain);
    if !complaints.is_empty() {
        return address.invalid_as(domain, &complaints.join(","));
    }
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        return address.invalid_as(domain, detail);
    }
    let long = domain.split('.').find(|word| word.len() > 63);
    if let Some(word) = long {
        address.invalid_as(word, &name::label(word).join(","));
    }
}

fn validate_hints(hints: &At<'_>, form: fn(&str) -> name::Complaints) {
    if hints.len() > MOST_HINTS {
        return hints.too_many(MOST_HINTS);
    }
    let mut names = BTreeSet::new();
    for hint in hints.items() {
        let own = hint.at("name");
        if !names.insert(own.str()) {
            own.duplicate();
        }
        name::check(&own, form);
    }
}

fn ports(slice: &At<'_>) -> String {
    let ports = slice.at("ports");
    let texts: Vec<String> = ports
        .items()
        .map(
            |port| match (port.at("port").find_int(), port.at("name").find_str()) {
                (Some(number), _) => number.to_string(),
                (None, Some(name)) => name.to_owned(),
                (None, None) => "*".to_owned(),
            },
        )
        .collect();
    columns::first_few(&texts, SHOWN)
}

fn addresses(slice: &At<'_>) -> String {
    let endpoints = slice.at("endpoints");
    let texts: Vec<String> = endpoints
        .items()
        .flat_map(|endpoint| endpoint.at("addresses").strs().collect::<Vec<_>>())
        .map(str::to_owned)
        .collect();
    columns::first_few(&texts, SHOWN)
}
