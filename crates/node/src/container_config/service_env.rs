//! Environment variables of Services, as `REDIS_SERVICE_HOST` and `REDIS_PORT_6379_TCP`.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use serde::Deserialize;

/// The fields of a Service that environments need.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ServiceView {
    /// Its namespace and name.
    pub metadata: ServiceMetadata,
    /// Its address and ports.
    pub spec: ServiceSpec,
}

/// The namespace and the name of a Service.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ServiceMetadata {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The address and the ports of a Service.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ServiceSpec {
    /// Its address; empty or `None` for one without.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    /// Its ports.
    pub ports: Vec<ServicePort>,
}

/// A port of a Service.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ServicePort {
    /// Its name, if it has one.
    pub name: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The number.
    pub port: i32,
}

impl ServiceView {
    /// Whether a pod of this namespace can have variables of the Service.
    pub(crate) fn is_seen_from(&self, namespace: &str) -> bool {
        self.metadata.namespace == namespace || self.is_master()
    }

    fn is_master(&self) -> bool {
        self.metadata.namespace == "default" && self.metadata.name == "kubernetes"
    }
}

/// The variables of the Services that a pod of this namespace sees. `kubernetes` is always among them.
pub(super) fn service_variables(
    services: &[ServiceView],
    namespace: &str,
    links: bool,
) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    // A Service of the pod's own namespace comes last: its variables replace those of the same name.
    for service in services.iter().filter(|service| service.is_master()) {
        add(service, &mut variables);
    }
    let own =
        |service: &&ServiceView| links && !service.is_master() && service.metadata.namespace == namespace;
    for service in services.iter().filter(own) {
        add(service, &mut variables);
    }
    variables
}

fn add(service: &ServiceView, variables: &mut BTreeMap<String, String>) {
    let ServiceSpec { cluster_ip, ports } = &service.spec;
    let address = cluster_ip.as_str();
    let Some(first) = ports.first().filter(|_| !address.is_empty() && address != "None") else {
        return;
    };
    let prefix = variable_name(&service.metadata.name);
    let mut set = |name: String, value: String| variables.insert(name, value);
    set(format!("{prefix}_SERVICE_HOST"), address.to_owned());
    set(format!("{prefix}_SERVICE_PORT"), first.port.to_string());
    for port in ports {
        if !port.name.is_empty() {
            let name = variable_name(&port.name);
            set(format!("{prefix}_SERVICE_PORT_{name}"), port.port.to_string());
        }
    }
    set(format!("{prefix}_PORT"), url(address, first));
    for port in ports {
        let protocol = protocol(port);
        let port_prefix = format!("{prefix}_PORT_{}_{protocol}", port.port);
        set(port_prefix.clone(), url(address, port));
        set(format!("{port_prefix}_PROTO"), protocol.to_lowercase());
        set(format!("{port_prefix}_PORT"), port.port.to_string());
        set(format!("{port_prefix}_ADDR"), address.to_owned());
    }
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

fn protocol(port: &ServicePort) -> &str {
    match port.protocol.as_str() {
        "" => "TCP",
        protocol => protocol,
    }
}

fn url(address: &str, port: &ServicePort) -> String {
    let scheme = protocol(port).to_lowercase();
    match address.parse::<Ipv6Addr>() {
        Ok(address) => format!("{scheme}://[{address}]:{}", port.port),
        Err(_) => format!("{scheme}://{address}:{}", port.port),
    }
}
