//! [`Http`]: the API of a remote server, over HTTPS.
//!
//! One connection is shared by all requests where the server speaks HTTP/2; else there are as many as requests at a time.
//! The server goes by the credentials of the connection: the user in a request means nothing to it.

mod answer;
mod connect;
mod question;
mod trust;
mod watch;

use std::fmt;
use std::sync::Arc;

use ::http::uri::InvalidUri;
use ::http::{HeaderValue, Request as HttpRequest, header};
use bytes::Bytes;
use http_body_util::Full;
use setpoint_api::{Reply, Request, Response, Serve, Status};

use crate::kubeconfig::{Connection, Identity};
use connect::Connector;
use question::Question;

/// A remote server.
pub struct Http {
    /// What comes before every path: scheme, host and the path of the server itself.
    base: String,
    token: Option<HeaderValue>,
    connector: Arc<Connector>,
}

/// Why a connection cannot even be tried.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("invalid server address {address:?}: {source}")]
    Address { address: String, source: InvalidUri },
    #[error("server address {0:?} names no host")]
    NoHost(String),
    #[error("no certificate authority for {0:?}, so the server cannot be verified")]
    NoAuthority(String),
    #[error("cannot read the {what}: {reason}")]
    Pem { what: &'static str, reason: String },
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    #[error("the token cannot stand in a header")]
    Token,
}

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("setpoint/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Http {
    /// Nothing is connected before the first request.
    pub fn new(connection: &Connection) -> Result<Self, Error> {
        let token = match &connection.identity {
            Identity::Token(token) => Some(bearer(token)?),
            _ => None,
        };
        Ok(Self {
            base: connection.server.trim_end_matches('/').to_owned(),
            token,
            connector: Arc::new(Connector::new(connection)?),
        })
    }

    /// The answer to a GET of a path that is no resource, such as `/version`.
    pub async fn get(&self, path: &str) -> Result<Bytes, Status> {
        let question = Question::plain(path);
        let answer = self.connector.send(self.message(&question)?).await?;
        answer::read_plain(answer).await
    }

    async fn ask(&self, request: Request) -> Result<Response, Status> {
        let question = Question::of(&request);
        let message = self.message(&question)?;
        let answer = self.connector.send(message).await?;
        answer::read(answer, &request.verb).await
    }

    fn message(&self, question: &Question) -> Result<HttpRequest<Full<Bytes>>, Status> {
        let mut message = HttpRequest::builder()
            .method(&question.method)
            .uri(format!("{}{}", self.base, question.path))
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, JSON);
        if let Some(kind) = question.content_type {
            message = message.header(header::CONTENT_TYPE, kind);
        }
        if let Some(token) = &self.token {
            message = message.header(header::AUTHORIZATION, token);
        }
        let message = message.body(Full::new(question.body.clone()));
        message.map_err(|error| Status::bad_request(format!("cannot ask for {:?}: {error}", question.path)))
    }
}

impl Serve for Http {
    fn call(&self, request: Request) -> Reply<'_> {
        Box::pin(self.ask(request))
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Http").field(&self.base).finish()
    }
}

fn bearer(token: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| Error::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests;
