//! A minimal HTTP/1.1 client: it sends requests byte for byte as given, and returns responses unchanged.
//!
//! A regular client would normalize odd paths, reject invalid bodies and fold headers; the tests need them as they are.
//! All tests of the workspace that send HTTP requests of their own use it. Blocking, since every caller waits for its
//! response: a test whose server runs in the same process needs another thread for one of them. Start reading at
//! [`Client`].

mod connection;
mod endpoint;
mod response;

use std::collections::HashMap;
use std::io;

pub use connection::Connection;
pub use endpoint::{Endpoint, Error};
pub use response::Response;

/// A request as it is sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    pub caller: Caller,
}

/// The identity of a request's caller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Caller {
    /// The identity of the endpoint.
    #[default]
    Owner,
    /// No client certificate, no `Authorization` header.
    Anonymous,
    /// No client certificate, and this `Authorization` header.
    Header(String),
}

/// A client of one server, with one persistent connection per caller.
#[derive(Debug)]
pub struct Client {
    pub endpoint: Endpoint,
    connections: HashMap<Caller, Connection>,
}

// === impl Request ===

impl Request {
    pub fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self.header("Content-Type", content_type)
    }

    /// The encoded request.
    pub fn to_bytes(&self, host: &str, authorization: Option<&str>) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\nHost: {host}\r\n", self.method, self.path);
        if let Some(value) = authorization {
            text.push_str(&format!("Authorization: {value}\r\n"));
        }
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        let may_have_body = matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        let length = self.body.as_ref().map(Vec::len);
        if let Some(length) = length.or(may_have_body.then_some(0)) {
            text.push_str(&format!("Content-Length: {length}\r\n"));
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }
}

// === impl Client ===

impl Client {
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            connections: HashMap::new(),
        }
    }

    /// Sends a request and returns its response. If the persistent connection is broken, it retries on a new one.
    pub fn send(&mut self, request: &Request) -> io::Result<Response> {
        if let Some(connection) = self.connections.get_mut(&request.caller) {
            match connection.round_trip(request) {
                Ok(response) => return Ok(self.keep_if_open(request, response)),
                Err(_) => self.connections.remove(&request.caller),
            };
        }
        let mut connection = self.endpoint.connect(&request.caller)?;
        let response = connection.round_trip(request)?;
        self.connections.insert(request.caller.clone(), connection);
        Ok(self.keep_if_open(request, response))
    }

    fn keep_if_open(&mut self, request: &Request, response: Response) -> Response {
        if response.closes {
            self.connections.remove(&request.caller);
        }
        response
    }
}
