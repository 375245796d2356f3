//! Learns what the others serve: when one is registered, when one comes back, and once a minute.

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

use super::others::{self, Documents, Learned, Second};
use super::{Aggregator, Known, probe};
use crate::openapi::merge;

/// How often those who answer are asked again.
const REFRESH: Duration = Duration::from_secs(60);
/// How soon one that did not answer is asked again, at first.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(5);
/// Documents are long, and are made when they are first asked for.
const DOCUMENTS_TIMEOUT: Duration = Duration::from_secs(30);
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
        while let Some(answered) = asked.next().await {
            all &= answered;
        }
        all
    }

    /// Asks one for its resources, and then for its documents, which may take longer. Whether it has answered.
    async fn ask(&self, known: &Known) -> bool {
        let remote = &known.remote;
        let found = tokio::select! {
            found = self.discover(known) => found,
            () = self.clock.sleep(TIMEOUT) => Err("it does not answer in time".to_owned()),
        };
        let resources = match found {
            Ok(resources) => resources,
            Err(why) => {
                tracing::warn!(name = remote.name, why, "cannot learn what another server serves");
                self.tell(Some((&remote.name, None)));
                return false;
            }
        };
        let before = self.documents_of(known);
        let told = |resources, documents| {
            let learned = Arc::new(Learned { resources, documents });
            self.tell(Some((&remote.name, Some(learned))));
        };
        told(resources.clone(), before.clone());
        tokio::select! {
            documents = self.read_documents(known, before) => told(resources, documents),
            () = self.clock.sleep(DOCUMENTS_TIMEOUT) => {}
        }
        true
    }

    /// What a server says of the version it is registered for: all at once, or else the list of the version.
    async fn discover(&self, known: &Known) -> Result<Vec<Value>, String> {
        let (group, version) = (known.remote.group.as_str(), known.remote.version.as_str());
        let (code, headers, body) = self.get(known, "/apis", &WHOLE, None).await?;
        if code == StatusCode::OK && is_whole(&headers) {
            return Ok(others::of_whole(&read(&body)?, group, version));
        }
        let path = format!("/apis/{group}/{version}");
        let (code, _, body) = self.get(known, &path, &JSON, None).await?;
        match code {
            StatusCode::OK => Ok(others::of_list(&read(&body)?)),
            code => Err(format!("{path} is answered with {code}")),
        }
    }

    fn documents_of(&self, known: &Known) -> Documents {
        let others = self.others();
        let before = others.find(&known.remote.group, &known.remote.version);
        let before = before.and_then(|one| Some(one.learned.as_ref()?.documents.clone()));
        before.unwrap_or_default()
    }

    async fn read_documents(&self, known: &Known, before: Documents) -> Documents {
        Documents {
            third: self.find_documents(known).await.unwrap_or_default(),
            second: self.find_second(known, before.second).await,
        }
    }

    /// Where a server publishes the documents of its version and of its group, if it does.
    async fn find_documents(&self, known: &Known) -> Option<Vec<(String, String)>> {
        let (code, _, body) = self.get(known, "/openapi/v3", &JSON, None).await.ok()?;
        if code != StatusCode::OK {
            return None;
        }
        let group = format!("apis/{}", known.remote.group);
        let version = format!("{group}/{}", known.remote.version);
        let index: Value = serde_json::from_slice(&body).ok()?;
        let place = |path: String| {
            let place = index["paths"][&path]["serverRelativeURL"].as_str()?.to_owned();
            Some((path, place))
        };
        Some([group, version].into_iter().filter_map(place).collect())
    }

    /// What the older document says of the version. One that has not changed is not read again.
    async fn find_second(&self, known: &Known, before: Option<Second>) -> Option<Second> {
        let remote = &known.remote;
        let tag = before.as_ref().map(|before| &before.tag);
        let (code, headers, body) = self.get(known, "/openapi/v2", &JSON, tag).await.ok()?;
        match code {
            StatusCode::NOT_MODIFIED => before,
            StatusCode::OK => {
                let start = format!("/apis/{}/{}/", remote.group, remote.version);
                let part = merge::part(&read(&body).ok()?, &start);
                let tag = headers
                    .get(ETAG)
                    .cloned()
                    .unwrap_or_else(|| HeaderValue::from_static(""));
                let json = part.to_string().into();
                Some(Second { tag, json })
            }
            _ => None,
        }
    }

    async fn get(
        &self,
        known: &Known,
        path: &str,
        accept: &HeaderValue,
        unless: Option<&HeaderValue>,
    ) -> Result<(StatusCode, HeaderMap, Bytes), String> {
        let place = (self.resolve)(&known.remote.service)?;
        let mut question = probe::question(path);
        question.headers_mut().insert(ACCEPT, accept.clone());
        if let Some(tag) = unless.filter(|tag| !tag.is_empty()) {
            question.headers_mut().insert(IF_NONE_MATCH, tag.clone());
        }
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
