//! Configuration of the network, as the runtime passes it to the plugin.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::json;

/// The type of the plugin, which is the name of its program.
pub(crate) const PLUGIN: &str = "setpoint";

/// The settings of a node's pod network.
#[derive(Debug, Clone)]
pub struct NetworkOptions {
    /// The range of the pods' addresses, as in `10.244.1.0/24`.
    pub subnet: String,
    /// The directory of the addresses in use.
    pub data_directory: PathBuf,
    /// The node's own address, from which it connects to its pods.
    pub node_address: Option<IpAddr>,
}

/// The configuration list for a network of this plugin alone.
pub fn conflist(options: &NetworkOptions) -> String {
    let config = json!({
        "cniVersion": "1.0.0",
        "name": "setpoint",
        "plugins": [{
            "type": PLUGIN,
            "subnet": options.subnet,
            "dataDir": options.data_directory,
            "nodeAddress": options.node_address,
            "capabilities": { "portMappings": true },
        }],
    });
    config.to_string()
}

/// What the plugin reads from standard input.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Config {
    pub(crate) cni_version: String,
    pub(crate) r#type: String,
    pub(crate) subnet: String,
    pub(crate) data_dir: PathBuf,
    pub(crate) node_address: Option<Ipv4Addr>,
    pub(crate) runtime_config: RuntimeConfig,
    /// The interfaces of the pods that the runtime has, for the command GC.
    #[serde(rename = "cni.dev/valid-attachments")]
    pub(crate) valid_attachments: Option<Vec<Attachment>>,
}

/// The interface of a pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Attachment {
    #[serde(rename = "containerID")]
    pub(crate) container_id: String,
    #[serde(rename = "ifname")]
    pub(crate) interface: String,
}

/// The settings of one pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RuntimeConfig {
    pub(crate) port_mappings: Vec<PortMapping>,
}

/// A port of the node that is forwarded to the pod. containerd writes the names of its Go fields, which plugins in Go read as
/// well: `HostPort` for `hostPort`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PortMapping {
    #[serde(alias = "HostPort")]
    pub(crate) host_port: u16,
    #[serde(alias = "ContainerPort")]
    pub(crate) container_port: u16,
    #[serde(alias = "Protocol")]
    pub(crate) protocol: String,
    #[serde(rename = "hostIP", alias = "HostIP")]
    pub(crate) host_ip: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_with_the_names_of_the_convention_and_with_those_of_containerd() {
        let expected = PortMapping {
            host_port: 8080,
            container_port: 80,
            protocol: "tcp".to_owned(),
            host_ip: "127.0.0.1".to_owned(),
        };
        for text in [
            r#"{"hostPort":8080,"containerPort":80,"protocol":"tcp","hostIP":"127.0.0.1"}"#,
            r#"{"HostPort":8080,"ContainerPort":80,"Protocol":"tcp","HostIP":"127.0.0.1"}"#,
        ] {
            assert_eq!(serde_json::from_str::<PortMapping>(text).unwrap(), expected);
        }
    }
}
