//! Webhooks: the interface through which admission webhooks and conversion webhooks are called. `apiserver` implements
//! it over HTTPS.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

/// Calls webhooks.
pub trait WebhookClient: Debug + Send + Sync {
    /// Posts a review and returns the body of the response, whose HTTP status is a success. Connections to an endpoint
    /// are reused.
    fn post<'a>(&'a self, endpoint: &'a WebhookEndpoint, request: WebhookRequest) -> WebhookFuture<'a>;
}

/// A client without a network, whose calls fail: for servers in tests that call no webhooks.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoWebhooks;

impl WebhookClient for NoWebhooks {
    fn post<'a>(&'a self, _endpoint: &'a WebhookEndpoint, _request: WebhookRequest) -> WebhookFuture<'a> {
        let error = WebhookError {
            message: "this server calls no webhooks".to_owned(),
            status: None,
        };
        Box::pin(async { Err(error) })
    }
}

/// The pending response of a webhook.
pub type WebhookFuture<'a> = Pin<Box<dyn Future<Output = Result<Bytes, WebhookError>> + Send + 'a>>;

/// How a webhook is reached: the `clientConfig` of its configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WebhookEndpoint {
    pub address: WebhookAddress,
    /// The certificate authorities of its certificate, in PEM. If empty, those of the system.
    pub ca_bundle: Bytes,
}

/// The address of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WebhookAddress {
    Url(String),
    Service {
        namespace: String,
        name: String,
        /// Begins with a slash; may be empty.
        path: String,
        port: u16,
    },
}

/// One call of a webhook.
#[derive(Debug, Clone)]
pub struct WebhookRequest {
    /// The review, in JSON.
    pub body: Bytes,
    /// The query of the URL, such as `timeout=10s`; may be empty.
    pub query: String,
    /// The call fails if there is no complete response by then.
    pub timeout: Duration,
}

/// A failed call, in the words of Kubernetes: `Post "https://…": context deadline exceeded`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WebhookError {
    pub message: String,
    /// The HTTP status, if the webhook sent one.
    pub status: Option<u16>,
}
