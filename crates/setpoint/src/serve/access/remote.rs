//! HTTP clients of webhooks and OpenID providers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use setpoint_api::{Clock, Status};
use setpoint_auth::authenticate::jwt::ConnectProvider;
use setpoint_auth::maybe_future::BoxFuture;
use setpoint_auth::remote::{Fetch, ReviewClient, WebhookError};
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Http, Kubeconfig};

/// The timeout of a request to an OpenID provider.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(30);

/// The files with the CAs that the machine trusts, as Linux distributions have them. The first that exists is read.
const SYSTEM_AUTHORITIES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A webhook at the URL of a kubeconfig.
pub(super) struct Webhook {
    http: Http,
    timeout: Duration,
    clock: Arc<dyn Clock>,
}

/// An OpenID provider, and possibly other servers that it refers to.
struct Provider {
    authority: Option<Vec<u8>>,
    clock: Arc<dyn Clock>,
}

/// The client of the webhook that a kubeconfig names as its current cluster.
pub(super) fn webhook(kubeconfig: &Path, timeout: Duration, clock: &Arc<dyn Clock>) -> Result<Webhook> {
    let what = || format!("cannot use the webhook's kubeconfig {}", kubeconfig.display());
    let config = Kubeconfig::read(kubeconfig).with_context(what)?;
    let mut connection = config.connection(None).with_context(what)?;
    connection.authority = connection.authority.or_else(system_authorities);
    Ok(Webhook {
        http: Http::with_clock(&connection, clock.clone()).with_context(what)?,
        timeout,
        clock: clock.clone(),
    })
}

/// Connects to OpenID providers.
pub(super) fn connect_providers(clock: &Arc<dyn Clock>) -> ConnectProvider {
    let clock = clock.clone();
    Arc::new(move |authority| {
        let authority = authority.map(|pem| pem.as_bytes().to_vec());
        let provider = Provider {
            authority: authority.or_else(system_authorities),
            clock: clock.clone(),
        };
        provider.connect("https://localhost")?;
        Ok(Arc::new(provider) as Arc<dyn Fetch>)
    })
}

fn system_authorities() -> Option<Vec<u8>> {
    SYSTEM_AUTHORITIES
        .iter()
        .find_map(|path| std::fs::read(path).ok())
}

// === impl Webhook ===

impl ReviewClient for Webhook {
    fn send(&self, review: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, WebhookError>> {
        Box::pin(async move {
            let path = format!("?timeout={}s", self.timeout.as_secs());
            tokio::select! {
                response = self.http.post(&path, review) => match response {
                    Ok(body) => Ok(body.to_vec()),
                    Err(status) => Err(webhook_error(status)),
                },
                () = self.clock.sleep(self.timeout) => Err(WebhookError {
                    message: format!("the webhook did not respond within {:?}", self.timeout),
                    transient: false,
                }),
            }
        })
    }
}

/// The error of a call. Internal errors, timeouts and reset connections are transient, as in Kubernetes.
fn webhook_error(status: Status) -> WebhookError {
    let transient = matches!(status.code, 429 | 500 | 504) || status.message.contains("reset by peer");
    WebhookError {
        message: status.message,
        transient,
    }
}

// === impl Provider ===

impl Provider {
    /// A client for a server, by its scheme, host and port.
    fn connect(&self, origin: &str) -> Result<Http, String> {
        let connection = Connection {
            server: origin.to_owned(),
            authority: self.authority.clone(),
            ..Connection::default()
        };
        Http::with_clock(&connection, self.clock.clone()).map_err(|error| error.to_string())
    }

    async fn fetch(&self, url: &str) -> Result<Vec<u8>, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        if scheme != "https" {
            return Err(format!("unsupported URL {url:?}: the scheme must be https"));
        }
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let http = self.connect(&format!("https://{host}"))?;
        let body = http.get(path).await.map_err(|status| status.message)?;
        Ok(body.to_vec())
    }
}

impl Fetch for Provider {
    fn get<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            tokio::select! {
                body = self.fetch(url) => body,
                () = self.clock.sleep(PROVIDER_TIMEOUT) => Err(format!("{url}: timeout")),
            }
        })
    }
}
