//! Leader election: of several replicas of a process, one is active.
//!
//! The candidates share a Lease. The leader renews it; the others read it periodically. A lease has expired when it has not
//! *changed* for its duration on the candidate's own clock: the times written in it are never compared, so clocks may differ
//! as long as they run at the same speed. The rules and defaults are client-go's,
//! `tools/leaderelection/leaderelection.go`; the pure decisions are in `record`.
//!
//! Two rules are stricter than client-go's. Work that has lost its lease has only the rest of the lease to end, then it is
//! dropped. And a lease is released only after the work has ended, never while it runs.
//!
//! A candidate is also quicker than client-go's, which reads the lease every 2 to 4.4 seconds: it tries when the lease
//! expires, and with [`Elector::with_watch`] as soon as it changes.

mod leadership;
mod record;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use setpoint_api::options::WatchOptions;
use setpoint_api::selector::FieldSelector;
use setpoint_api::{Clock, Event, Key, Status};
use setpoint_client::{Api, Client};
use tokio_util::sync::CancellationToken;

use crate::events::Recorder;
use crate::reconcile::Error;
use record::ObservedLease;

pub use leadership::Leadership;

/// The timing of an election: each duration must be longer than the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How long other candidates wait without a change before they acquire the lease.
    lease_duration: Duration,
    /// How long the leader retries a renewal before it gives up. Less than `lease_duration`.
    renew_deadline: Duration,
    /// The time between two attempts. With jitter less than `renew_deadline`.
    retry_period: Duration,
}

/// The durations of a [`Timing`] are not in descending order.
#[allow(missing_docs, reason = "the error messages document the variants")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTiming {
    #[error("lease duration {0:?} must be greater than renew deadline {1:?}")]
    Lease(Duration, Duration),
    #[error("renew deadline {0:?} must be greater than retry period {1:?} times {JITTER_FACTOR}")]
    Renew(Duration, Duration),
    #[error("lease duration {0:?} must be a second at least, retry period {1:?} greater than zero")]
    Small(Duration, Duration),
}

/// The configuration of a candidate.
#[derive(Debug, Clone)]
pub struct Config {
    /// The namespace and the name of the lease.
    pub lease: Key,
    /// The identity of this candidate; it must be unique.
    pub identity: String,
    /// The timing of the election.
    pub timing: Timing,
    /// Whether the lease is released after the work, so that another candidate need not wait until it expires.
    pub release_on_cancel: bool,
}

/// A candidate of an election.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), setpoint_runtime::Error> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let (client, clock) = (cluster.client("me"), std::sync::Arc::new(cluster.clock.clone()));
/// use setpoint_runtime::{Elector, leader};
/// use tokio_util::sync::CancellationToken;
///
/// let config = leader::Config::new("default", "web-operator", "pod-1");
/// let elector = Elector::new(&client, config, clock);
/// let leadership = elector.leadership();
/// let work = |_stop| async {
///     assert!(leadership.is_leader());
///     Ok(())
/// };
/// // There is no other candidate, so the lease is acquired at once. It is released when the work has ended.
/// elector.run(work, CancellationToken::new()).await?;
/// assert!(!leadership.is_leader());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Elector {
    config: Config,
    leases: Api<Lease>,
    clock: Arc<dyn Clock>,
    observed: ObservedLease,
    leadership: Leadership,
    events: Option<Recorder>,
    /// Whether the lease is watched while another candidate holds it.
    watches: bool,
}

/// The jitter of a candidate's retry period, so that the candidates do not send their requests at the same time.
const JITTER_FACTOR: f64 = 1.2;

// === impl Timing ===

impl Timing {
    /// Each must be longer than the next, or a healthy leader would lose its lease.
    pub fn try_new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, InvalidTiming> {
        if lease_duration < Duration::from_secs(1) || retry_period.is_zero() {
            return Err(InvalidTiming::Small(lease_duration, retry_period));
        }
        if lease_duration <= renew_deadline {
            return Err(InvalidTiming::Lease(lease_duration, renew_deadline));
        }
        if renew_deadline <= retry_period.mul_f64(JITTER_FACTOR) {
            return Err(InvalidTiming::Renew(renew_deadline, retry_period));
        }
        Ok(Self {
            lease_duration,
            renew_deadline,
            retry_period,
        })
    }
}

impl Default for Timing {
    /// 15, 10 and 2 seconds, the defaults of Kubernetes' components.
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

// === impl Config ===

impl Config {
    /// A candidate with the default timing that releases the lease.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            lease: Key::new(namespace, name),
            identity: identity.to_owned(),
            timing: Timing::default(),
            release_on_cancel: true,
        }
    }
}

// === impl Elector ===

impl Elector {
    /// A candidate, which sends no request before it runs.
    pub fn new(client: &Client, config: Config, clock: Arc<dyn Clock>) -> Self {
        let leases = client.namespaced(config.lease.namespace());
        let leadership = Leadership::new(&config, clock.clone());
        Self {
            config,
            leases,
            clock,
            observed: ObservedLease::default(),
            leadership,
            events: None,
            watches: false,
        }
    }

    /// The same candidate, which records events when it becomes the leader and when it stops leading.
    #[must_use]
    pub fn with_events(self, events: Recorder) -> Self {
        let events = Some(events);
        Self { events, ..self }
    }

    /// The same candidate, which watches the lease while another candidate holds it: so it acquires a released lease at
    /// once, and that of a leader which was killed a lease duration after its last renewal. Without the permission to
    /// watch the lease it reads it periodically, as without this.
    #[must_use]
    pub fn with_watch(self) -> Self {
        Self {
            watches: true,
            ..self
        }
    }

    /// The leadership state as this candidate knows it; valid while the election runs and after.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Acquires the lease, then runs `work` while it is held. The lease is renewed until the work has ended, also after the
    /// stop, which is passed to the work as its token.
    ///
    /// Returns when the work has ended, on a stop before the work began, or with [`Error::LostLease`]: then the process
    /// should exit, since another candidate may lead.
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
            return self.stop_work(work).await;
        };
        if self.config.release_on_cancel {
            self.release_lease().await;
        }
        self.stop_leading();
        ended
    }

    /// Stops the work after a failed renewal: it has until the lease expires for the other candidates.
    async fn stop_work(&mut self, work: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
        tracing::error!(lease = %self.config.lease, "failed to renew the lease; stopping");
        let left = self.observed.remaining(self.clock.now());
        tokio::select! {
            _ = work => {}
            () = self.clock.sleep(left) => {}
        }
        self.stop_leading();
        Err(Error::LostLease(self.config.lease.clone()))
    }

    async fn acquire(&mut self) {
        loop {
            let leads = self.try_acquire_or_renew().await;
            if leads {
                self.report("became leader");
                return;
            }
            self.wait_for_next_try().await;
        }
    }

    /// Waits for the retry period with jitter, or less if the lease expires or changes earlier.
    async fn wait_for_next_try(&self) {
        let jitter = 1.0 + JITTER_FACTOR * rand::random::<f64>();
        let mut pause = self.config.timing.retry_period.mul_f64(jitter);
        let now = self.clock.now();
        if self.observed.is_taken(&self.config.identity, now) {
            pause = pause.min(self.observed.remaining(now));
        }
        tokio::select! {
            () = self.clock.sleep(pause) => {}
            () = self.changed(), if self.watches => {}
        }
    }

    /// Returns once the lease has changed since it was observed; never if it cannot be watched.
    async fn changed(&self) {
        let options = WatchOptions {
            fields: FieldSelector::equals("metadata.name", self.config.lease.name()),
            resource_version: self.observed.resource_version(),
            ..WatchOptions::default()
        };
        if let Ok(mut changes) = self.leases.watch(&options).await
            && let Some(Event::Added(_) | Event::Modified(_) | Event::Deleted(_)) = changes.next().await
        {
            return;
        }
        std::future::pending().await
    }

    /// Renews the lease; returns after renewals have failed for the renew deadline.
    async fn renew(&mut self) {
        loop {
            let deadline = self.clock.sleep(self.config.timing.renew_deadline);
            let renewed = tokio::select! {
                biased;
                () = self.renew_once() => true,
                () = deadline => false,
            };
            if !renewed {
                return;
            }
            self.clock.sleep(self.config.timing.retry_period).await;
        }
    }

    async fn renew_once(&mut self) {
        while !self.try_acquire_or_renew().await {
            self.clock.sleep(self.config.timing.retry_period).await;
        }
    }

    /// Tries to acquire or renew the lease; true if this candidate holds it now.
    async fn try_acquire_or_renew(&mut self) -> bool {
        let leads = match self.try_once().await {
            Ok(leads) => leads,
            Err(status) => {
                tracing::warn!(%status, lease = %self.config.lease, "failed to acquire or renew the lease");
                false
            }
        };
        self.leadership.observe(self.observed.holder(), leads);
        leads
    }

    async fn try_once(&mut self) -> Result<bool, Status> {
        // The leader assumes that the lease is unchanged since its last write, which saves a read.
        if self.observed.is_held_by(&self.config.identity, self.clock.now()) && self.write().await.is_ok() {
            return Ok(true);
        }
        match self.leases.get(self.config.lease.name()).await {
            Err(status) if status.is_not_found() => self.create().await?,
            Err(status) => return Err(status),
            Ok(lease) => {
                self.observed.observe(lease.to_owned()?, self.clock.now());
                if self.observed.is_taken(&self.config.identity, self.clock.now()) {
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
            spec: Some(record::initial_spec(
                &self.config.identity,
                self.config.timing.lease_duration,
                now,
            )),
        };
        let created = self.leases.create(&lease).await?;
        self.observed.observe(created.to_owned()?, now);
        Ok(())
    }

    /// Writes this candidate as the holder into the lease as last observed; a conflict if it has changed since.
    async fn write(&mut self) -> Result<(), Status> {
        let now = self.clock.now();
        let lease = self
            .observed
            .with_holder(&self.config.identity, self.config.timing.lease_duration, now);
        let written = self.leases.update(&lease).await?;
        self.observed.observe(written.to_owned()?, now);
        Ok(())
    }

    /// Releases the lease, retrying for the renew deadline.
    async fn release_lease(&mut self) {
        let deadline = self.clock.sleep(self.config.timing.renew_deadline);
        tokio::select! {
            biased;
            released = self.release() => if let Err(status) = released {
                tracing::warn!(%status, lease = %self.config.lease, "failed to release the lease");
            },
            () = deadline => tracing::warn!(lease = %self.config.lease, "timed out releasing the lease"),
        }
    }

    async fn release(&mut self) -> Result<(), Status> {
        loop {
            let lease = self.leases.get(self.config.lease.name()).await?.to_owned()?;
            let now = self.clock.now();
            self.observed.observe(lease, now);
            if self.observed.holder() != self.config.identity {
                return Ok(());
            }
            match self.leases.update(&self.observed.released(now)).await {
                // A renewal that timed out here may have succeeded on the server.
                Err(status) if status.is_conflict() => {}
                released => return released.map(drop),
            }
        }
    }

    fn stop_leading(&self) {
        self.leadership.stop_leading();
        self.report("stopped leading");
    }

    fn report(&self, what: &str) {
        let identity = &self.config.identity;
        tracing::info!(lease = %self.config.lease, identity, "{what}");
        if let (Some(events), Some(lease)) = (&self.events, self.observed.reference()) {
            events.record(
                lease,
                crate::events::EventType::Normal,
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
    fn each_duration_must_be_longer_than_the_next() {
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
