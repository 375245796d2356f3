//! HTTP extenders: servers that filter and score nodes, take part in preemption, and bind pods, beside the plugins (upstream: `extender.go`, with the
//! messages of `kube-scheduler/extender/v1`).
//!
//! A scheduler with extenders plans each pod in steps: the plugins find the nodes that fit, the extenders are requested
//! without a lock, then the plugins score what is left. This crate sends no HTTP: the caller that starts the scheduler provides an
//! [`ExtenderTransport`] for each extender. Start reading at [`Extender`].

mod config;
mod message;
mod preemption;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;
use setpoint_api::{Clock, Stored};

pub(crate) use config::check;
pub use config::{ExtenderConfig, ExtenderTlsConfig, ManagedResource};
pub(crate) use preemption::{CandidateObjects, resolve_victims};

use crate::framework::{BoxFuture, MAX_SCORE, Rejection};
use crate::pod_info::PodInfo;
use crate::state::NodeIndex;
use message::{BindingResponse, FilterResponse, HostPriority};

/// The name that rejections of extenders have. Any event may make such a pod schedulable.
pub(crate) const EXTENDER: &str = "Extender";
/// The highest score of an extender (upstream: `MaxExtenderPriority`).
const MAX_EXTENDER_SCORE: i64 = 10;

/// Sends the requests of one extender.
pub trait ExtenderTransport: fmt::Debug + Send + Sync {
    /// Posts a JSON body to the URL of the verb. The response body, or the reason why there is none.
    fn post<'a>(&'a self, verb: &'a str, body: String) -> BoxFuture<'a, Result<Vec<u8>, String>>;
}

/// A configured extender.
#[derive(Debug)]
pub struct Extender {
    config: ExtenderConfig,
    transport: Arc<dyn ExtenderTransport>,
    clock: Arc<dyn Clock>,
}

/// A node that an extender may choose.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) node: NodeIndex,
    pub(crate) name: CompactString,
    /// Its sequence when it was filtered.
    pub(crate) sequence: u64,
    pub(crate) object: Option<Arc<Stored>>,
}

/// The nodes that an extender left, and its reasons for the others.
#[derive(Debug, Default)]
pub(crate) struct FilterResult {
    pub(crate) nodes: Vec<Candidate>,
    pub(crate) rejected: Vec<(NodeIndex, Rejection)>,
}

impl Extender {
    pub fn new(config: ExtenderConfig, transport: Arc<dyn ExtenderTransport>, clock: Arc<dyn Clock>) -> Self {
        Self {
            config,
            transport,
            clock,
        }
    }

    /// Whether it takes part in the scheduling of the pod: of every pod, or of those that request a resource it manages.
    pub(crate) fn is_interested(&self, pod: &PodInfo) -> bool {
        let managed = &self.config.managed_resources;
        let manages = |name: &str| managed.iter().any(|resource| resource.name == name);
        managed.is_empty() || pod.spec.requests.names().any(manages)
    }

    /// Whether a failure of it is not a failure of the scheduling.
    pub(crate) fn is_ignorable(&self) -> bool {
        self.config.ignorable
    }

    pub(crate) fn is_binder(&self) -> bool {
        !self.config.bind_verb.is_empty()
    }

    /// The nodes that it leaves of the candidates.
    pub(crate) async fn filter(
        &self,
        pod: &Stored,
        candidates: Vec<Candidate>,
    ) -> Result<FilterResult, String> {
        if self.config.filter_verb.is_empty() {
            return Ok(FilterResult {
                nodes: candidates,
                ..FilterResult::default()
            });
        }
        let arguments = message::arguments(pod, &candidates, self.config.node_cache_capable);
        let response: FilterResponse = self.send(&self.config.filter_verb, arguments).await?;
        if !response.error.is_empty() {
            return Err(response.error);
        }
        self.read_nodes(&response, candidates)
    }

    fn read_nodes(
        &self,
        response: &FilterResponse,
        candidates: Vec<Candidate>,
    ) -> Result<FilterResult, String> {
        let names = match self.config.node_cache_capable {
            true => response.node_names.clone(),
            false => response.nodes.as_ref().map(message::NodeList::names),
        };
        let mut by_name: HashMap<CompactString, Candidate> = candidates
            .into_iter()
            .map(|candidate| (candidate.name.clone(), candidate))
            .collect();
        let mut result = FilterResult::default();
        for (name, rejection) in response.rejections() {
            if let Some(candidate) = by_name.get(name) {
                result.rejected.push((candidate.node, rejection.by(EXTENDER)));
            }
        }
        for name in names.unwrap_or_default() {
            let candidate = by_name.remove(name.as_str()).ok_or_else(|| {
                format!(
                    "extender {:?} claims a filtered node {name:?} which is not found in the input node list",
                    self.config.url_prefix
                )
            })?;
            result.nodes.push(candidate);
        }
        Ok(result)
    }

    /// The weighted scores that it adds to nodes, by name. A failure adds nothing.
    pub(crate) async fn prioritize(
        &self,
        pod: &Stored,
        candidates: &[Candidate],
    ) -> HashMap<CompactString, i64> {
        if self.config.prioritize_verb.is_empty() {
            return HashMap::new();
        }
        let arguments = message::arguments(pod, candidates, self.config.node_cache_capable);
        let response: Result<Vec<HostPriority>, String> =
            self.send(&self.config.prioritize_verb, arguments).await;
        let scores = response.unwrap_or_else(|error| {
            tracing::warn!(
                extender = self.config.url_prefix,
                error,
                "the extender cannot score nodes"
            );
            Vec::new()
        });
        let weight = self.config.weight * (MAX_SCORE / MAX_EXTENDER_SCORE);
        scores
            .into_iter()
            .map(|one| (one.host, one.score * weight))
            .collect()
    }

    /// Binds the pod to the node.
    pub(crate) async fn bind(&self, pod: &PodInfo, node: &str) -> Result<(), String> {
        let arguments = message::binding_arguments(pod, node);
        let response: BindingResponse = self.send(&self.config.bind_verb, arguments).await?;
        match response.error.is_empty() {
            true => Ok(()),
            false => Err(response.error),
        }
    }

    async fn send<T: serde::de::DeserializeOwned>(&self, verb: &str, body: String) -> Result<T, String> {
        let timeout = self.config.timeout();
        let response = tokio::select! {
            response = self.transport.post(verb, body) => response?,
            () = self.clock.sleep(timeout) => return Err(format!("no response within {timeout:?}")),
        };
        serde_json::from_slice(&response).map_err(|error| error.to_string())
    }
}
