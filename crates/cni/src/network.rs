//! Links and routes of a pod.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use crate::namespace::run_inside;
use crate::netlink::{Link, Netlink, Route};

/// The gateway of every pod: an address of the node's loopback interface, which the kernel resolves on every link.
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);

/// The kernel's setting that lets the node route packets.
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

const NO_SUCH_DEVICE: i32 = 19;

/// A pod to be connected.
#[derive(Debug)]
pub(crate) struct PodLink<'a> {
    pub(crate) container: &'a str,
    pub(crate) interface: &'a str,
    pub(crate) namespace: &'a Path,
    pub(crate) address: Ipv4Addr,
    pub(crate) node_address: Option<Ipv4Addr>,
}

/// The interfaces of a connected pod.
#[derive(Debug)]
pub(crate) struct Interfaces {
    pub(crate) host_name: String,
    pub(crate) host_mac: String,
    pub(crate) pod_mac: String,
}

/// Creates the pair of interfaces and the routes of both sides.
pub(crate) fn connect(link: &PodLink<'_>) -> io::Result<Interfaces> {
    let netlink = Netlink::open()?;
    prepare_node(&netlink)?;
    let host_name = host_interface(link.container, link.interface);
    // What a previous attempt left.
    disconnect(link.container, link.interface)?;
    netlink.create_veth(&host_name, link.interface, &File::open(link.namespace)?)?;
    let host = netlink.link(&host_name)?;
    netlink.set_up(host.index)?;
    let pod = run_inside(link.namespace, || connect_inside(link))?;
    // A route that is there belongs to another pod: it must not be replaced, or that pod's packets came to this one.
    netlink.add_route(Route {
        destination: Some(link.address),
        interface: host.index,
        gateway: None,
        source: Some(link.node_address.unwrap_or(GATEWAY)),
    })?;
    Ok(Interfaces {
        host_name,
        host_mac: host.mac,
        pod_mac: pod.mac,
    })
}

/// Removes the pair of interfaces, and with it their routes.
pub(crate) fn disconnect(container: &str, interface: &str) -> io::Result<()> {
    match Netlink::open()?.delete_link(&host_interface(container, interface)) {
        Err(error) if error.raw_os_error() == Some(NO_SUCH_DEVICE) => Ok(()),
        deleted => deleted,
    }
}

/// Sets up the loopback interface of a namespace.
pub(crate) fn set_up_loopback(namespace: &Path) -> io::Result<()> {
    run_inside(namespace, || {
        let netlink = Netlink::open()?;
        netlink.set_up(netlink.link("lo")?.index)
    })
}

/// The node's side that all pods share: the gateway's address, and forwarding.
fn prepare_node(netlink: &Netlink) -> io::Result<()> {
    let loopback = netlink.link("lo")?;
    netlink.set_up(loopback.index)?;
    netlink.add_address(loopback.index, GATEWAY)?;
    if std::fs::read_to_string(FORWARDING)?.trim() != "1" {
        std::fs::write(FORWARDING, "1")?;
    }
    Ok(())
}

fn connect_inside(link: &PodLink<'_>) -> io::Result<Link> {
    let netlink = Netlink::open()?;
    netlink.set_up(netlink.link("lo")?.index)?;
    let pod = netlink.link(link.interface)?;
    netlink.set_up(pod.index)?;
    netlink.add_address(pod.index, link.address)?;
    netlink.set_route(Route {
        destination: Some(GATEWAY),
        interface: pod.index,
        gateway: None,
        source: Some(link.address),
    })?;
    netlink.set_route(Route {
        destination: None,
        interface: pod.index,
        gateway: Some(GATEWAY),
        source: Some(link.address),
    })?;
    Ok(pod)
}

/// The name of the node's side: at most 15 characters, the same for every command about the pod.
fn host_interface(container: &str, interface: &str) -> String {
    let bytes = container.bytes().chain([0]).chain(interface.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("veth{:011x}", hash >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_has_a_name_of_fifteen_characters() {
        let name = host_interface("c1", "eth0");
        assert_eq!(name.len(), 15);
        assert_ne!(name, host_interface("c2", "eth0"));
    }
}
