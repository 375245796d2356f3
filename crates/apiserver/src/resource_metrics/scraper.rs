//! [`Scraper`]: reads the usage of all nodes from their kubelets.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use http::header::HOST;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use setpoint_api::options::ListOptions;
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Body, Clock, Gvr, Serve, Target, User, Verb};
use tokio_util::sync::CancellationToken;

use super::{RESOLUTION, ResourceMetrics, page};
use crate::connect::{BackendAddress, Connect, kubelet_address};

/// A kubelet that does not respond within this time is skipped until the next interval.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many kubelets are read at once.
const CONCURRENT: usize = 16;
/// The maximum size of a page: about 300 bytes for each of 110 pods with several containers.
const PAGE_BYTES: usize = 16 << 20;

/// Reads the usage of all nodes in an interval.
pub struct Scraper {
    /// The API, of which the nodes are listed.
    pub serve: Arc<dyn Serve>,
    /// The user who lists them.
    pub user: Arc<User>,
    pub connect: Arc<dyn Connect>,
    /// Selects the nodes that are read: the usage of others is known otherwise.
    pub nodes: LabelSelector,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<ResourceMetrics>,
}

impl fmt::Debug for Scraper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scraper").finish_non_exhaustive()
    }
}

impl Scraper {
    /// Reads all nodes in an interval until stopped.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.scrape() => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.clock.sleep(RESOLUTION) => {}
            }
        }
    }

    /// Reads all nodes once. The readings of a node that cannot be read are forgotten, as metrics-server does.
    async fn scrape(&self) {
        let nodes = self.kubelets().await;
        let reads = nodes.into_iter().map(|(name, kubelet)| async move {
            let read = tokio::select! {
                read = self.read(kubelet) => read,
                () = self.clock.sleep(TIMEOUT) => Err(io::ErrorKind::TimedOut.into()),
            };
            match read {
                Ok(readings) => {
                    self.metrics.add(&name, readings);
                    Some(name)
                }
                Err(error) => {
                    tracing::debug!(node = %name, %error, "cannot read the usage of a node");
                    None
                }
            }
        });
        let reads = stream::iter(reads).buffer_unordered(CONCURRENT);
        let read: HashSet<String> = reads.filter_map(std::future::ready).collect().await;
        self.metrics.retain(|name| read.contains(name));
    }

    /// The nodes with the addresses of their kubelets.
    async fn kubelets(&self) -> Vec<(String, BackendAddress)> {
        let request = setpoint_api::Request {
            user: self.user.clone(),
            target: Target::in_namespace(Gvr::new("", "v1", "nodes"), ""),
            verb: Verb::List(ListOptions {
                labels: self.nodes.clone(),
                ..ListOptions::default()
            }),
        };
        let response = self.serve.call(request).await;
        let Ok(Body::List(list)) = response.map(|response| response.body) else {
            return Vec::new();
        };
        let types = self.connect.node_address_types();
        let nodes = list.items.iter().filter_map(|node| {
            let name = node.key().name();
            let object: Value = setpoint_api::json::from_slice(node.json()).ok()?;
            Some((name.to_owned(), kubelet_address(&object, name, &types)?))
        });
        nodes.collect()
    }

    async fn read(&self, kubelet: BackendAddress) -> io::Result<page::MetricsBatch> {
        let request = Request::get("/metrics/resource").header(HOST, kubelet.to_string());
        let request = request.body(Empty::<Bytes>::new()).map_err(io::Error::other)?;
        let stream = self.connect.connect(kubelet).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(io::Error::other)?;
            if response.status() != StatusCode::OK {
                return Err(io::Error::other(response.status().to_string()));
            }
            let body = Limited::new(response.into_body(), PAGE_BYTES);
            Ok(body.collect().await.map_err(io::Error::other)?.to_bytes())
        };
        tokio::pin!(exchange);
        let body = tokio::select! {
            body = &mut exchange => body?,
            // The connection may end as soon as it has delivered the response.
            ended = connection => match ended {
                Ok(()) => exchange.await?,
                Err(error) => return Err(io::Error::other(error)),
            },
        };
        Ok(page::parse(&String::from_utf8_lossy(&body), self.clock.now()))
    }
}
