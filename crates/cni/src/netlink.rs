//! Route netlink: links, addresses and routes of the current network namespace.
//!
//! Each request is one message and one acknowledgement. Formats: `rtnetlink(7)` and the kernel's `linux/rtnetlink.h`;
//! numbers are in the machine's byte order, attributes are padded to four bytes.

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;

const REQUEST: u16 = 0x1;
const ACKNOWLEDGE: u16 = 0x4;
const REPLACE: u16 = 0x100;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;

/// The type of a message with an error; zero is an acknowledgement.
const ERROR: u16 = 2;

const LINK_ADDRESS: u16 = 1;
const LINK_NAME: u16 = 3;
const LINK_INFO: u16 = 18;
const LINK_NAMESPACE: u16 = 28;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const ADDRESS: u16 = 1;
const LOCAL_ADDRESS: u16 = 2;
const ROUTE_DESTINATION: u16 = 1;
const ROUTE_INTERFACE: u16 = 4;
const ROUTE_GATEWAY: u16 = 5;
const ROUTE_SOURCE: u16 = 7;

const INET: u8 = 2;
const UP: u32 = 1;
const TABLE_MAIN: u8 = 254;
const PROTOCOL_STATIC: u8 = 4;
const SCOPE_GLOBAL: u8 = 0;
const SCOPE_LINK: u8 = 253;
const UNICAST: u8 = 1;
const ON_LINK: u32 = 4;

const HEADER_BYTES: usize = 16;
const MAX_RESPONSE_BYTES: usize = 16 << 10;

/// A socket to the kernel, in the namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: OwnedFd,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    /// The hardware address, as in `02:00:00:00:00:01`.
    pub(crate) mac: String,
}

/// A route of the main table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    /// The destination; `None` for the default route.
    pub(crate) destination: Option<Ipv4Addr>,
    pub(crate) interface: u32,
    pub(crate) gateway: Option<Ipv4Addr>,
    /// The address from which the node itself connects.
    pub(crate) source: Option<Ipv4Addr>,
}

/// A message that is built.
#[derive(Debug)]
struct Message(Vec<u8>);

// === impl Netlink ===

impl Netlink {
    pub(crate) fn open() -> io::Result<Self> {
        // Route netlink is the protocol with the number zero.
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok(Self { socket })
    }

    /// Creates a pair of connected interfaces: one here, its peer in another namespace.
    pub(crate) fn create_veth(&self, name: &str, peer: &str, namespace: &File) -> io::Result<()> {
        let mut message = Message::new(NEW_LINK, CREATE | EXCLUSIVE, &link_header(0, 0));
        message.text(LINK_NAME, name);
        message.nested(LINK_INFO, |info| {
            info.text(INFO_KIND, "veth");
            info.nested(INFO_DATA, |data| {
                data.nested(VETH_PEER, |side| {
                    side.0.extend(link_header(0, 0));
                    side.text(LINK_NAME, peer);
                    side.attribute(LINK_NAMESPACE, &namespace.as_raw_fd().to_ne_bytes());
                });
            });
        });
        self.request(message).map(|_| ())
    }

    pub(crate) fn delete_link(&self, name: &str) -> io::Result<()> {
        let mut message = Message::new(DELETE_LINK, 0, &link_header(0, 0));
        message.text(LINK_NAME, name);
        self.request(message).map(|_| ())
    }

    pub(crate) fn link(&self, name: &str) -> io::Result<Link> {
        let mut message = Message::new(GET_LINK, 0, &link_header(0, 0));
        message.text(LINK_NAME, name);
        let response = self.request(message)?;
        parse_link(&response).ok_or_else(|| io::Error::other(format!("no link {name} in the response")))
    }

    pub(crate) fn set_up(&self, index: u32) -> io::Result<()> {
        self.request(Message::new(NEW_LINK, 0, &link_header(index, UP)))
            .map(|_| ())
    }

    /// Adds an address with a host mask. One that is there is no error.
    pub(crate) fn add_address(&self, index: u32, address: Ipv4Addr) -> io::Result<()> {
        let mut header = vec![INET, 32, 0, SCOPE_GLOBAL];
        header.extend(index.to_ne_bytes());
        let mut message = Message::new(NEW_ADDRESS, CREATE | REPLACE, &header);
        message.attribute(LOCAL_ADDRESS, &address.octets());
        message.attribute(ADDRESS, &address.octets());
        self.request(message).map(|_| ())
    }

    /// Adds a route, or replaces the one to the same destination.
    pub(crate) fn set_route(&self, route: Route) -> io::Result<()> {
        self.create_route(route, REPLACE)
    }

    /// Adds a route. One to the same destination is an error.
    pub(crate) fn add_route(&self, route: Route) -> io::Result<()> {
        self.create_route(route, EXCLUSIVE)
    }

    fn create_route(&self, route: Route, mode: u16) -> io::Result<()> {
        let bits = if route.destination.is_some() { 32 } else { 0 };
        let (scope, flags) = match route.gateway {
            Some(_) => (SCOPE_GLOBAL, ON_LINK),
            None => (SCOPE_LINK, 0),
        };
        let mut header = vec![INET, bits, 0, 0, TABLE_MAIN, PROTOCOL_STATIC, scope, UNICAST];
        header.extend(flags.to_ne_bytes());
        let mut message = Message::new(NEW_ROUTE, CREATE | mode, &header);
        let addresses = [
            (ROUTE_DESTINATION, route.destination),
            (ROUTE_GATEWAY, route.gateway),
            (ROUTE_SOURCE, route.source),
        ];
        for (kind, address) in addresses {
            if let Some(address) = address {
                message.attribute(kind, &address.octets());
            }
        }
        message.attribute(ROUTE_INTERFACE, &route.interface.to_ne_bytes());
        self.request(message).map(|_| ())
    }

    /// Sends a message and returns the one that responds to it, which is empty for an acknowledgement.
    fn request(&self, message: Message) -> io::Result<Vec<u8>> {
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &message.finish(), SendFlags::empty(), &kernel)?;
        let mut found = Vec::new();
        loop {
            let mut buffer = vec![0; MAX_RESPONSE_BYTES];
            let (length, _) = recv(&self.socket, buffer.as_mut_slice(), RecvFlags::empty())?;
            let mut rest = &buffer[..length];
            while let Some((kind, body, tail)) = split_message(rest) {
                if kind != ERROR {
                    found = body.to_vec();
                } else {
                    let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                    return match code {
                        0 => Ok(found),
                        _ => Err(io::Error::from_raw_os_error(-code)),
                    };
                }
                rest = tail;
            }
        }
    }
}

// === impl Message ===

impl Message {
    fn new(kind: u16, flags: u16, header: &[u8]) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((flags | REQUEST | ACKNOWLEDGE).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(header);
        Self(bytes)
    }

    fn attribute(&mut self, kind: u16, data: &[u8]) {
        self.nested(kind, |message| message.0.extend(data));
    }

    fn text(&mut self, kind: u16, text: &str) {
        self.nested(kind, |message| {
            message.0.extend(text.as_bytes());
            message.0.push(0);
        });
    }

    /// An attribute whose content is what `fill` appends.
    fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.0.len();
        self.0.extend([0, 0]);
        self.0.extend(kind.to_ne_bytes());
        fill(self);
        let length = u16::try_from(self.0.len() - start).expect("attributes are short");
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).expect("messages are short");
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

/// The header of messages about links (`ifinfomsg`). The flags are those to change, and their new values.
fn link_header(index: u32, flags: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..].copy_from_slice(&flags.to_ne_bytes());
    header
}

/// The type and the body of the first message, and what follows it.
fn split_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes([*bytes.get(4)?, *bytes.get(5)?]);
    let body = bytes.get(HEADER_BYTES..length)?;
    let tail = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, body, tail))
}

/// The index and the hardware address in a message about a link.
fn parse_link(body: &[u8]) -> Option<Link> {
    let index = u32::from_ne_bytes(*body.get(4..)?.first_chunk()?);
    let mut rest = body.get(16..)?;
    while let Some(&[a, b, c, d]) = rest.first_chunk() {
        let length = usize::from(u16::from_ne_bytes([a, b])).max(4);
        if u16::from_ne_bytes([c, d]) == LINK_ADDRESS {
            let bytes: Vec<_> = rest
                .get(4..length)?
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let mac = bytes.join(":");
            return Some(Link { index, mac });
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found() {
        let link = Netlink::open().unwrap().link("lo").unwrap();
        assert_eq!(link.mac, "00:00:00:00:00:00");
        let error = Netlink::open().unwrap().link("absent0").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(19), "no such device");
    }

    #[test]
    fn attributes_are_padded_and_their_lengths_are_not() {
        let mut message = Message::new(GET_LINK, 0, &link_header(0, 0));
        message.text(LINK_NAME, "lo");
        let bytes = message.finish();
        assert_eq!(bytes.len(), 16 + 16 + 8);
        assert_eq!(u16::from_ne_bytes([bytes[32], bytes[33]]), 7);
    }
}
