//! Discovery refresh loop: fetches discovery and OpenAPI of every available remote when the registrations change and
//! once a minute, with backoff while a remote fails.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;

use super::remote_discovery::{self, DiscoveryResult, RemoteOpenApi, RemoteOpenApiV2};
use super::{Aggregator, RegisteredRemote, probe};
use crate::openapi::merge;

/// Refresh interval while all remotes respond.
const REFRESH_INTERVAL: Duration = Duration::from_secs(60);
/// Half of the first retry delay after a failure; the delay doubles up to the refresh interval.
const INITIAL_BACKOFF: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(5);
/// OpenAPI documents are long and built on first request.
const OPENAPI_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a response body.
const MAX_BODY_BYTES: usize = 16 << 20;

static AGGREGATED: HeaderValue = HeaderValue::from_static(
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
);
static JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Aggregator {
    /// Runs the refresh loop.
    pub(super) async fn run_refresh(&self) -> Infallible {
        let mut registered = self.registered.subscribe();
        let mut backoff = INITIAL_BACKOFF;
        loop {
            let remotes = registered.borrow_and_update().clone();
            let round = async {
                backoff = match self.refresh_all(&remotes).await {
                    true => REFRESH_INTERVAL,
                    false => (backoff * 2).min(REFRESH_INTERVAL),
                };
                match remotes.is_empty() {
                    true => std::future::pending().await,
                    false => self.clock.sleep(backoff).await,
                }
            };
            tokio::select! {
                () = round => {}
                _ = registered.changed() => backoff = INITIAL_BACKOFF,
            }
        }
    }

    /// Refreshes all available remotes concurrently. Returns whether all responded.
    async fn refresh_all(&self, remotes: &[Arc<RegisteredRemote>]) -> bool {
        let available = remotes.iter().filter(|one| one.remote.available);
        let mut refreshes: FuturesUnordered<_> = available.map(|one| self.refresh(one)).collect();
        let mut all = true;
        while let Some(responded) = refreshes.next().await {
            all &= responded;
        }
        all
    }

    /// Fetches a remote's resources, then its OpenAPI documents, which may take longer. Returns whether it responded.
    async fn refresh(&self, registered: &RegisteredRemote) -> bool {
        let remote = &registered.remote;
        let discovered = tokio::select! {
            discovered = self.discover(registered) => discovered,
            () = self.clock.sleep(TIMEOUT) => Err("request timed out".to_owned()),
        };
        let resources = match discovered {
            Ok(resources) => resources,
            Err(error) => {
                tracing::warn!(
                    name = remote.name,
                    error,
                    "discovery of an aggregated API server failed"
                );
                self.update_discovery(Some((&remote.name, None)));
                return false;
            }
        };
        let before = self.cached_openapi(registered);
        let publish = |resources, openapi| {
            let discovered = Arc::new(DiscoveryResult { resources, openapi });
            self.update_discovery(Some((&remote.name, Some(discovered))));
        };
        publish(resources.clone(), before.clone());
        tokio::select! {
            openapi = self.fetch_openapi(registered, before) => publish(resources, openapi),
            () = self.clock.sleep(OPENAPI_TIMEOUT) => {}
        }
        true
    }

    /// The resources of the registered version: from aggregated discovery, or else from the version's APIResourceList.
    async fn discover(&self, registered: &RegisteredRemote) -> Result<Vec<Value>, String> {
        let (group, version) = (
            registered.remote.group.as_str(),
            registered.remote.version.as_str(),
        );
        let (code, headers, body) = self.get(registered, "/apis", &AGGREGATED, None).await?;
        if code == StatusCode::OK && is_aggregated(&headers) {
            return Ok(remote_discovery::from_aggregated(&read(&body)?, group, version));
        }
        let path = format!("/apis/{group}/{version}");
        let (code, _, body) = self.get(registered, &path, &JSON, None).await?;
        match code {
            StatusCode::OK => Ok(remote_discovery::from_resource_list(&read(&body)?)),
            code => Err(format!("GET {path} returned {code}")),
        }
    }

    fn cached_openapi(&self, registered: &RegisteredRemote) -> RemoteOpenApi {
        let groups = self.remote_groups();
        let before = groups.find(&registered.remote.group, &registered.remote.version);
        let before = before.and_then(|one| Some(one.discovery.as_ref()?.openapi.clone()));
        before.unwrap_or_default()
    }

    async fn fetch_openapi(&self, registered: &RegisteredRemote, before: RemoteOpenApi) -> RemoteOpenApi {
        RemoteOpenApi {
            v3: self.fetch_openapi_v3(registered).await.unwrap_or_default(),
            v2: self.fetch_openapi_v2(registered, before.v2).await,
        }
    }

    /// The paths and URLs of a remote's v3 OpenAPI documents for its group and version.
    async fn fetch_openapi_v3(&self, registered: &RegisteredRemote) -> Option<Vec<(String, String)>> {
        let (code, _, body) = self.get(registered, "/openapi/v3", &JSON, None).await.ok()?;
        if code != StatusCode::OK {
            return None;
        }
        let group = format!("apis/{}", registered.remote.group);
        let version = format!("{group}/{}", registered.remote.version);
        let index: Value = setpoint_api::json::from_slice(&body).ok()?;
        let entry = |path: String| {
            let url = index["paths"][&path]["serverRelativeURL"].as_str()?.to_owned();
            Some((path, url))
        };
        Some([group, version].into_iter().filter_map(entry).collect())
    }

    /// The version's part of a remote's v2 OpenAPI document, which is not read again if its ETag is unchanged.
    async fn fetch_openapi_v2(
        &self,
        registered: &RegisteredRemote,
        before: Option<RemoteOpenApiV2>,
    ) -> Option<RemoteOpenApiV2> {
        let remote = &registered.remote;
        let etag = before.as_ref().map(|before| &before.etag);
        let (code, headers, body) = self.get(registered, "/openapi/v2", &JSON, etag).await.ok()?;
        match code {
            StatusCode::NOT_MODIFIED => before,
            StatusCode::OK => {
                let prefix = format!("/apis/{}/{}/", remote.group, remote.version);
                let part = merge::extract(&read(&body).ok()?, &prefix);
                let etag = headers
                    .get(ETAG)
                    .cloned()
                    .unwrap_or_else(|| HeaderValue::from_static(""));
                let json = part.to_string().into();
                Some(RemoteOpenApiV2 { etag, json })
            }
            _ => None,
        }
    }

    async fn get(
        &self,
        registered: &RegisteredRemote,
        path: &str,
        accept: &HeaderValue,
        if_none_match: Option<&HeaderValue>,
    ) -> Result<(StatusCode, HeaderMap, Bytes), String> {
        let backend = (self.resolve)(&registered.remote.service)?;
        let mut request = probe::aggregator_request(path);
        request.headers_mut().insert(ACCEPT, accept.clone());
        if let Some(etag) = if_none_match.filter(|etag| !etag.is_empty()) {
            request.headers_mut().insert(IF_NONE_MATCH, etag.clone());
        }
        let response = registered.pool.send_once(&backend, request).await;
        let (head, body) = response.map_err(|error| error.to_string())?.into_parts();
        let body = Limited::new(body, MAX_BODY_BYTES).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        Ok((head.status, head.headers, body))
    }
}

fn read(body: &[u8]) -> Result<Value, String> {
    setpoint_api::json::from_slice(body).map_err(|error| error.to_string())
}

fn is_aggregated(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default();
    ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"]
        .iter()
        .all(|expected| {
            content_type
                .split(';')
                .any(|parameter| parameter.trim() == *expected)
        })
}
