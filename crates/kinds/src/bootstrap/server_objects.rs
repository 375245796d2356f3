//! Bootstrap objects that describe this server: the `kubernetes` Service and its endpoints, the ServiceCIDR, and the
//! client CAs.

use std::net::IpAddr;
use std::time::Duration;

use setpoint_api::Gvr;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::{BootstrapObject, Recheck};
use setpoint_values::Cidr;

use super::{bootstrap_object, object};

/// The configuration of this server that its own objects show.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    /// The advertised address.
    pub address: IpAddr,
    /// Whether other servers have the same objects. The endpoints of the `kubernetes` Service are those of all of them
    /// then, and not among its bootstrap objects: see [`endpoint_objects`].
    pub shares_store: bool,
    pub port: u16,
    /// Whether the bootstrap namespaces get their ServiceAccount `default` at startup. kube-apiserver alone, without
    /// kube-controller-manager, creates none.
    pub has_default_accounts: bool,
    /// The range of cluster IPs.
    pub service_cidr: Cidr,
    /// The CA of client certificates, as PEM.
    pub client_ca: String,
    /// The CAs of authenticating proxies' client certificates, as PEM; empty if there are no aggregated API servers.
    pub proxy_ca: String,
    /// The names and headers of authenticating proxies.
    pub request_header: RequestHeaderInfo,
}

/// How aggregated API servers recognize an authenticating proxy, this server among them, and the headers in which it
/// names the user.
#[derive(Debug, Clone)]
pub struct RequestHeaderInfo {
    /// The accepted common names of client certificates; all if there are none.
    pub allowed_names: Vec<String>,
    pub username_headers: Vec<String>,
    pub uid_headers: Vec<String>,
    pub group_headers: Vec<String>,
    pub extra_headers_prefix: Vec<String>,
}

/// Those of this server.
impl Default for RequestHeaderInfo {
    fn default() -> Self {
        let one = |text: &str| vec![text.to_owned()];
        Self {
            allowed_names: one(PROXY_NAME),
            username_headers: one("X-Remote-User"),
            uid_headers: one("X-Remote-Uid"),
            group_headers: one("X-Remote-Group"),
            extra_headers_prefix: one("X-Remote-Extra-"),
        }
    }
}

/// The common name of the certificate with which this server calls aggregated API servers.
pub const PROXY_NAME: &str = "front-proxy-client";
/// The labels of the `kubernetes` Service.
const SERVICE_LABELS: &[(&str, &str)] = &[("component", "apiserver"), ("provider", "kubernetes")];

/// How often they are checked, as upstream's endpoint reconciler does.
const CHECK_PERIOD: Duration = Duration::from_secs(10);

/// The objects of a server with this configuration.
pub(super) fn objects(server: &ServerInfo) -> Vec<BootstrapObject> {
    let address = server
        .service_cidr
        .nth(1)
        .map(|first| first.to_string())
        .unwrap_or_default();
    let create = Recheck::CreateEvery(CHECK_PERIOD);
    // The address may be one that the API rejects from others, such as a loopback address. The IPAddress comes with the
    // Service; created alone, it replaces one that was deleted. A controller updates the CAs in the ConfigMap.
    let mut objects: Vec<BootstrapObject> = [
        (service_cidr(server), create, true),
        (service(server, &address), create, true),
        (ip_address(server, &address), create, false),
        (authentication(server), create, true),
    ]
    .map(|(object, recheck, is_validated)| BootstrapObject {
        recheck,
        is_validated,
        ..bootstrap_object(object)
    })
    .into();
    if !server.shares_store {
        objects.extend(endpoint_objects(&[server.address], server.port));
    }
    objects
}

/// The endpoints of the `kubernetes` Service: servers with these addresses and the same port, as Endpoints and as
/// EndpointSlice.
pub fn endpoint_objects(addresses: &[IpAddr], port: u16) -> Vec<BootstrapObject> {
    // Endpoints have addresses in the order of their text.
    let mut addresses: Vec<(String, IpAddr)> = addresses
        .iter()
        .map(|address| (address.to_string(), *address))
        .collect();
    addresses.sort();
    let addresses: Vec<IpAddr> = addresses.into_iter().map(|(_, address)| address).collect();
    let objects = [endpoints(&addresses, port), endpoint_slice(&addresses, port)];
    let objects = objects.map(|object| BootstrapObject {
        recheck: Recheck::ReconcileEvery(CHECK_PERIOD),
        is_validated: false,
        ..bootstrap_object(object)
    });
    objects.into()
}

fn family(is_v6: bool) -> &'static str {
    if is_v6 { "IPv6" } else { "IPv4" }
}

fn service_cidr(server: &ServerInfo) -> (Gvr, Tree) {
    let mut tree = object("networking.k8s.io", "v1", "ServiceCIDR", "kubernetes");
    let range = server.service_cidr.to_string();
    tree.set(&[fields::SPEC, fields::CIDRS], vec![Tree::from(range)]);
    (Gvr::new("networking.k8s.io", "v1", "servicecidrs"), tree)
}

fn service(server: &ServerInfo, address: &str) -> (Gvr, Tree) {
    let mut tree = object("", "v1", "Service", "kubernetes");
    tree.set(&[fields::METADATA, fields::NAMESPACE], "default");
    for (label, value) in SERVICE_LABELS {
        tree.set(&[fields::METADATA, fields::LABELS, label], *value);
    }
    let spec = tree.child(fields::SPEC);
    let mut port = port(443);
    port.set(&[fields::TARGET_PORT], i64::from(server.port));
    spec.set(&[fields::PORTS], vec![port]);
    spec.set(&[fields::CLUSTER_IP], address);
    spec.set(&[fields::CLUSTER_IPS], vec![Tree::from(address)]);
    spec.set(&[fields::TYPE], "ClusterIP");
    spec.set(&[fields::SESSION_AFFINITY], "None");
    spec.set(
        &[fields::IP_FAMILIES],
        vec![Tree::from(family(server.service_cidr.is_v6()))],
    );
    spec.set(&[fields::IP_FAMILY_POLICY], "SingleStack");
    (Gvr::new("", "v1", "services"), tree)
}

fn ip_address(server: &ServerInfo, address: &str) -> (Gvr, Tree) {
    let tree = ip_address_of(address, server.service_cidr.is_v6(), "default", "kubernetes");
    (Gvr::new("networking.k8s.io", "v1", "ipaddresses"), tree)
}

/// The IPAddress object that records which Service has an address.
pub fn ip_address_of(address: &str, is_v6: bool, namespace: &str, service: &str) -> Tree {
    let mut tree = object("networking.k8s.io", "v1", "IPAddress", address);
    let labels = tree.child(fields::METADATA).child(fields::LABELS);
    labels.set(&["ipaddress.kubernetes.io/ip-family"], family(is_v6));
    labels.set(&["ipaddress.kubernetes.io/managed-by"], "ipallocator.k8s.io");
    let parent = tree.child(fields::SPEC).child(fields::PARENT_REF);
    parent.set(&[fields::RESOURCE], "services");
    parent.set(&[fields::NAMESPACE], namespace);
    parent.set(&[fields::NAME], service);
    tree
}

fn endpoints(addresses: &[IpAddr], number: u16) -> (Gvr, Tree) {
    let mut tree = object("", "v1", "Endpoints", "kubernetes");
    tree.set(&[fields::METADATA, fields::NAMESPACE], "default");
    let label = "endpointslice.kubernetes.io/skip-mirror";
    tree.set(&[fields::METADATA, fields::LABELS, label], "true");
    let listed = addresses.iter().map(|address| {
        let mut tree = Tree::default();
        tree.set(&[fields::IP], address.to_string());
        tree
    });
    let mut subset = Tree::default();
    subset.set(&[fields::ADDRESSES], listed.collect::<Vec<_>>());
    subset.set(&[fields::PORTS], vec![port(number)]);
    // A subset without addresses is invalid.
    let subsets = if addresses.is_empty() {
        vec![]
    } else {
        vec![subset]
    };
    tree.set(&[fields::SUBSETS], subsets);
    (Gvr::new("", "v1", "endpoints"), tree)
}

/// The object that a server with this address stores as its lease in etcd, as kube-apiserver does. Each renewal has another
/// generation.
pub fn server_lease(address: IpAddr, generation: i64) -> (Gvr, Tree) {
    let mut listed = Tree::default();
    listed.set(&[fields::IP], address.to_string());
    let mut subset = Tree::default();
    subset.set(&[fields::ADDRESSES], vec![listed]);
    let mut tree = Tree::default();
    tree.set(&[fields::KIND], "Endpoints");
    tree.set(&[fields::API_VERSION], "v1");
    tree.set(&[fields::METADATA, fields::GENERATION], generation);
    tree.set(&[fields::SUBSETS], vec![subset]);
    (Gvr::new("", "v1", "endpoints"), tree)
}

fn endpoint_slice(addresses: &[IpAddr], number: u16) -> (Gvr, Tree) {
    let mut tree = object("discovery.k8s.io", "v1", "EndpointSlice", "kubernetes");
    tree.set(&[fields::METADATA, fields::NAMESPACE], "default");
    let label = "kubernetes.io/service-name";
    tree.set(&[fields::METADATA, fields::LABELS, label], "kubernetes");
    // A slice has the addresses of one family.
    let is_v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
    tree.set(&[fields::ADDRESS_TYPE], family(is_v6));
    let of_family = addresses.iter().filter(|address| address.is_ipv6() == is_v6);
    let listed = of_family.map(|address| {
        let mut endpoint = Tree::default();
        endpoint.set(&[fields::ADDRESSES], vec![Tree::from(address.to_string())]);
        endpoint.set(&[fields::CONDITIONS, fields::READY], true);
        endpoint
    });
    tree.set(&[fields::ENDPOINTS], listed.collect::<Vec<_>>());
    tree.set(&[fields::PORTS], vec![port(number)]);
    (Gvr::new("discovery.k8s.io", "v1", "endpointslices"), tree)
}

fn port(number: u16) -> Tree {
    let mut port = Tree::default();
    port.set(&[fields::NAME], "https");
    port.set(&[fields::PROTOCOL], "TCP");
    port.set(&[fields::PORT], i64::from(number));
    port
}

/// The ConfigMap that gives aggregated API servers the CAs they may trust.
fn authentication(server: &ServerInfo) -> (Gvr, Tree) {
    let mut tree = object("", "v1", "ConfigMap", "extension-apiserver-authentication");
    tree.set(&[fields::METADATA, fields::NAMESPACE], "kube-system");
    let data = tree.child(fields::DATA);
    data.set(&["client-ca-file"], server.client_ca.as_str());
    if !server.proxy_ca.is_empty() {
        let header = &server.request_header;
        let list = |items: &[String]| {
            let items: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
            format!("[{}]", items.join(","))
        };
        data.set(&["requestheader-allowed-names"], list(&header.allowed_names));
        data.set(&["requestheader-client-ca-file"], server.proxy_ca.as_str());
        let prefix = list(&header.extra_headers_prefix);
        data.set(&["requestheader-extra-headers-prefix"], prefix);
        data.set(&["requestheader-group-headers"], list(&header.group_headers));
        data.set(&["requestheader-uid-headers"], list(&header.uid_headers));
        data.set(
            &["requestheader-username-headers"],
            list(&header.username_headers),
        );
    }
    (Gvr::new("", "v1", "configmaps"), tree)
}
