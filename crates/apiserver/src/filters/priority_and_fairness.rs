//! API priority and fairness: limits how many requests execute at once, and queues the others fairly.
//!
//! A request is classified by the FlowSchemas ([`configuration`]) into a flow of a priority level, its work is estimated
//! in seats ([`work_estimator`]), and the level executes, queues or rejects it ([`level`], [`queue_set`]). Levels lend
//! seats to each other by their recent demand ([`borrowing`]). The FlowSchemas and PriorityLevelConfigurations that are
//! stored are in force: [`config_consumer`] follows them. Long-running requests are not counted, except that a watch
//! takes seats until its first events have been sent.
//!
//! The design and the constants are those of Kubernetes' `apiserver/pkg/util/flowcontrol`, with these differences. The
//! hash of a flow has a random key, so that a client cannot choose its queues. A flow leaves some seats of its level to
//! other flows, so that no user waits for the slow requests of another ([`queue_set`]). The response of a long list and the first
//! events of a watch occupy their seats no longer than the maximum request timeout, even if the client does not read. In
//! `work_estimator` only watches of other processes count, since controllers of this one share the caches.
//!
//! Start reading at [`PriorityAndFairness::admit`].

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::{Clock, Serve};
use setpoint_auth::authorize::{AccessTarget, Attributes};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

mod allocation;
pub(crate) mod borrowing;
pub(crate) mod config_consumer;
pub(crate) mod configuration;
pub(crate) mod debug_dump;
mod flow_metrics;
pub(crate) mod level;
mod level_metrics;
mod matching;
mod objects;
pub(crate) mod queue_set;
pub(crate) mod response_headers;
mod retry_after;
mod seat_demand;
mod seat_seconds;
mod shuffle_sharding;
pub(crate) mod utilization;
pub(crate) mod watch_tracker;
mod work_estimate;
pub(crate) mod work_estimator;

use super::flow_control::{ExecutingRequest, RequestDigest, TooManyRequests};
use crate::request::RequestInfo;
use borrowing::LevelDemand;
use config_consumer::Objects;
use configuration::{Configuration, FlowSchema, LevelConfiguration, LevelFactory};
use level::{NewRequest, RequestDetails, Start};
use objects::DistinguisherMethod;
use queue_set::Flow;
use setpoint_api::ApiVerb;
use utilization::{Phase, ReadWriteUtilization, queue_capacity};
use watch_tracker::WatchTracker;
use work_estimator::{ObjectStatsProvider, WorkEstimator};

/// The interval at which the limits of the levels are adjusted to their demand.
const ADJUSTMENT_PERIOD: Duration = Duration::from_secs(10);

/// The filter.
#[derive(Debug)]
pub(crate) struct PriorityAndFairness {
    configuration: ArcSwap<Configuration>,
    factory: LevelFactory,
    estimator: WorkEstimator,
    watches: Arc<WatchTracker>,
    utilization: Arc<ReadWriteUtilization>,
    /// The stored objects, as far as they are known.
    objects: Mutex<Objects>,
    /// Notified when `objects` change.
    changed: Notify,
    /// The fair fraction of the last adjustment.
    fair_fraction: Mutex<f64>,
    /// The key of the hash of flows.
    hash_key: RandomState,
}

impl PriorityAndFairness {
    /// The filter of a server with this many seats. Until [`PriorityAndFairness::run`] has read the stored objects, only
    /// the mandatory ones are in force.
    pub(crate) fn new(seats: usize, object_stats: ObjectStatsProvider, clock: Arc<dyn Clock>) -> Arc<Self> {
        let factory = LevelFactory {
            seats,
            clock,
            wake: Arc::default(),
        };
        let filter = Self {
            configuration: ArcSwap::from_pointee(Configuration::compile(&[], &[], &[], &factory)),
            utilization: ReadWriteUtilization::new(factory.clock.clone()),
            factory,
            estimator: WorkEstimator { object_stats },
            watches: Arc::default(),
            objects: Mutex::default(),
            changed: Notify::new(),
            fair_fraction: Mutex::new(0.0),
            hash_key: RandomState::new(),
        };
        filter.adjust(&filter.configuration.load().levels);
        Arc::new(filter)
    }

    /// Waits until the request may execute. Sets its FlowSchema, unless it is not classified.
    pub(crate) async fn admit(
        &self,
        digest: &RequestDigest<'_>,
        flow_schema: &OnceLock<Arc<FlowSchema>>,
    ) -> Result<ExecutingRequest, TooManyRequests> {
        let watch = find_watch(digest.info);
        if watch.is_none() && digest.info.is_long_running() {
            return Ok(ExecutingRequest::default());
        }
        let schema = flow_schema.get_or_init(|| self.classify(digest));
        let request = self.new_request(digest, schema);
        let clock = &self.factory.clock;
        let now = clock.now();
        let (mut ticket, now) = match schema.level.start(now, request)? {
            Start::Executing(ticket) => (ticket, now),
            Start::Waiting(ticket, dispatched) => {
                let _waiting = self.utilization.enter(now, Phase::Waiting, digest.is_mutating());
                tokio::select! {
                    biased;
                    _ = dispatched => (ticket, clock.now()),
                    () = clock.sleep(digest.max_wait) => return Err(ticket.into_too_many_requests()),
                }
            }
        };
        let counted = self
            .utilization
            .enter(now, Phase::Executing, digest.is_mutating());
        ticket.counted = Some(counted);
        Ok(ExecutingRequest {
            ticket: Some(ticket),
            permit: None,
            _watch: watch.and_then(|request| self.watches.register(request)),
        })
    }

    fn classify(&self, digest: &RequestDigest<'_>) -> Arc<FlowSchema> {
        let configuration = self.configuration.load();
        configuration
            .classify(digest.user, &digest.info.attributes())
            .clone()
    }

    fn new_request(&self, digest: &RequestDigest<'_>, schema: &FlowSchema) -> NewRequest {
        let estimate = self
            .estimator
            .estimate(digest.info, digest.query, schema.max_seats, &self.watches);
        NewRequest {
            slot: schema.slot,
            flow: Flow {
                hash: self.flow_hash(digest, schema),
                is_distinguished: schema.distinguisher.is_some(),
            },
            work: estimate.work,
            watch_count: estimate.watch_count,
            distinguisher: schema.distinguisher,
            is_watch: find_watch(digest.info).is_some(),
            details: RequestDetails {
                user: digest.user.clone(),
                method: digest.method.clone(),
                path: digest.path.cloned(),
            },
        }
    }

    /// The same for all requests of a flow. Clients cannot predict it.
    fn flow_hash(&self, digest: &RequestDigest<'_>, schema: &FlowSchema) -> u64 {
        if schema.is_exempt {
            return 0;
        }
        let distinguisher = match schema.distinguisher {
            None => "",
            Some(DistinguisherMethod::ByUser) => digest.user.name.as_str(),
            Some(DistinguisherMethod::ByNamespace) => namespace(&digest.info.attributes()),
        };
        self.hash_key.hash_one((&schema.name, distinguisher))
    }

    /// Follows the stored objects and adjusts the limits of the levels, until stopped.
    pub(crate) async fn run(&self, serve: &dyn Serve, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = config_consumer::follow(self, serve) => {}
            () = self.maintain() => {}
        }
    }

    /// Applies changes of the objects, adjusts limits periodically, and ends timers that requests wait for.
    async fn maintain(&self) {
        let clock = &self.factory.clock;
        let mut next_adjustment = later(clock.now(), ADJUSTMENT_PERIOD);
        loop {
            let levels = self.configuration.load_full();
            let armed = levels.levels.iter().filter_map(|one| one.level.arm()).min();
            let next = armed.map_or(next_adjustment, |armed| armed.min(next_adjustment));
            let wait = Duration::try_from(next.duration_since(clock.now())).unwrap_or_default();
            tokio::select! {
                () = self.changed.notified() => self.reconfigure(),
                () = self.factory.wake.notified() => self.remove_drained_levels(),
                () = clock.sleep(wait) => {}
            }
            levels.levels.iter().for_each(|one| one.level.sync());
            if clock.now() >= next_adjustment {
                next_adjustment = later(clock.now(), ADJUSTMENT_PERIOD);
                self.adjust(&self.configuration.load().levels);
            }
        }
    }

    /// Compiles the objects, once both kinds are known, and puts the result in force.
    fn reconfigure(&self) {
        let objects = self.objects.lock();
        let (Some(schemas), Some(levels)) = (&objects.flow_schemas, &objects.levels) else {
            return;
        };
        let previous = self.configuration.load();
        let configuration = Configuration::compile(schemas, levels, &previous.levels, &self.factory);
        self.adjust(&configuration.levels);
        self.configuration.store(Arc::new(configuration));
    }

    fn remove_drained_levels(&self) {
        let configuration = self.configuration.load();
        let is_drained = |one: &LevelConfiguration| one.level.is_quiescing() && one.level.is_idle();
        if configuration.levels.iter().any(is_drained) {
            self.reconfigure();
        }
    }

    /// Adjusts the limits of the levels to their demand.
    fn adjust(&self, levels: &[LevelConfiguration]) {
        let now = self.factory.clock.now();
        let demands: Vec<LevelDemand> = levels.iter().map(|one| demand(one, now)).collect();
        let adjustment = borrowing::adjust(&demands);
        *self.fair_fraction.lock() = adjustment.fair_fraction;
        let capacity = levels.iter().map(|one| queue_capacity(one.response)).sum();
        self.utilization.set_limits(capacity, self.factory.seats);
        for (one, adjusted) in levels.iter().zip(adjustment.levels) {
            one.level
                .configure(one.response, adjusted.limit, one.limits.nominal);
            one.level.read(|state| state.target = adjusted.target);
        }
    }
}

/// The watch that a request begins.
fn find_watch<'a>(info: &'a RequestInfo<'_>) -> Option<&'a crate::request::ResourceRequest> {
    match info {
        RequestInfo::Resource(resource) => Some(resource).filter(|one| one.verb == Some(ApiVerb::Watch)),
        RequestInfo::NonResource { .. } => None,
    }
}

fn namespace<'a>(attributes: &Attributes<'a>) -> &'a str {
    match attributes.target {
        AccessTarget::Resource { namespace, .. } => namespace,
        AccessTarget::Path(_) => "",
    }
}

/// Ends the demand period of a level.
fn demand(level: &LevelConfiguration, now: Timestamp) -> LevelDemand {
    level.level.read(|state| {
        state.queue_set.end_demand_period(now, &mut state.demand);
        LevelDemand {
            is_exempt: level.object.spec.is_exempt(),
            limits: level.limits,
            stats: state.demand,
            current: state.queue_set.limit(),
        }
    })
}

fn later(now: Timestamp, duration: Duration) -> Timestamp {
    now.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
