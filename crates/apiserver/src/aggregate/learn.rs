//! Learns what the others serve: when one is registered, when one comes back, and once a minute.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;

use super::others::{self, Learned};
use super::{Aggregator, Known, probe};

/// How often those who answer are asked again.
const REFRESH: Duration = Duration::from_secs(60);
/// How soon one that did not answer is asked again, at first.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(5);
/// No list of resources is longer.
const MOST_BYTES: usize = 16 << 20;

static WHOLE: HeaderValue = HeaderValue::from_static(
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
);
static JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Aggregator {
    /// Asks and asks again.
    pub(super) async fn learn(&self) -> Infallible {
        let mut registered = self.registered.subscribe();
        let mut pause = FIRST_PAUSE;
        loop {
            let known = registered.borrow_and_update().clone();
            let round = async {
                pause = match self.ask_all(&known).await {
                    true => REFRESH,
                    false => (pause * 2).min(REFRESH),
                };
                match known.is_empty() {
                    true => std::future::pending().await,
                    false => self.clock.sleep(pause).await,
                }
            };
            tokio::select! {
                () = round => {}
                _ = registered.changed() => pause = FIRST_PAUSE,
            }
        }
    }

    /// Asks everyone who is there, and tells of each answer as it comes. Whether all have answered.
    async fn ask_all(&self, known: &[Arc<Known>]) -> bool {
        let available = known.iter().filter(|one| one.remote.available);
        let mut asked: FuturesUnordered<_> = available.map(|one| self.ask(one)).collect();
        let mut all = true;
        while let Some((name, learned)) = asked.next().await {
            all &= learned.is_some();
            self.tell(Some((name, learned)));
        }
        all
    }

    async fn ask<'a>(&self, known: &'a Known) -> (&'a str, Option<Arc<Learned>>) {
        let remote = &known.remote;
        let learned = tokio::select! {
            learned = self.discover(known) => learned,
            () = self.clock.sleep(TIMEOUT) => Err("it does not answer in time".to_owned()),
        };
        let learned = learned.inspect_err(|why| {
            tracing::warn!(name = remote.name, why, "cannot learn what another server serves");
        });
        (&remote.name, learned.ok().map(Arc::new))
    }

    /// What a server says of the version it is registered for: all at once, or else the list of the version.
    async fn discover(&self, known: &Known) -> Result<Learned, String> {
        let (group, version) = (known.remote.group.as_str(), known.remote.version.as_str());
        let (code, headers, body) = self.get(known, "/apis", &WHOLE).await?;
        let resources = if code == StatusCode::OK && is_whole(&headers) {
            others::of_whole(&read(&body)?, group, version)
        } else {
            let path = format!("/apis/{group}/{version}");
            let (code, _, body) = self.get(known, &path, &JSON).await?;
            if code != StatusCode::OK {
                return Err(format!("{path} is answered with {code}"));
            }
            others::of_list(&read(&body)?)
        };
        let openapi = self.find_document(known).await;
        Ok(Learned { resources, openapi })
    }

    /// Where a server publishes the document of its version, if it does.
    async fn find_document(&self, known: &Known) -> Option<String> {
        let (code, _, body) = self.get(known, "/openapi/v3", &JSON).await.ok()?;
        if code != StatusCode::OK {
            return None;
        }
        let path = format!("apis/{}/{}", known.remote.group, known.remote.version);
        let index: Value = serde_json::from_slice(&body).ok()?;
        Some(index["paths"][&path]["serverRelativeURL"].as_str()?.to_owned())
    }

    async fn get(
        &self,
        known: &Known,
        path: &str,
        accept: &HeaderValue,
    ) -> Result<(StatusCode, HeaderMap, Bytes), String> {
        let place = (self.resolve)(&known.remote.service)?;
        let mut question = probe::question(path);
        question.headers_mut().insert(ACCEPT, accept.clone());
        let answer = known.line.send_once(&place, question).await;
        let (head, body) = answer.map_err(|error| error.to_string())?.into_parts();
        let body = Limited::new(body, MOST_BYTES).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        Ok((head.status, head.headers, body))
    }
}

fn read(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

fn is_whole(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default();
    ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"]
        .iter()
        .all(|part| content_type.split(';').any(|own| own.trim() == *part))
}
