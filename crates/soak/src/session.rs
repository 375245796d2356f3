//! [`Session`]: one caller's connection. A write is sent once and never again: whether a request without a response was
//! executed is for the caller to find out.

use std::io;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use setpoint_conformance::wire::{Caller, Connection, Endpoint, Request, Response};

/// A caller and its connection, which is opened when it is needed.
#[derive(Debug)]
pub(crate) struct Session {
    endpoint: Endpoint,
    caller: Caller,
    connection: Option<Connection>,
}

impl Session {
    /// The session of a user with a token.
    pub(crate) fn new(endpoint: &Endpoint, token: &str) -> Self {
        Self {
            endpoint: endpoint.clone(),
            caller: Caller::Header(format!("Bearer {token}")),
            connection: None,
        }
    }

    /// Sends a request and reads its response. After an error the next request opens a new connection.
    pub(crate) fn send(&mut self, request: &Request) -> io::Result<Response> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let response = connection.round_trip(request)?;
        if !response.closes {
            self.connection = Some(connection);
        }
        Ok(response)
    }

    /// Opens a connection if none is open. If that fails, nothing was sent.
    pub(crate) fn open(&mut self) -> io::Result<()> {
        if self.connection.is_none() {
            self.connection = Some(self.connect()?);
        }
        Ok(())
    }

    /// A connection of its own, for a watch or for bytes that are no complete request.
    pub(crate) fn connect(&self) -> io::Result<Connection> {
        self.endpoint.connect(&self.caller)
    }

    /// The JSON of a response with a status of success. The server closes a connection that was idle for a while, so a
    /// read on one that was kept open is sent again on a new one.
    pub(crate) fn read(&mut self, path: &str) -> Result<Value> {
        let (request, was_open) = (Request::new("GET", path), self.connection.is_some());
        let response = match self.send(&request) {
            Err(_) if was_open => self.send(&request)?,
            response => response?,
        };
        ensure!(response.status == 200, "GET {path}: {}", response.to_text());
        response
            .json()
            .with_context(|| format!("GET {path}: the body is no JSON"))
    }
}
