//! [`WebhookUrl`]: the parsed address of a webhook.

use http::Uri;
use setpoint_registry_api::WebhookAddress;

use super::proxy::{Proxy, ProxyConfig};
use crate::aggregate::{ServiceReference, ServiceResolver};
use crate::connect::BackendAddress;

/// The URL that a call posts to.
#[derive(Debug)]
pub(super) struct WebhookUrl {
    /// The whole URL, as errors name it.
    pub(super) text: String,
    /// The Host header.
    pub(super) host: String,
    /// Host and port, also if the port is the default one.
    pub(super) host_and_port: String,
    /// The name that the certificate must be valid for: a DNS name or an IP address.
    pub(super) server_name: String,
    pub(super) path_and_query: Uri,
    port: u16,
    /// The Service, if the webhook is not called by URL.
    service: Option<ServiceReference>,
}

impl WebhookUrl {
    /// The URL of an address with a query.
    pub(super) fn parse(address: &WebhookAddress, query: &str) -> Result<Self, String> {
        match address {
            WebhookAddress::Url(url) => Self::from_url(url, query),
            WebhookAddress::Service {
                namespace,
                name,
                path,
                port,
            } => {
                let service = ServiceReference {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    port: *port,
                };
                let host = service.host();
                let path_and_query = path_and_query(path, query)?;
                Ok(Self {
                    text: format!("https://{host}:{port}{path_and_query}"),
                    host: format!("{host}:{port}"),
                    host_and_port: format!("{host}:{port}"),
                    server_name: host,
                    path_and_query,
                    port: *port,
                    service: Some(service),
                })
            }
        }
    }

    fn from_url(url: &str, query: &str) -> Result<Self, String> {
        let parsed: Uri = url.parse().map_err(|error| format!("Unparsable URL: {error}"))?;
        let authority = parsed.authority();
        let authority = authority.ok_or_else(|| "host must be a URL or a host:port pair".to_owned())?;
        let port = authority.port_u16().unwrap_or(443);
        let bare = authority.host().trim_start_matches('[').trim_end_matches(']');
        let path_and_query = path_and_query(parsed.path(), query)?;
        Ok(Self {
            text: format!("https://{authority}{path_and_query}"),
            host: authority.to_string(),
            host_and_port: format!("{}:{port}", authority.host()),
            server_name: bare.to_owned(),
            path_and_query,
            port,
            service: None,
        })
    }

    /// The proxy through which the host of a URL is reached. Services are in the cluster.
    pub(super) fn proxy<'a>(&self, proxies: &'a ProxyConfig) -> Option<&'a Proxy> {
        match self.service {
            Some(_) => None,
            None => proxies.find(&self.server_name, self.port),
        }
    }

    /// The address to connect to.
    pub(super) fn backend(&self, resolve: &ServiceResolver) -> Result<BackendAddress, String> {
        match &self.service {
            Some(service) => resolve(service),
            None => Ok(BackendAddress {
                secure: true,
                host: self.server_name.clone(),
                port: self.port,
                resolved: Vec::new(),
                node: None,
            }),
        }
    }
}

/// The path without empty and dot segments, as Kubernetes' client cleans it, with the query.
fn path_and_query(path: &str, query: &str) -> Result<Uri, String> {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let path = format!("/{}", segments.join("/"));
    let text = match query {
        "" => path,
        query => format!("{path}?{query}"),
    };
    text.parse().map_err(|error| format!("Unparsable URL: {error}"))
}
