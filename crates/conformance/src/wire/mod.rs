//! HTTP/1.1 by hand: what is sent is exactly what was written down, and what comes back is shown as it came.
//!
//! A polite client would repair odd paths, refuse broken bodies and fold headers; here these are the point. Blocking,
//! since every caller waits for its answer. Start reading at [`Client`].

mod answer;
mod connection;
mod endpoint;

use std::collections::HashMap;
use std::io;

pub use answer::Answer;
pub use connection::Connection;
pub use endpoint::{Endpoint, Error};

/// One request as it goes out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<Vec<u8>>,
    pub caller: Caller,
}

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum Caller {
    /// The identity of the endpoint.
    #[default]
    Owner,
    /// Nobody: no certificate, no header.
    Nobody,
    /// Nobody's certificate, and this `Authorization` header.
    Header(String),
}

/// A server and the connections kept to it, one for each caller.
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

    /// The bytes of the request, for a host.
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

    /// Asks, once more over a new connection where the kept one is broken.
    pub fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        if let Some(connection) = self.connections.get_mut(&request.caller) {
            match connection.ask(request) {
                Ok(answer) => return Ok(self.keep_if_open(request, answer)),
                Err(_) => self.connections.remove(&request.caller),
            };
        }
        let mut connection = self.endpoint.connect(&request.caller)?;
        let answer = connection.ask(request)?;
        self.connections.insert(request.caller.clone(), connection);
        Ok(self.keep_if_open(request, answer))
    }

    fn keep_if_open(&mut self, request: &Request, answer: Answer) -> Answer {
        if answer.closes {
            self.connections.remove(&request.caller);
        }
        answer
    }
}
