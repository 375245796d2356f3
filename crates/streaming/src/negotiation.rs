//! Negotiation: which protocol the client and this server speak after the upgrade.

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::channel::Encoding;
use crate::websocket::{self, requested_protocols};
use crate::{port_forward, remote_command};

/// The header in which a client with SPDY offers protocols, and a server names the chosen one.
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// The header in which a server lists its protocols.
const ACCEPTED_PROTOCOLS: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");
/// The value of the header Upgrade for SPDY.
const SPDY: &str = "SPDY/3.1";
/// The subprotocol of port-forward inside a WebSocket.
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";

/// Subprotocols of exec and attach over WebSockets.
const COMMAND_PROTOCOLS: [&str; 9] = [
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "v3.base64.channel.k8s.io",
    "v2.base64.channel.k8s.io",
    "base64.channel.k8s.io",
];
/// Subprotocols of port-forward over WebSockets.
const FORWARD_PROTOCOLS: [&str; 3] = [TUNNEL, "v4.channel.k8s.io", "v4.base64.channel.k8s.io"];
/// Protocols of exec and attach over SPDY.
const SPDY_COMMAND_PROTOCOLS: [&str; 4] = [
    "v4.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
];
/// Protocols of port-forward over SPDY.
const SPDY_FORWARD_PROTOCOLS: [&str; 1] = ["portforward.k8s.io"];

/// An accepted upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrade<P> {
    /// The protocol that both speak.
    pub protocol: P,
    /// The headers of the 101 response.
    pub headers: HeaderMap,
}

/// A rejected upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The status code.
    pub status: StatusCode,
    /// The body.
    pub message: String,
    /// Further headers.
    pub headers: HeaderMap,
}

/// Negotiates the protocol of an exec or an attach.
pub fn remote_command(headers: &HeaderMap) -> Result<Upgrade<remote_command::Protocol>, Box<Rejection>> {
    if websocket::is_upgrade(headers) {
        let (name, headers) = accept_websocket(headers, &COMMAND_PROTOCOLS)?;
        let encoding = encoding(name);
        let version = version(name);
        let transport = remote_command::Transport::WebSocket { encoding, version };
        return Ok(upgrade(remote_command::Protocol(transport), headers));
    }
    let (name, headers) = accept_spdy(headers, &SPDY_COMMAND_PROTOCOLS)?;
    let version = version(name);
    let transport = remote_command::Transport::Spdy { version };
    Ok(upgrade(remote_command::Protocol(transport), headers))
}

/// Negotiates the protocol of a port-forward. `ports` are those of the query, of which a WebSocket without a tunnel needs
/// at least one.
pub fn port_forward(
    headers: &HeaderMap,
    ports: impl FnOnce() -> Result<Vec<u16>, String>,
) -> Result<Upgrade<port_forward::Protocol>, Box<Rejection>> {
    use port_forward::Transport;

    if !websocket::is_upgrade(headers) {
        let (_, headers) = accept_spdy(headers, &SPDY_FORWARD_PROTOCOLS)?;
        return Ok(upgrade(port_forward::Protocol(Transport::Spdy), headers));
    }
    let (name, headers) = accept_websocket(headers, &FORWARD_PROTOCOLS)?;
    if name == TUNNEL {
        return Ok(upgrade(port_forward::Protocol(Transport::Tunnel), headers));
    }
    let encoding = encoding(name);
    let ports = ports().map_err(|message| reject(StatusCode::BAD_REQUEST, message))?;
    let transport = Transport::WebSocket { encoding, ports };
    Ok(upgrade(port_forward::Protocol(transport), headers))
}

fn upgrade<P>(protocol: P, headers: HeaderMap) -> Upgrade<P> {
    Upgrade { protocol, headers }
}

fn reject(status: StatusCode, message: String) -> Box<Rejection> {
    Box::new(Rejection {
        status,
        message,
        headers: HeaderMap::new(),
    })
}

fn encoding(name: &str) -> Encoding {
    match name.contains("base64") {
        true => Encoding::Base64,
        false => Encoding::Binary,
    }
}

/// The version in a protocol's name; 1 if it has none.
fn version(name: &str) -> u8 {
    let number = name.strip_prefix('v').and_then(|rest| rest.split('.').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(1)
}

/// The chosen subprotocol, empty if the client offers none, and the headers of the response.
fn accept_websocket(
    headers: &HeaderMap,
    supported: &[&'static str],
) -> Result<(&'static str, HeaderMap), Box<Rejection>> {
    let requested = requested_protocols(headers);
    let mut offers = requested.iter();
    let chosen = offers.find_map(|one| supported.iter().find(|own| *own == one));
    if chosen.is_none() && !requested.is_empty() {
        let message =
            format!("requested protocol(s) are not supported: {requested:?}; supports {supported:?}");
        return Err(reject(StatusCode::FORBIDDEN, message));
    }
    let response = websocket::accept(headers, supported);
    let incomplete = || {
        let message = "the request is not a WebSocket handshake of version 13".to_owned();
        reject(StatusCode::BAD_REQUEST, message)
    };
    Ok((
        chosen.copied().unwrap_or_default(),
        response.ok_or_else(incomplete)?,
    ))
}

/// The chosen protocol, empty if the client offers none, and the headers of the response.
fn accept_spdy(
    headers: &HeaderMap,
    supported: &[&'static str],
) -> Result<(&'static str, HeaderMap), Box<Rejection>> {
    let values = headers.get_all(UPGRADE).into_iter();
    let mut upgrades = values.filter_map(|value| value.to_str().ok());
    if !upgrades.any(|value| value.eq_ignore_ascii_case(SPDY)) {
        return Err(reject(
            StatusCode::BAD_REQUEST,
            "Upgrade request required".to_owned(),
        ));
    }
    let values = headers.get_all(STREAM_PROTOCOL).into_iter();
    let offers = values.filter_map(|value| value.to_str().ok());
    let offers: Vec<&str> = offers.flat_map(|list| list.split(',')).map(str::trim).collect();
    let chosen = offers
        .iter()
        .find_map(|one| supported.iter().find(|own| *own == one));
    if chosen.is_none() && !offers.is_empty() {
        return Err(unsupported(&offers, supported));
    }
    let mut response = HeaderMap::new();
    response.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response.insert(UPGRADE, HeaderValue::from_static(SPDY));
    if let Some(protocol) = chosen {
        response.insert(STREAM_PROTOCOL, HeaderValue::from_static(protocol));
    }
    Ok((chosen.copied().unwrap_or_default(), response))
}

fn unsupported(offers: &[&str], supported: &[&'static str]) -> Box<Rejection> {
    let message = format!(
        "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
        offers.join(" "),
        supported.join(" ")
    );
    let mut rejection = reject(StatusCode::FORBIDDEN, message);
    for protocol in supported {
        let value = HeaderValue::from_static(protocol);
        rejection.headers.append(ACCEPTED_PROTOCOLS, value);
    }
    rejection
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let parse = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(parse).collect()
    }

    fn websocket(protocols: &'static str) -> HeaderMap {
        headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "eA=="),
            ("sec-websocket-protocol", protocols),
        ])
    }

    fn spdy(protocols: &'static str) -> HeaderMap {
        headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", protocols),
        ])
    }

    #[track_caller]
    fn check(headers: &HeaderMap, expected: remote_command::Transport) {
        assert_eq!(remote_command(headers).unwrap().protocol.0, expected);
    }

    #[test]
    fn the_first_supported_protocol_of_the_client_is_chosen() {
        use remote_command::Transport::{Spdy, WebSocket};
        let socket = |encoding, version| WebSocket { encoding, version };
        check(&websocket("v5.channel.k8s.io"), socket(Encoding::Binary, 5));
        check(&websocket("v9.x, v4.channel.k8s.io"), socket(Encoding::Binary, 4));
        check(&websocket("base64.channel.k8s.io"), socket(Encoding::Base64, 1));
        check(&websocket(""), socket(Encoding::Binary, 1));
        check(&spdy("v4.channel.k8s.io, v3.channel.k8s.io"), Spdy { version: 4 });
        check(&headers(&[("upgrade", "SPDY/3.1")]), Spdy { version: 1 });
    }

    #[track_caller]
    fn check_rejected(headers: &HeaderMap, status: u16, message: &str) {
        let rejection = remote_command(headers).unwrap_err();
        assert_eq!(
            (rejection.status.as_u16(), rejection.message.as_str()),
            (status, message)
        );
    }

    #[test]
    fn a_client_without_a_common_protocol_is_rejected() {
        check_rejected(&headers(&[]), 400, "Upgrade request required");
        check_rejected(
            &spdy("v9.channel.k8s.io"),
            403,
            "unable to upgrade: unable to negotiate protocol: client supports [v9.channel.k8s.io], server accepts \
             [v4.channel.k8s.io v3.channel.k8s.io v2.channel.k8s.io channel.k8s.io]",
        );
        assert_eq!(remote_command(&websocket("x")).unwrap_err().status, 403);
    }

    #[test]
    fn a_port_forward_over_channels_needs_ports_and_a_tunnel_does_not() {
        let none = || Err("query parameter \"port\" is required".to_owned());
        let tunnel = port_forward(&websocket(TUNNEL), none).unwrap();
        assert_eq!(tunnel.protocol.0, port_forward::Transport::Tunnel);
        let rejection = port_forward(&websocket("v4.channel.k8s.io"), none).unwrap_err();
        assert_eq!(rejection.message, "query parameter \"port\" is required");
    }
}
