//! Flow control: how many requests execute at once. By priority and fairness, or without it by the two limits on
//! requests in flight.
//!
//! A request that executes has an [`ExecutingRequest`], which releases its seats when dropped.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Method;
use http::uri::PathAndQuery;
use jiff::Timestamp;
use setpoint_api::{ApiVerb, Clock, Serve, User};
use tokio_util::sync::CancellationToken;

use super::max_in_flight::{MaxInFlight, Permit};
use super::priority_and_fairness::PriorityAndFairness;
use super::priority_and_fairness::configuration::FlowSchema;
use super::priority_and_fairness::level::Ticket;
use super::priority_and_fairness::watch_tracker::RegisteredWatch;
use super::priority_and_fairness::work_estimator::ObjectStatsProvider;
use crate::metrics::{MetricsSource, TextEncoder};
use crate::request::RequestInfo;
use crate::request::query::Query;

/// Verbs that are not mutating.
const READ_ONLY_VERBS: [&str; 3] = [
    ApiVerb::Get.as_str(),
    ApiVerb::List.as_str(),
    ApiVerb::Watch.as_str(),
];

/// Configuration of flow control. The defaults are upstream's.
pub struct FlowControlConfig {
    /// Whether requests are limited by priority levels rather than by the two limits alone.
    pub enable_priority_and_fairness: bool,
    /// With priority and fairness the sum of both limits is the number of seats; without it, the read-only requests
    /// that execute at once, or 0 for no limit.
    pub max_requests_inflight: usize,
    /// The same for mutating requests.
    pub max_mutating_requests_inflight: usize,
    /// The numbers and sizes of objects, by which the work of lists is estimated.
    pub object_stats: ObjectStatsProvider,
}

/// The filter in force.
#[derive(Debug)]
pub(crate) enum FlowControl {
    PriorityAndFairness(Arc<PriorityAndFairness>),
    MaxInFlight(MaxInFlight),
}

/// What flow control needs to know of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestDigest<'a> {
    pub user: &'a Arc<User>,
    pub info: &'a RequestInfo<'a>,
    pub query: &'a Query<'a>,
    pub method: &'a Method,
    pub path: Option<&'a PathAndQuery>,
    /// How long the request may wait for a seat.
    pub max_wait: Duration,
}

/// A request that is rejected, with its `Retry-After`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyRequests {
    pub retry_after_seconds: u64,
}

/// An executing request.
#[derive(Debug, Default)]
pub(crate) struct ExecutingRequest {
    pub ticket: Option<Ticket>,
    pub permit: Option<Permit>,
    /// Counts a watch among those that are notified of changes.
    pub _watch: Option<RegisteredWatch>,
}

impl RequestDigest<'_> {
    /// Whether the request counts as a mutating one, by its verb.
    pub(crate) fn is_mutating(&self) -> bool {
        !READ_ONLY_VERBS.contains(&self.info.verb())
    }
}

// === impl FlowControlConfig ===

impl Default for FlowControlConfig {
    fn default() -> Self {
        Self {
            enable_priority_and_fairness: true,
            max_requests_inflight: 400,
            max_mutating_requests_inflight: 200,
            object_stats: Box::new(|_| None),
        }
    }
}

impl std::fmt::Debug for FlowControlConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowControlConfig")
            .field("enable_priority_and_fairness", &self.enable_priority_and_fairness)
            .field("max_requests_inflight", &self.max_requests_inflight)
            .field(
                "max_mutating_requests_inflight",
                &self.max_mutating_requests_inflight,
            )
            .finish_non_exhaustive()
    }
}

// === impl FlowControl ===

impl FlowControl {
    pub(crate) fn new(config: FlowControlConfig, clock: &Arc<dyn Clock>) -> Self {
        let (reading, mutating) = (
            config.max_requests_inflight,
            config.max_mutating_requests_inflight,
        );
        match config.enable_priority_and_fairness {
            true => Self::PriorityAndFairness(PriorityAndFairness::new(
                reading + mutating,
                config.object_stats,
                clock.clone(),
            )),
            false => Self::MaxInFlight(MaxInFlight::new(reading, mutating)),
        }
    }

    /// Waits until the request may execute. Sets its FlowSchema, if there are such.
    pub(crate) async fn admit(
        &self,
        digest: &RequestDigest<'_>,
        flow_schema: &OnceLock<Arc<FlowSchema>>,
    ) -> Result<ExecutingRequest, TooManyRequests> {
        match self {
            Self::PriorityAndFairness(filter) => filter.admit(digest, flow_schema).await,
            Self::MaxInFlight(filter) => filter.admit(digest),
        }
    }

    /// Follows the configuration until stopped.
    pub(crate) async fn run(&self, serve: Arc<dyn Serve>, stop: CancellationToken) {
        match self {
            Self::PriorityAndFairness(filter) => filter.run(&*serve, stop).await,
            Self::MaxInFlight(_) => {}
        }
    }

    /// The filter, if it is priority and fairness.
    pub(crate) fn priority_and_fairness(&self) -> Option<&PriorityAndFairness> {
        match self {
            Self::PriorityAndFairness(filter) => Some(filter),
            Self::MaxInFlight(_) => None,
        }
    }
}

impl MetricsSource for FlowControl {
    fn write(&self, text: &mut TextEncoder) {
        if let Self::PriorityAndFairness(filter) = self {
            filter.write(text);
        }
    }
}

// === impl ExecutingRequest ===

impl ExecutingRequest {
    /// Releases the seats at this time, if not before.
    pub(crate) fn expire_at(&mut self, at: Timestamp) {
        // A limit on requests in flight has no timers.
        self.permit = None;
        if let Some(ticket) = &self.ticket {
            ticket.expire_at(at);
        }
    }

    /// Releases the seats; a watch remains counted.
    pub(crate) fn release_seats(&mut self) {
        self.ticket = None;
        self.permit = None;
    }
}
