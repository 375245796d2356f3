//! Proxies of the environment for webhooks by URL, with the rules of Go's client: `HTTPS_PROXY` and `NO_PROXY`, in upper or
//! lower case. Only HTTP proxies are used (`CONNECT`).

use std::io;
use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use setpoint_values::Cidr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Maximum size of the head of a proxy's response.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// The proxy of the environment.
#[derive(Debug, Clone, Default)]
pub struct ProxyConfig {
    proxy: Option<Proxy>,
    exceptions: Vec<String>,
}

/// An HTTP proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    host: String,
    port: u16,
    /// The value of the `Proxy-Authorization` header, if the URL has a user.
    authorization: Option<String>,
}

impl ProxyConfig {
    /// The configuration that the environment variables have, by this lookup. Fails if the proxy's URL is invalid.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let either = |name: &str| {
            let lower = || variable(&name.to_lowercase()).filter(|value| !value.is_empty());
            variable(name).filter(|value| !value.is_empty()).or_else(lower)
        };
        let proxy = either("HTTPS_PROXY").map(|url| Proxy::parse(&url));
        let exceptions = either("NO_PROXY").unwrap_or_default();
        let exceptions = exceptions.split(',').map(|one| one.trim().to_lowercase());
        Ok(Self {
            proxy: proxy.transpose()?,
            exceptions: exceptions.filter(|one| !one.is_empty()).collect(),
        })
    }

    /// The proxy for a host, which is a DNS name or an IP address.
    pub(crate) fn find(&self, host: &str, port: u16) -> Option<&Proxy> {
        let proxy = self.proxy.as_ref()?;
        let host = host.trim_end_matches('.').to_lowercase();
        let ip: Option<IpAddr> = host.parse().ok();
        let is_local = host == "localhost" || ip.is_some_and(|ip| ip.is_loopback());
        let is_excepted = || {
            let mut exceptions = self.exceptions.iter();
            exceptions.any(|one| is_exception(one, (&host, ip), port))
        };
        (!is_local && !is_excepted()).then_some(proxy)
    }
}

/// Whether an entry of `NO_PROXY` concerns a host: `*`, a CIDR, an address, a domain with its subdomains, or only its
/// subdomains; an address or a domain may have a port.
fn is_exception(entry: &str, (host, ip): (&str, Option<IpAddr>), port: u16) -> bool {
    if entry == "*" {
        return true;
    }
    if let (Some(ip), Ok(cidr)) = (ip, entry.parse::<Cidr>()) {
        return cidr.contains(ip);
    }
    let (name, entry_port) = match entry.rsplit_once(':') {
        Some((name, digits)) if !name.contains(':') || name.ends_with(']') => (name, digits.parse().ok()),
        _ => (entry, None),
    };
    if entry_port.is_some_and(|own: u16| own != port) {
        return false;
    }
    let name = name.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = name.parse::<IpAddr>() {
        return ip == Some(address);
    }
    let name = name.strip_prefix('*').unwrap_or(name);
    match name.strip_prefix('.') {
        Some(domain) => host.strip_suffix(domain).is_some_and(|sub| sub.ends_with('.')),
        None => host == name || host.strip_suffix(name).is_some_and(|sub| sub.ends_with('.')),
    }
}

impl Proxy {
    /// The proxy of a URL, or of `host:port`.
    fn parse(url: &str) -> Result<Self, String> {
        let invalid = || format!("invalid proxy address {url:?}");
        let with_scheme = match url.contains("://") {
            true => url.to_owned(),
            false => format!("http://{url}"),
        };
        let parsed: Uri = with_scheme.parse().map_err(|_| invalid())?;
        if parsed.scheme_str() != Some("http") {
            return Err(format!("{}: only HTTP proxies are supported", invalid()));
        }
        let authority = parsed.authority().ok_or_else(invalid)?;
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| user);
        Ok(Self {
            host: authority
                .host()
                .trim_start_matches('[')
                .trim_end_matches(']')
                .to_owned(),
            port: authority.port_u16().unwrap_or(80),
            authorization: user.map(|user| format!("Basic {}", STANDARD.encode(user))),
        })
    }

    /// Opens a connection to a host through the proxy.
    pub(crate) async fn connect(&self, host_and_port: &str) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|error| io::Error::other(format!("proxyconnect tcp: {error}")))?;
        let mut request = format!("CONNECT {host_and_port} HTTP/1.1\r\nHost: {host_and_port}\r\n");
        if let Some(authorization) = &self.authorization {
            request.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await?;
        let head = read_head(&mut stream).await?;
        let mut words = head.split_ascii_whitespace();
        let status = words.nth(1).unwrap_or_default();
        match status {
            "200" => Ok(stream),
            _ => {
                let line = head.lines().next().unwrap_or_default();
                let text = line.split_once(' ').map_or(line, |(_, text)| text);
                Err(io::Error::other(text.to_owned()))
            }
        }
    }
}

/// Reads the head of the response byte by byte, since what follows belongs to the tunnel.
async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_HEAD_BYTES {
            return Err(io::Error::other("the response of the proxy is too large"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(proxy: &'static str, exceptions: &'static str) -> Result<ProxyConfig, String> {
        ProxyConfig::from_env(|name| match name {
            "https_proxy" => Some(proxy.to_owned()),
            "NO_PROXY" => Some(exceptions.to_owned()),
            _ => None,
        })
    }

    #[track_caller]
    fn check(exceptions: &'static str, host: &str, is_proxied: bool) {
        let config = config("proxy.example.com:3128", exceptions).unwrap();
        let found = config.find(host, 443);
        assert_eq!(found.is_some(), is_proxied, "{host} without {exceptions}");
    }

    #[test]
    fn a_host_is_excepted_by_name_domain_address_range_or_port() {
        check("", "hook.example.com", true);
        check("", "localhost", false);
        check("", "127.0.0.1", false);
        check("", "::1", false);
        check("*", "hook.example.com", false);
        check("other.com, EXAMPLE.com", "hook.example.com", false);
        check("example.com", "example.com", false);
        check("example.com", "notexample.com", true);
        check(".example.com", "example.com", true);
        check(".example.com", "hook.example.com", false);
        check("example.com:443", "hook.example.com", false);
        check("example.com:8443", "hook.example.com", true);
        check("10.0.0.0/8", "10.1.2.3", false);
        check("10.0.0.0/8", "11.1.2.3", true);
        check("10.1.2.3", "10.1.2.3", false);
    }

    #[test]
    fn only_http_proxies_are_supported() {
        let proxy = |url| config(url, "").map(|config| config.proxy.unwrap());
        let parsed = proxy("http://user:secret@[::1]:8080/").unwrap();
        assert_eq!((parsed.host.as_str(), parsed.port), ("::1", 8080));
        assert_eq!(parsed.authorization.as_deref(), Some("Basic dXNlcjpzZWNyZXQ="));
        assert_eq!(proxy("proxy").unwrap().port, 80);
        assert_eq!(
            proxy("socks5://proxy:1080").unwrap_err(),
            "invalid proxy address \"socks5://proxy:1080\": only HTTP proxies are supported"
        );
    }

    #[test]
    fn without_variables_there_is_no_proxy() {
        let config = ProxyConfig::from_env(|_| None).unwrap();
        assert_eq!(config.find("hook.example.com", 443), None);
    }
}
