//! The objects that tell where this server is and which addresses services may have.

use std::net::IpAddr;

use setpoint_api::Gvr;
use setpoint_schema::Tree;

use super::{IpRange, object};

/// How this server is set up, as far as its own objects tell it.
#[derive(Debug, Clone)]
pub struct Own {
    /// Where the server is reached.
    pub address: IpAddr,
    pub port: u16,
    /// The addresses that services may have.
    pub services: IpRange,
    /// The certificate that callers' certificates are signed with, as PEM.
    pub client_ca: String,
    /// The certificate that this server's own is signed with where it speaks for others, as PEM; empty if it never does.
    pub proxy_ca: String,
}

/// The name in the certificate with which this server speaks for others.
pub const PROXY_NAME: &str = "front-proxy-client";

/// The objects of a server that is set up so.
pub fn objects(own: &Own) -> Vec<(Gvr, Tree)> {
    let address = own
        .services
        .nth(1)
        .map(|first| first.to_string())
        .unwrap_or_default();
    vec![
        service_range(own),
        service(own, &address),
        ip_address(own, &address),
        endpoints(own),
        endpoint_slice(own),
        authentication(own),
    ]
}

fn family(is_v6: bool) -> &'static str {
    if is_v6 { "IPv6" } else { "IPv4" }
}

fn service_range(own: &Own) -> (Gvr, Tree) {
    let mut tree = object("networking.k8s.io", "v1", "ServiceCIDR", "kubernetes");
    let range = own.services.to_string();
    tree.set(&["spec", "cidrs"], vec![Tree::from(range)]);
    (Gvr::new("networking.k8s.io", "v1", "servicecidrs"), tree)
}

fn service(own: &Own, address: &str) -> (Gvr, Tree) {
    let mut tree = object("", "v1", "Service", "kubernetes");
    tree.set(&["metadata", "namespace"], "default");
    tree.set(&["metadata", "labels", "component"], "apiserver");
    tree.set(&["metadata", "labels", "provider"], "kubernetes");
    let spec = tree.child("spec");
    let mut port = port(own, "port");
    port.set(&["port"], 443);
    port.set(&["targetPort"], i64::from(own.port));
    spec.set(&["ports"], vec![port]);
    spec.set(&["clusterIP"], address);
    spec.set(&["clusterIPs"], vec![Tree::from(address)]);
    spec.set(&["type"], "ClusterIP");
    spec.set(&["sessionAffinity"], "None");
    spec.set(&["ipFamilies"], vec![Tree::from(family(own.services.is_v6()))]);
    spec.set(&["ipFamilyPolicy"], "SingleStack");
    (Gvr::new("", "v1", "services"), tree)
}

fn ip_address(own: &Own, address: &str) -> (Gvr, Tree) {
    let tree = ip_address_of(address, own.services.is_v6(), "default", "kubernetes");
    (Gvr::new("networking.k8s.io", "v1", "ipaddresses"), tree)
}

/// The object that says which service has an address.
pub fn ip_address_of(address: &str, is_v6: bool, namespace: &str, service: &str) -> Tree {
    let mut tree = object("networking.k8s.io", "v1", "IPAddress", address);
    let labels = tree.child("metadata").child("labels");
    labels.set(&["ipaddress.kubernetes.io/ip-family"], family(is_v6));
    labels.set(&["ipaddress.kubernetes.io/managed-by"], "ipallocator.k8s.io");
    let parent = tree.child("spec").child("parentRef");
    parent.set(&["resource"], "services");
    parent.set(&["namespace"], namespace);
    parent.set(&["name"], service);
    tree
}

fn endpoints(own: &Own) -> (Gvr, Tree) {
    let mut tree = object("", "v1", "Endpoints", "kubernetes");
    tree.set(&["metadata", "namespace"], "default");
    let label = "endpointslice.kubernetes.io/skip-mirror";
    tree.set(&["metadata", "labels", label], "true");
    let mut address = Tree::default();
    address.set(&["ip"], own.address.to_string());
    let mut subset = Tree::default();
    subset.set(&["addresses"], vec![address]);
    subset.set(&["ports"], vec![port(own, "port")]);
    tree.set(&["subsets"], vec![subset]);
    (Gvr::new("", "v1", "endpoints"), tree)
}

fn endpoint_slice(own: &Own) -> (Gvr, Tree) {
    let mut tree = object("discovery.k8s.io", "v1", "EndpointSlice", "kubernetes");
    tree.set(&["metadata", "namespace"], "default");
    let label = "kubernetes.io/service-name";
    tree.set(&["metadata", "labels", label], "kubernetes");
    tree.set(&["addressType"], family(own.address.is_ipv6()));
    let mut endpoint = Tree::default();
    endpoint.set(&["addresses"], vec![Tree::from(own.address.to_string())]);
    endpoint.set(&["conditions", "ready"], true);
    tree.set(&["endpoints"], vec![endpoint]);
    tree.set(&["ports"], vec![port(own, "port")]);
    (Gvr::new("discovery.k8s.io", "v1", "endpointslices"), tree)
}

fn port(own: &Own, field: &str) -> Tree {
    let mut port = Tree::default();
    port.set(&["name"], "https");
    port.set(&["protocol"], "TCP");
    port.set(&[field], i64::from(own.port));
    port
}

/// Whom servers behind this one may trust.
fn authentication(own: &Own) -> (Gvr, Tree) {
    let mut tree = object("", "v1", "ConfigMap", "extension-apiserver-authentication");
    tree.set(&["metadata", "namespace"], "kube-system");
    let data = tree.child("data");
    data.set(&["client-ca-file"], own.client_ca.as_str());
    if !own.proxy_ca.is_empty() {
        let list = |name: &str| format!("[{name:?}]");
        data.set(&["requestheader-allowed-names"], list(PROXY_NAME));
        data.set(&["requestheader-client-ca-file"], own.proxy_ca.as_str());
        data.set(&["requestheader-extra-headers-prefix"], list("X-Remote-Extra-"));
        data.set(&["requestheader-group-headers"], list("X-Remote-Group"));
        data.set(&["requestheader-uid-headers"], list("X-Remote-Uid"));
        data.set(&["requestheader-username-headers"], list("X-Remote-User"));
    }
    (Gvr::new("", "v1", "configmaps"), tree)
}
