//! One client that asks a server for something and waits until it is so.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::time::sleep;

use crate::api::{connection::Connection, load, request, server::Server};

/// How often the state is looked at while it is waited for.
const INTERVAL: Duration = Duration::from_millis(50);

/// What has not come about by then never will.
const LIMIT: Duration = Duration::from_secs(600);

/// A connection to the server under test.
#[derive(Debug)]
pub(crate) struct Asking {
    connection: Connection,
}

impl Asking {
    pub(crate) async fn new(server: &Server) -> Result<Self> {
        let mut connections = load::connect(&server.endpoint, 1).await?;
        let connection = connections.pop().context("one connection was asked for")?;
        Ok(Self { connection })
    }

    /// The status and the document of an answer.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<(u16, Value)> {
        let request = request::encode(method, path, body.as_bytes());
        let answer = self.connection.answer(&request).await?;
        let document = serde_json::from_slice(answer.body).unwrap_or(Value::Null);
        Ok((answer.status, document))
    }

    /// The same, which must succeed.
    pub(crate) async fn must(&mut self, method: &str, path: &str, body: &str) -> Result<Value> {
        let (status, document) = self.ask(method, path, body).await?;
        ensure!(
            (200..300).contains(&status),
            "{method} {path} answers {status}: {document}"
        );
        Ok(document)
    }

    pub(crate) async fn patch(&mut self, path: &str, body: &str) -> Result<()> {
        let request = request::encode_as("PATCH", path, request::STRATEGIC, body.as_bytes());
        let status = self.connection.answer(&request).await?.status;
        ensure!(status == 200, "PATCH {path} answers {status}");
        Ok(())
    }

    /// A page of metrics.
    pub(crate) async fn metrics(&mut self) -> Result<String> {
        let request = request::encode("GET", "/metrics", b"");
        let answer = self.connection.answer(&request).await?;
        ensure!(answer.status == 200, "/metrics answers {}", answer.status);
        Ok(String::from_utf8_lossy(answer.body).into_owned())
    }

    /// How many objects there are at a path, without reading them.
    pub(crate) async fn count(&mut self, path: &str) -> Result<u64> {
        let list = self.must("GET", &format!("{path}?limit=1"), "").await?;
        let first = list["items"].as_array().map_or(0, Vec::len) as u64;
        Ok(first + list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0))
    }

    /// The newest version of everything.
    pub(crate) async fn version(&mut self) -> Result<u64> {
        let list = self.must("GET", "/api/v1/namespaces?limit=1", "").await?;
        let text = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        text.parse()
            .with_context(|| format!("version {text:?} is no number"))
    }

    /// Waits until the document at a path is so.
    pub(crate) async fn until(
        &mut self,
        path: &str,
        is_so: impl Fn(u16, &Value) -> bool,
    ) -> Result<Duration> {
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            let (status, document) = self.ask("GET", path, "").await?;
            if is_so(status, &document) {
                return Ok(start.elapsed());
            }
            sleep(INTERVAL).await;
        }
        bail!("{path} is not as it should be after {LIMIT:?}");
    }

    /// Waits until there are so many objects at a path.
    pub(crate) async fn until_count(&mut self, path: &str, count: u64) -> Result<Duration> {
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
