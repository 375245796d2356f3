//! [`Lines`]: the events of a watch, one JSON object per line.

use anyhow::{Context, Result};
use serde_json::Value;
use setpoint_conformance::wire::{Connection, Request};

use crate::session::Session;

/// The stream of a watch that was accepted.
#[derive(Debug)]
pub(crate) struct Lines {
    connection: Connection,
    /// Received bytes of the next lines.
    text: Vec<u8>,
}

/// Why a watch has no stream.
#[derive(Debug)]
pub(crate) enum Rejection {
    /// The connection broke.
    Broken,
    /// The server responded with an error.
    Status(u16),
}

impl Lines {
    pub(crate) fn open(session: &Session, path: &str) -> Result<Self, Rejection> {
        let start = || {
            let mut connection = session.connect()?;
            let request = connection.to_bytes(&Request::new("GET", path));
            connection.send(&request)?;
            let response = connection.receive_start("GET")?;
            std::io::Result::Ok((connection, response.status))
        };
        match start() {
            Err(_) => Err(Rejection::Broken),
            Ok((connection, 200)) => Ok(Self {
                connection,
                text: Vec::new(),
            }),
            Ok((_, status)) => Err(Rejection::Status(status)),
        }
    }

    /// The next event; `None` if the stream has ended.
    pub(crate) fn next_json(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return serde_json::from_slice(&line)
                    .context("an event is JSON")
                    .map(Some);
            }
            match self.connection.receive_chunk() {
                Ok(chunk) if !chunk.is_empty() => self.text.extend(chunk),
                _ => return Ok(None),
            }
        }
    }
}
