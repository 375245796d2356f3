//! Leader election: of several processes that could do the same work, one does it.
//!
//! The candidates share a Lease. Whoever holds it renews it; the others watch it grow old. A lease counts as old when it
//! has not *changed* for its duration on the candidate's own clock: the times written in it are never compared, so
//! clocks may be apart as long as they run at the same speed. The rules and figures are client-go's,
//! `tools/leaderelection/leaderelection.go`; the decisions without their requests are in `record`.
//!
//! Two things are stricter here. Work that has lost its lease is given only the rest of the lease to end, then it is
//! dropped. And a lease is given back only once the work has ended, never while it runs.

mod record;
mod standing;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use setpoint_api::{Clock, Key, Status};
use setpoint_client::{Client, Handle};
use tokio_util::sync::CancellationToken;

use crate::events::Recorder;
use crate::reconcile::Error;
use record::Seen;

pub use standing::Standing;

/// How long a lease lasts and how it is kept: each figure leaves room for the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Others wait so long without a change before they take over.
    lease: Duration,
    /// The holder stops when it could not renew for so long. Less than `lease`.
    renew: Duration,
    /// Between two attempts. Less than `renew` even when it is stretched.
    retry: Duration,
}

/// The figures do not leave room for each other.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTiming {
    #[error("lease duration {0:?} must be greater than renew deadline {1:?}")]
    Lease(Duration, Duration),
    #[error("renew deadline {0:?} must be greater than retry period {1:?} times {STRETCH}")]
    Renew(Duration, Duration),
    #[error("lease duration {0:?} must be a second at least, retry period {1:?} greater than zero")]
    Small(Duration, Duration),
}

/// Who stands for what.
#[derive(Debug, Clone)]
pub struct Config {
    /// The namespace and the name of the lease.
    pub lease: Key,
    /// Which of the candidates this is; no two may have the same.
    pub identity: String,
    /// How long what may take.
    pub timing: Timing,
    /// Whether the lease is given back after the work, so that another need not wait until it is old.
    pub release: bool,
}

/// One candidate.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), setpoint_runtime::Error> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let (client, clock) = (cluster.client("me"), std::sync::Arc::new(cluster.clock.clone()));
/// use setpoint_runtime::{Elector, leader};
/// use tokio_util::sync::CancellationToken;
///
/// let config = leader::Config::new("default", "shop-operator", "pod-1");
/// let elector = Elector::new(&client, config, clock);
/// let standing = elector.standing();
/// let work = |_stop| async {
///     assert!(standing.is_leader());
///     Ok(())
/// };
/// // Nobody else stands for it, so the lease is ours at once. It is given back when the work has ended.
/// elector.run(work, CancellationToken::new()).await?;
/// assert!(!standing.is_leader());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Elector {
    config: Config,
    leases: Handle<Lease>,
    clock: Arc<dyn Clock>,
    seen: Seen,
    standing: Standing,
    events: Option<Recorder>,
}

/// A retry of one who is not the leader may take up to this much longer, so that the candidates do not ask in step.
const STRETCH: f64 = 1.2;

// === impl Timing ===

impl Timing {
    /// Each must be longer than the next, or a leader would lose its lease while all is well.
    pub fn try_new(lease: Duration, renew: Duration, retry: Duration) -> Result<Self, BadTiming> {
        if lease < Duration::from_secs(1) || retry.is_zero() {
            return Err(BadTiming::Small(lease, retry));
        }
        if lease <= renew {
            return Err(BadTiming::Lease(lease, renew));
        }
        if renew <= retry.mul_f64(STRETCH) {
            return Err(BadTiming::Renew(renew, retry));
        }
        Ok(Self { lease, renew, retry })
    }
}

impl Default for Timing {
    /// 15, 10 and 2 seconds, as every Kubernetes component has them.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

// === impl Config ===

impl Config {
    /// A candidate with the usual timing that gives the lease back.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            lease: Key::new(namespace, name),
            identity: identity.to_owned(),
            timing: Timing::default(),
            release: true,
        }
    }
}

// === impl Elector ===

impl Elector {
    /// A candidate, which does nothing before it runs.
    pub fn new(client: &Client, config: Config, clock: Arc<dyn Clock>) -> Self {
        let leases = client.namespaced(config.lease.namespace());
        let standing = Standing::new(&config, clock.clone());
        Self {
            config,
            leases,
            clock,
            seen: Seen::default(),
            standing,
            events: None,
        }
    }

    /// The same candidate, telling in events when it becomes the leader and when it stops.
    #[must_use]
    pub fn with_events(self, events: Recorder) -> Self {
        let events = Some(events);
        Self { events, ..self }
    }

    /// Who leads, as far as this candidate knows. It may be asked from anywhere, while the election runs and after.
    pub fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Waits for the lease, then works as long as it is held. The lease is renewed until the work has ended, also after
    /// the stop, which the work is told by its token.
    ///
    /// It ends with the work, with a stop that comes before the work began, or with [`Error::LostLease`]: then the
    /// process should end, since others lead now.
    pub async fn run<F>(
        mut self,
        work: impl FnOnce(CancellationToken) -> F,
        stop: CancellationToken,
    ) -> Result<(), Error>
    where
        F: Future<Output = Result<(), Error>>,
    {
        let acquired = tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = self.acquire() => true,
        };
        if !acquired {
            return Ok(());
        }
        let token = stop.child_token();
        let _guard = token.clone().drop_guard();
        let mut work = pin!(work(token.clone()));
        let ended = tokio::select! {
            biased;
            ended = &mut work => Some(ended),
            () = self.renew() => None,
        };
        let Some(ended) = ended else {
            token.cancel();
            return self.wind_up(work).await;
        };
        if self.config.release {
            self.give_back().await;
        }
        self.leave();
        ended
    }

    /// The lease could not be renewed: the work has until others may take over.
    async fn wind_up(&mut self, work: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
        tracing::error!(lease = %self.config.lease, "cannot renew the lease; the work stops");
        let left = self.seen.left(self.clock.now());
        tokio::select! {
            _ = work => {}
            () = self.clock.sleep(left) => {}
        }
        self.leave();
        Err(Error::LostLease(self.config.lease.clone()))
    }

    async fn acquire(&mut self) {
        loop {
            let leads = self.attempt().await;
            if leads {
                self.tell("became leader");
                return;
            }
            let stretch = 1.0 + STRETCH * rand::random::<f64>();
            self.clock.sleep(self.config.timing.retry.mul_f64(stretch)).await;
        }
    }

    /// Renews until that has not worked for the renew deadline.
    async fn renew(&mut self) {
        loop {
            let deadline = self.clock.sleep(self.config.timing.renew);
            let renewed = tokio::select! {
                biased;
                () = self.attempt_until_it_works() => true,
                () = deadline => false,
            };
            if !renewed {
                return;
            }
            self.clock.sleep(self.config.timing.retry).await;
        }
    }

    async fn attempt_until_it_works(&mut self) {
        while !self.attempt().await {
            self.clock.sleep(self.config.timing.retry).await;
        }
    }

    /// Whether the lease is ours, or has become ours, by this attempt.
    async fn attempt(&mut self) -> bool {
        let leads = match self.try_once().await {
            Ok(leads) => leads,
            Err(status) => {
                tracing::warn!(%status, lease = %self.config.lease, "no answer about the lease");
                false
            }
        };
        self.standing.observe(self.seen.holder(), leads);
        leads
    }

    async fn try_once(&mut self) -> Result<bool, Status> {
        // The leader assumes that nobody has touched the lease, which saves it a read.
        if self.seen.is_held_by(&self.config.identity, self.clock.now()) && self.write().await.is_ok() {
            return Ok(true);
        }
        match self.leases.get(self.config.lease.name()).await {
            Err(status) if status.is_not_found() => self.create().await?,
            Err(status) => return Err(status),
            Ok(lease) => {
                self.seen.look(lease.to_owned()?, self.clock.now());
                if self.seen.is_taken(&self.config.identity, self.clock.now()) {
                    return Ok(false);
                }
                self.write().await?;
            }
        }
        Ok(true)
    }

    async fn create(&mut self) -> Result<(), Status> {
        let now = self.clock.now();
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.config.lease.name().to_owned()),
                namespace: Some(self.config.lease.namespace().to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(record::first(
                &self.config.identity,
                self.config.timing.lease,
                now,
            )),
        };
        let created = self.leases.create(&lease).await?;
        self.seen.look(created.to_owned()?, now);
        Ok(())
    }

    /// Writes us into the lease as it was last seen; a conflict if somebody has touched it since.
    async fn write(&mut self) -> Result<(), Status> {
        let now = self.clock.now();
        let lease = self
            .seen
            .claimed(&self.config.identity, self.config.timing.lease, now);
        let written = self.leases.update(&lease).await?;
        self.seen.look(written.to_owned()?, now);
        Ok(())
    }

    /// Makes the lease free, trying as long as a renewal may take.
    async fn give_back(&mut self) {
        let deadline = self.clock.sleep(self.config.timing.renew);
        tokio::select! {
            biased;
            released = self.release() => if let Err(status) = released {
                tracing::warn!(%status, lease = %self.config.lease, "cannot give the lease back");
            },
            () = deadline => tracing::warn!(lease = %self.config.lease, "gave up giving the lease back"),
        }
    }

    async fn release(&mut self) -> Result<(), Status> {
        loop {
            let lease = self.leases.get(self.config.lease.name()).await?.to_owned()?;
            let now = self.clock.now();
            self.seen.look(lease, now);
            if self.seen.holder() != self.config.identity {
                return Ok(());
            }
            match self.leases.update(&self.seen.freed(now)).await {
                // A renewal that was given up on may have been carried out all the same.
                Err(status) if status.is_conflict() => {}
                released => return released.map(drop),
            }
        }
    }

    fn leave(&self) {
        self.standing.leave();
        self.tell("stopped leading");
    }

    fn tell(&self, what: &str) {
        let identity = &self.config.identity;
        tracing::info!(lease = %self.config.lease, identity, "{what}");
        if let (Some(events), Some(lease)) = (&self.events, self.seen.reference()) {
            events.record(
                lease,
                crate::events::Severity::Normal,
                "LeaderElection",
                format!("{identity} {what}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lease: u64, renew: u64, retry: u64, expected: Result<(), &str>) {
        let seconds = Duration::from_secs;
        let timing = Timing::try_new(seconds(lease), seconds(renew), seconds(retry));
        let timing = timing.map(drop).map_err(|error| error.to_string());
        assert_eq!(timing, expected.map_err(str::to_owned));
    }

    #[test]
    fn each_figure_leaves_room_for_the_next() {
        check(15, 10, 2, Ok(()));
        check(
            10,
            10,
            2,
            Err("lease duration 10s must be greater than renew deadline 10s"),
        );
        check(
            15,
            10,
            9,
            Err("renew deadline 10s must be greater than retry period 9s times 1.2"),
        );
        check(
            0,
            0,
            1,
            Err("lease duration 0ns must be a second at least, retry period 1s greater than zero"),
        );
    }
}
