//! EndpointSlice: a subset of the addresses of a Service.

use std::collections::BTreeSet;

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Strategy, ip, meta, name, top_level};

const ADDRESS_TYPES: &[&str] = &["FQDN", "IPv4", "IPv6"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_HINTS: usize = 8;
const SHOWN: usize = 3;
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Controllers whose slices are already validated at their source.
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
            columns::or_empty(&slice.at(fields::ADDRESS_TYPE))
        })
        .description("The address type."),
        Column::text("Ports", |slice, _| Cell::from(ports(slice))).description("The ports."),
        Column::text("Endpoints", |slice, _| Cell::from(addresses(slice)))
            .description("The endpoint addresses."),
        columns::AGE,
    ];
    const RULES: Rules = Rules::DEFAULT.tracks_generation();

    fn default_fields(slice: &mut Tree) {
        for port in slice.items_mut(fields::PORTS) {
            port.set_default(fields::NAME, "");
            port.set_default(fields::PROTOCOL, "TCP");
        }
    }

    fn prepare_create(slice: &mut Tree, _facts: &RequestFacts) {
        drop_topology(slice, None);
    }

    fn prepare_update(slice: &mut Tree, old: &Tree, _facts: &RequestFacts) {
        drop_topology(slice, Some(old));
    }

    // Labels name the Service of the slice, so changing them increments the generation.
    fn changes_spec(slice: &Tree, old: &Tree) -> bool {
        meta::find(slice, fields::LABELS) != meta::find(old, fields::LABELS)
            || top_level::differ_except(slice, old, &[fields::METADATA])
    }

    fn validate(slice: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_ports(&slice.at(fields::PORTS));
        validate_endpoints(&slice.at(fields::ENDPOINTS), slice.at(fields::ADDRESS_TYPE).str());
        validate_declarative(slice);
    }

    // Unchanged endpoints are not validated again.
    fn validate_for_update(slice: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        validate_ports(&slice.at(fields::PORTS));
        if !slice.at(fields::ENDPOINTS).is_same(&old.at(fields::ENDPOINTS)) {
            validate_endpoints(&slice.at(fields::ENDPOINTS), slice.at(fields::ADDRESS_TYPE).str());
        }
        validate_declarative(slice);
    }

    fn validate_update(slice: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        slice
            .at(fields::ADDRESS_TYPE)
            .declarative_immutable(&old.at(fields::ADDRESS_TYPE));
    }

    fn warnings(slice: &FieldRef<'_>, old: Option<&FieldRef<'_>>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() && slice.at(fields::ADDRESS_TYPE).str() == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        let manager = meta::entry(slice.value(), fields::LABELS, MANAGED_BY).unwrap_or_default();
        if !MANAGERS.contains(&manager) {
            for endpoint in slice.at(fields::ENDPOINTS).items() {
                let addresses = endpoint.at(fields::ADDRESSES);
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

/// The deprecated topology map is dropped, except for the node name if the old slice has it.
fn drop_topology(slice: &mut Tree, old: Option<&Tree>) {
    let null = Tree::Null;
    let before = old.and_then(|old| old.get(fields::ENDPOINTS)).unwrap_or(&null);
    if old.is_some() && slice.get(fields::ENDPOINTS).unwrap_or(&null).semantic_eq(before) {
        return;
    }
    let host = |endpoint: &Tree| {
        Some(
            endpoint
                .get(fields::DEPRECATED_TOPOLOGY)?
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
    for endpoint in slice.items_mut(fields::ENDPOINTS) {
        let node = host(endpoint)
            .filter(|node| known.contains(node) && name::check_dns1123_subdomain(node).is_empty());
        if let Some(node) = node {
            endpoint.set_default(fields::NODE_NAME, node);
        }
        endpoint.take(&[fields::DEPRECATED_TOPOLOGY]);
    }
}

/// Reports what upstream's declarative validation reports, which runs last.
fn validate_declarative(slice: &FieldRef<'_>) {
    slice.at(fields::ADDRESS_TYPE).require_one_of(ADDRESS_TYPES);
    for endpoint in slice.at(fields::ENDPOINTS).items() {
        let addresses = endpoint.at(fields::ADDRESSES);
        if addresses.require() && addresses.len() > MAX_ADDRESSES {
            addresses.too_many(MAX_ADDRESSES);
        }
    }
}

fn validate_ports(ports: &FieldRef<'_>) {
    if ports.len() > MAX_PORTS {
        return ports.too_many(MAX_PORTS);
    }
    let mut names = BTreeSet::new();
    for port in ports.items() {
        let name = port.at(fields::NAME);
        if !name.is_empty() {
            name::check(&name, name::check_dns1123_label);
        }
        if !names.insert(name.str()) {
            name.duplicate();
        }
        port.at(fields::PROTOCOL).require_one_of(PROTOCOLS);
        if port.at(fields::APP_PROTOCOL).is_set() {
            name::check(&port.at(fields::APP_PROTOCOL), name::check_qualified_name);
        }
    }
}

fn validate_endpoints(endpoints: &FieldRef<'_>, kind: &str) {
    if endpoints.len() > MAX_ENDPOINTS {
        return endpoints.too_many(MAX_ENDPOINTS);
    }
    for endpoint in endpoints.items() {
        let addresses = endpoint.at(fields::ADDRESSES);
        for address in addresses.items() {
            validate_address(&address, kind, addresses.errors());
        }
        if endpoint.at(fields::NODE_NAME).is_set() {
            name::check(&endpoint.at(fields::NODE_NAME), name::check_dns1123_subdomain);
        }
        if endpoint.at(fields::HOSTNAME).is_set() {
            name::check(&endpoint.at(fields::HOSTNAME), name::check_dns1123_label);
        }
        let hints = endpoint.at(fields::HINTS);
        validate_hints(&hints.at(fields::FOR_ZONES), name::check_label_value);
        validate_hints(&hints.at(fields::FOR_NODES), name::check_dns1123_subdomain);
    }
}

fn validate_address(address: &FieldRef<'_>, kind: &str, all: &Errors) {
    let text = address.str();
    match kind {
        "IPv4" if ip::check(text, address.errors()) => {
            if ip::is_v6(text) {
                all.invalid(text, "must be an IPv4 address");
            }
            ip::check_endpoint(text, address.errors());
        }
        "IPv6" => {
            let violations = ip::strict(text);
            if !violations.is_empty() {
                return name::report(text, violations, address.errors());
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

/// A fully qualified domain name of at least two labels.
fn check_domain(address: &FieldRef<'_>) {
    if !address.require() {
        return;
    }
    let domain = address.str().strip_suffix('.').unwrap_or(address.str());
    let violations = name::check_dns1123_subdomain(domain);
    if !violations.is_empty() {
        return address.invalid_as(domain, &violations.join(","));
    }
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        return address.invalid_as(domain, detail);
    }
    let long = domain.split('.').find(|word| word.len() > 63);
    if let Some(word) = long {
        address.invalid_as(word, &name::check_dns1123_label(word).join(","));
    }
}

fn validate_hints(hints: &FieldRef<'_>, form: fn(&str) -> name::Violations) {
    if hints.len() > MAX_HINTS {
        return hints.too_many(MAX_HINTS);
    }
    let mut names = BTreeSet::new();
    for hint in hints.items() {
        let name = hint.at(fields::NAME);
        if !names.insert(name.str()) {
            name.duplicate();
        }
        name::check(&name, form);
    }
}

fn ports(slice: &FieldRef<'_>) -> String {
    let ports = slice.at(fields::PORTS);
    let texts: Vec<String> = ports
        .items()
        .map(
            |port| match (port.at(fields::PORT).find_int(), port.at(fields::NAME).find_str()) {
                (Some(number), _) => number.to_string(),
                (None, Some(name)) => name.to_owned(),
                (None, None) => "*".to_owned(),
            },
        )
        .collect();
    columns::first_few(&texts, SHOWN)
}

fn addresses(slice: &FieldRef<'_>) -> String {
    let endpoints = slice.at(fields::ENDPOINTS);
    let texts: Vec<String> = endpoints
        .items()
        .flat_map(|endpoint| endpoint.at(fields::ADDRESSES).strs().collect::<Vec<_>>())
        .map(str::to_owned)
        .collect();
    columns::first_few(&texts, SHOWN)
}
