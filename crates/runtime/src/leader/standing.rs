//! Who leads: what an election tells everyone else in the process.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::{Clock, Key};
use tokio::sync::watch;

use super::Config;

/// What one candidate knows of its election. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Standing {
    lease: Key,
    identity: Arc<str>,
    lasts: Duration,
    clock: Arc<dyn Clock>,
    state: Arc<watch::Sender<State>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    /// Empty while nobody is known to lead.
    leader: String,
    /// When this candidate last had the lease; absent if it does not lead.
    renewed_at: Option<Timestamp>,
}

/// The leader still thinks it leads, though its lease has long been old.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed election to renew leadership on lease {0}")]
pub struct Overdue(pub Key);

impl Standing {
    pub(crate) fn new(config: &Config, clock: Arc<dyn Clock>) -> Self {
        Self {
            lease: config.lease.clone(),
            identity: config.identity.as_str().into(),
            lasts: config.timing.lease,
            clock,
            state: Arc::default(),
        }
    }

    /// The lease that is stood for.
    pub fn lease(&self) -> &Key {
        &self.lease
    }

    /// The one who leads, as far as is known; empty while nobody is.
    pub fn leader(&self) -> String {
        self.state.borrow().leader.clone()
    }

    /// Whether this process leads now.
    pub fn is_leader(&self) -> bool {
        self.state.borrow().renewed_at.is_some()
    }

    /// Resolves when somebody else leads than this one.
    pub async fn changed_from(&self, leader: &str) -> String {
        let mut state = self.state.subscribe();
        let changed = state.wait_for(|state| state.leader != leader).await;
        let changed = changed.expect("the sender lives as long as this");
        changed.leader.clone()
    }

    /// A health check: a leader whose lease has been old for longer than `tolerance` is not well. Others are.
    pub fn check(&self, tolerance: Duration) -> Result<(), Overdue> {
        let Some(renewed_at) = self.state.borrow().renewed_at else {
            return Ok(());
        };
        let since = self.clock.now().duration_since(renewed_at).unsigned_abs();
        match since > self.lasts + tolerance {
            true => Err(Overdue(self.lease.clone())),
            false => Ok(()),
        }
    }

    /// Whether this process leads, under the name that client-go gave this figure.
    pub fn metrics_text(&self) -> String {
        let (name, leads) = (self.lease.name(), u8::from(self.is_leader()));
        format!(
            "# TYPE leader_election_master_status gauge\nleader_election_master_status{{name=\"{name}\"}} {leads}\n"
        )
    }

    /// The holder that was read, and whether the lease is ours by now.
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

    pub(crate) fn leave(&self) {
        self.state.send_replace(State::default());
    }
}
