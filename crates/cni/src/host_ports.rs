//! Ports of the node that are forwarded to pods: elements of two maps in a table of nftables, one for all addresses of
//! the node and one for single addresses. `nft` is executed only for pods that have such ports.

use std::io::Write;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use crate::config::PortMapping;
use crate::error::Error;

/// The table; adding what is there changes nothing.
const TABLE: &str = "
add table ip setpoint-host-ports
add map ip setpoint-host-ports any { type inet_proto . inet_service : ipv4_addr . inet_service ; }
add map ip setpoint-host-ports one { type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service ; }
add chain ip setpoint-host-ports forward
flush chain ip setpoint-host-ports forward
add rule ip setpoint-host-ports forward dnat ip to ip daddr . meta l4proto . th dport map @one
add rule ip setpoint-host-ports forward dnat ip to meta l4proto . th dport map @any
add chain ip setpoint-host-ports prerouting { type nat hook prerouting priority dstnat ; }
flush chain ip setpoint-host-ports prerouting
add rule ip setpoint-host-ports prerouting fib daddr type local jump forward
add chain ip setpoint-host-ports output { type nat hook output priority -100 ; }
flush chain ip setpoint-host-ports output
add rule ip setpoint-host-ports output fib daddr type local jump forward
";

/// Forwards the ports to the pod.
pub(crate) fn add(pod: Ipv4Addr, ports: &[PortMapping]) -> Result<(), Error> {
    let elements = ports.iter().filter_map(|port| {
        let (map, key) = key(port)?;
        Some(format!(
            "add element ip setpoint-host-ports {map} {{ {key} : {pod} . {} }}\n",
            port.container_port
        ))
    });
    let elements: String = elements.collect();
    match elements.is_empty() {
        true => Ok(()),
        false => execute(&(TABLE.to_owned() + &elements)),
    }
}

/// Forwards the ports no longer.
pub(crate) fn remove(ports: &[PortMapping]) {
    for (map, key) in ports.iter().filter_map(key) {
        // After a restart of the machine the element is gone already.
        execute(&format!(
            "delete element ip setpoint-host-ports {map} {{ {key} }}\n"
        ))
        .ok();
    }
}

/// The map and the key of a port. A port of an IPv6 address is not forwarded, since pods have none: it must not become one of
/// all IPv4 addresses.
fn key(port: &PortMapping) -> Option<(&'static str, String)> {
    if port.host_port == 0 {
        return None;
    }
    let protocol = match port.protocol.as_str() {
        "" => "tcp".to_owned(),
        protocol => protocol.to_lowercase(),
    };
    let number = port.host_port;
    let address = match port.host_ip.as_str() {
        "" => Ipv4Addr::UNSPECIFIED,
        address => address.parse().ok()?,
    };
    Some(match address.is_unspecified() {
        true => ("any", format!("{protocol} . {number}")),
        false => ("one", format!("{address} . {protocol} . {number}")),
    })
}

fn execute(script: &str) -> Result<(), Error> {
    let failed = || Error::io("cannot run nft for host ports");
    let mut child = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed())?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(script.as_bytes()).map_err(failed())?;
    }
    let output = child.wait_with_output().map_err(failed())?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Error::new(
                Error::IO,
                format!("cannot forward host ports: {text}"),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(host_ip: &str, protocol: &str, expected: Option<(&str, &str)>) {
        let port = PortMapping {
            host_port: 80,
            container_port: 8080,
            protocol: protocol.to_owned(),
            host_ip: host_ip.to_owned(),
        };
        let key = key(&port);
        assert_eq!(key.as_ref().map(|(map, key)| (*map, key.as_str())), expected);
    }

    #[test]
    fn a_port_of_one_address_is_in_the_map_of_addresses() {
        check("", "tcp", Some(("any", "tcp . 80")));
        check("0.0.0.0", "UDP", Some(("any", "udp . 80")));
        check("192.0.2.1", "", Some(("one", "192.0.2.1 . tcp . 80")));
    }

    #[test]
    fn a_port_of_an_ipv6_address_is_not_one_of_all_ipv4_addresses() {
        check("::1", "tcp", None);
        check("::", "tcp", None);
    }
}
