//! A client that sends single requests and waits for a state.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::time::sleep;

use crate::api::{connection::Connection, load, request, server::Server};

/// The polling interval of waits.
const INTERVAL: Duration = Duration::from_millis(50);

/// The timeout of waits.
const LIMIT: Duration = Duration::from_secs(600);

/// A connection to the server under test.
#[derive(Debug)]
pub(crate) struct ApiClient {
    connection: Connection,
}

impl ApiClient {
    pub(crate) async fn new(server: &Server) -> Result<Self> {
        let mut connections = load::connect(&server.endpoint, 1).await?;
        let connection = connections.pop().context("one connection was opened")?;
        Ok(Self { connection })
    }

    /// Sends a request. Returns the status and the JSON body of the response.
    pub(crate) async fn send(&mut self, method: &str, path: &str, body: &str) -> Result<(u16, Value)> {
        let request = request::encode(method, path, body.as_bytes());
        let response = self.connection.round_trip(&request).await?;
        let object = serde_json::from_slice(response.body).unwrap_or(Value::Null);
        Ok((response.status, object))
    }

    /// Sends a request that must succeed. Returns the JSON body of the response.
    pub(crate) async fn send_ok(&mut self, method: &str, path: &str, body: &str) -> Result<Value> {
        let (status, object) = self.send(method, path, body).await?;
        ensure!(
            (200..300).contains(&status),
            "{method} {path} returned {status}: {object}"
        );
        Ok(object)
    }

    pub(crate) async fn patch(&mut self, path: &str, body: &str) -> Result<()> {
        let request = request::encode_as("PATCH", path, request::STRATEGIC, body.as_bytes());
        let status = self.connection.round_trip(&request).await?.status;
        ensure!(status == 200, "PATCH {path} returned {status}");
        Ok(())
    }

    /// A page of metrics.
    pub(crate) async fn metrics(&mut self) -> Result<String> {
        let request = request::encode("GET", "/metrics", b"");
        let response = self.connection.round_trip(&request).await?;
        ensure!(response.status == 200, "/metrics returned {}", response.status);
        Ok(String::from_utf8_lossy(response.body).into_owned())
    }

    /// The number of objects of a collection, without reading them.
    pub(crate) async fn count(&mut self, path: &str) -> Result<u64> {
        let list = self.send_ok("GET", &format!("{path}?limit=1"), "").await?;
        let first = list["items"].as_array().map_or(0, Vec::len) as u64;
        Ok(first + list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0))
    }

    /// The latest resourceVersion of the server.
    pub(crate) async fn version(&mut self) -> Result<u64> {
        let list = self.send_ok("GET", "/api/v1/namespaces?limit=1", "").await?;
        let text = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        text.parse()
            .with_context(|| format!("invalid resourceVersion {text:?}"))
    }

    /// Waits until the object at a path satisfies a condition.
    pub(crate) async fn wait_until(
        &mut self,
        path: &str,
        condition: impl Fn(u16, &Value) -> bool,
    ) -> Result<Duration> {
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            let (status, object) = self.send("GET", path, "").await?;
            if condition(status, &object) {
                return Ok(start.elapsed());
            }
            sleep(INTERVAL).await;
        }
        bail!("the condition on {path} is not met after {LIMIT:?}");
    }

    /// Waits until a collection has so many objects.
    pub(crate) async fn wait_for_count(&mut self, path: &str, count: u64) -> Result<Duration> {
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            if self.count(path).await? == count {
                return Ok(start.elapsed());
            }
            sleep(INTERVAL).await;
        }
        bail!("there are not {count} objects at {path} after {LIMIT:?}");
    }
}
