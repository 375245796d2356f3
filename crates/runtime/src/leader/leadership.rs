//! [`Leadership`]: the state of an election, for the rest of the process.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::{Clock, Key};
use setpoint_values::metrics::TextEncoder;
use tokio::sync::watch;

use super::Config;

/// The state of an election as one candidate knows it. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Leadership {
    lease: Key,
    identity: Arc<str>,
    lease_duration: Duration,
    clock: Arc<dyn Clock>,
    state: Arc<watch::Sender<State>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    /// Empty while no leader is known.
    leader: String,
    /// When this candidate last acquired or renewed the lease; absent if it does not lead.
    renewed_at: Option<Timestamp>,
}

/// The leader has not stopped leading, though its lease expired some time ago.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed election to renew leadership on lease {0}")]
pub struct LeaseOverdue(pub Key);

impl Leadership {
    pub(crate) fn new(config: &Config, clock: Arc<dyn Clock>) -> Self {
        Self {
            lease: config.lease.clone(),
            identity: config.identity.as_str().into(),
            lease_duration: config.timing.lease_duration,
            clock,
            state: Arc::default(),
        }
    }

    /// The key of the lease.
    pub fn lease(&self) -> &Key {
        &self.lease
    }

    /// The identity of the leader; empty while none is known.
    pub fn leader(&self) -> String {
        self.state.borrow().leader.clone()
    }

    /// Whether this process leads now.
    pub fn is_leader(&self) -> bool {
        self.state.borrow().renewed_at.is_some()
    }

    /// Resolves with the new leader when the leader is no longer this one.
    pub async fn changed_from(&self, leader: &str) -> String {
        let mut state = self.state.subscribe();
        let changed = state.wait_for(|state| state.leader != leader).await;
        let changed = changed.expect("the sender lives as long as this");
        changed.leader.clone()
    }

    /// A health check: fails for a leader whose lease expired more than `tolerance` ago. Other candidates are healthy.
    pub fn check(&self, tolerance: Duration) -> Result<(), LeaseOverdue> {
        let Some(renewed_at) = self.state.borrow().renewed_at else {
            return Ok(());
        };
        let since = self.clock.now().duration_since(renewed_at).unsigned_abs();
        match since > self.lease_duration + tolerance {
            true => Err(LeaseOverdue(self.lease.clone())),
            false => Ok(()),
        }
    }

    /// Whether this process leads, as client-go's metric in Prometheus' text format.
    pub fn metrics_text(&self) -> String {
        let metric = "leader_election_master_status";
        let mut text = TextEncoder::default();
        text.family(metric, "gauge", "Whether this process leads.");
        text.sample(metric, &[("name", self.lease.name())], u8::from(self.is_leader()));
        text.into_string()
    }

    /// Stores the observed holder, and whether this candidate holds the lease.
    pub(crate) fn observe(&self, holder: &str, leads: bool) {
        let now = self.clock.now();
        self.state.send_if_modified(|state| {
            if leads {
                state.renewed_at = Some(now);
            } else if holder != &*self.identity {
                state.renewed_at = None;
            }
            let is_new = state.leader != holder;
            holder.clone_into(&mut state.leader);
            is_new
        });
    }

    pub(crate) fn stop_leading(&self) {
        self.state.send_replace(State::default());
    }
}
