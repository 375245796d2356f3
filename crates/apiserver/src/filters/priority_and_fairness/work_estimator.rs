//! Estimation of the work of a request, in seats.
//!
//! * A list takes seats by the bytes that it loads at once: by the number of objects and their average size.
//! * A watch that begins with the current objects counts as a list, until they have been sent.
//! * A mutating request takes one seat, and more after its response if many watches are notified of the change.
//! * Every other request takes one.
//!
//! The rules are those of Kubernetes' `apiserver/pkg/util/flowcontrol/request`, with its feature
//! `SizeBasedListCostEstimate`.

use std::fmt;
use std::time::Duration;

use setpoint_api::{ApiVerb, GroupResource};

use super::seat_seconds::SeatSeconds;
use super::watch_tracker::WatchTracker;
use super::work_estimate::WorkEstimate;
use crate::request::query::Query;
use crate::request::{RequestInfo, ResourceRequest};

const MIN_SEATS: usize = 1;
const MAX_LIST_SEATS: usize = 100;
const MAX_MUTATING_SEATS: usize = 10;
/// A list takes one seat for this many bytes.
const BYTES_PER_SEAT: usize = 100_000;
/// A list from a cache is encoded as it is sent, so it has no more than this in memory.
const MAX_CACHED_LIST_BYTES: usize = 1_000_000;
/// The assumed size of objects whose size is not known.
const MAX_OBJECT_BYTES: usize = 1_500_000;
const WATCHES_PER_SEAT: usize = 10;
/// How long a seat is occupied by the delivery of a change.
const EVENT_DURATION: Duration = Duration::from_millis(5);

/// The number and the size of the objects of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectStats {
    pub count: usize,
    /// An estimate; zero if it is not known.
    pub average_bytes: usize,
}

/// Returns the statistics of a resource; `None` if this server does not store it.
pub type ObjectStatsProvider = Box<dyn Fn(&GroupResource) -> Option<ObjectStats> + Send + Sync>;

/// Estimates the work of requests.
pub(crate) struct WorkEstimator {
    pub object_stats: ObjectStatsProvider,
}

/// An estimate, and for a mutating request the number of watches that it notifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Estimate {
    pub work: WorkEstimate,
    pub watch_count: Option<usize>,
}

/// The options that determine the work of a list.
struct ListOptions<'a> {
    limit: usize,
    resource_version: &'a str,
    resource_version_match: &'a str,
    has_continue: bool,
    has_selector: bool,
    send_initial_events: bool,
}

impl WorkEstimator {
    /// Estimates a request on a level whose requests may take at most `max_seats`.
    pub(crate) fn estimate(
        &self,
        request: &RequestInfo<'_>,
        query: &Query<'_>,
        max_seats: Option<usize>,
        watches: &WatchTracker,
    ) -> Estimate {
        let RequestInfo::Resource(resource) = request else {
            return Estimate::seats(MIN_SEATS);
        };
        let at_most = |limit: usize| max_seats.map_or(limit, |seats| seats.min(limit));
        match resource.verb {
            Some(ApiVerb::List | ApiVerb::Watch) => {
                Estimate::seats(self.list_seats(resource, query, at_most(MAX_LIST_SEATS)))
            }
            Some(ApiVerb::Create | ApiVerb::Update | ApiVerb::Patch | ApiVerb::Delete) => {
                mutating(resource, at_most(MAX_MUTATING_SEATS), watches)
            }
            Some(ApiVerb::Get | ApiVerb::DeleteCollection) | None => Estimate::seats(MIN_SEATS),
        }
    }

    fn list_seats(&self, resource: &ResourceRequest, query: &Query<'_>, max_seats: usize) -> usize {
        let Some(options) = ListOptions::parse(query) else {
            // The request will be rejected for its options.
            return max_seats;
        };
        let is_watch = resource.verb == Some(ApiVerb::Watch);
        if is_watch && !options.has_initial_events() {
            return MIN_SEATS;
        }
        let group_resource = resource.target.resource.group_resource();
        let Some(stats) = (self.object_stats)(&group_resource) else {
            return MIN_SEATS;
        };
        let is_from_cache = is_watch || options.is_from_cache();
        let objects = match resource.name.is_empty() {
            true => options.loaded_objects(stats.count, is_from_cache),
            false => 1,
        };
        let bytes = objects.saturating_mul(stats.object_bytes());
        let bytes = match is_from_cache {
            true => bytes.min(MAX_CACHED_LIST_BYTES),
            false => bytes,
        };
        bytes
            .div_ceil(BYTES_PER_SEAT)
            .clamp(MIN_SEATS, max_seats.max(MIN_SEATS))
    }
}

fn mutating(resource: &ResourceRequest, max_seats: usize, watches: &WatchTracker) -> Estimate {
    if is_exempt_from_watch_events(resource) {
        return Estimate::seats(MIN_SEATS);
    }
    let watch_count = watches.interested(resource);
    let mut work = WorkEstimate::seats(MIN_SEATS);
    if watch_count >= WATCHES_PER_SEAT {
        let seats = watch_count.div_ceil(WATCHES_PER_SEAT);
        work.final_seats = seats.min(max_seats);
        work.additional_latency = SeatSeconds::of(seats, EVENT_DURATION).duration(work.final_seats);
    }
    Estimate {
        work,
        watch_count: Some(watch_count),
    }
}

/// Whether a request changes no object: one for a service account's token.
fn is_exempt_from_watch_events(resource: &ResourceRequest) -> bool {
    resource.target.subresource.as_deref() == Some("token")
        && resource.target.resource.resource == "serviceaccounts"
}

// === impl Estimate ===

impl Estimate {
    fn seats(seats: usize) -> Self {
        Self {
            work: WorkEstimate::seats(seats),
            watch_count: None,
        }
    }
}

// === impl ObjectStats ===

impl ObjectStats {
    fn object_bytes(&self) -> usize {
        match self.average_bytes {
            0 => MAX_OBJECT_BYTES,
            bytes => bytes,
        }
    }
}

// === impl ListOptions ===

impl<'a> ListOptions<'a> {
    /// `None` if a number is malformed.
    fn parse(query: &'a Query<'a>) -> Option<Self> {
        let number = |name| query.text(name).map_or(Some(0), |text| text.parse::<i64>().ok());
        number("timeoutSeconds")?;
        let text = |name| query.find(name).unwrap_or_default();
        Some(Self {
            limit: usize::try_from(number("limit")?).unwrap_or_default(),
            resource_version: text("resourceVersion"),
            resource_version_match: text("resourceVersionMatch"),
            has_continue: query.text("continue").is_some(),
            has_selector: query.text("fieldSelector").is_some() || query.text("labelSelector").is_some(),
            send_initial_events: query.flag("sendInitialEvents").unwrap_or_default(),
        })
    }

    /// Whether a watch begins with the current objects.
    fn has_initial_events(&self) -> bool {
        self.send_initial_events || matches!(self.resource_version, "" | "0")
    }

    /// Whether a list returns the newest objects rather than those of an older version.
    fn is_from_cache(&self) -> bool {
        match self.resource_version_match {
            "NotOlderThan" => true,
            "" => !self.has_continue && (self.limit == 0 || matches!(self.resource_version, "" | "0")),
            _ => false,
        }
    }

    /// How many of the stored objects are in memory at once.
    fn loaded_objects(&self, stored: usize, is_from_cache: bool) -> usize {
        let limited = match self.limit {
            0 => stored,
            limit => limit.min(stored),
        };
        match !is_from_cache && self.has_selector {
            true => limited.max(stored / 2),
            false => limited,
        }
    }
}

impl fmt::Debug for WorkEstimator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkEstimator").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Method;

    use super::*;
    use crate::request::parse;

    fn estimate(method: &Method, url: &str, watches: &WatchTracker) -> WorkEstimate {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let query = Query::parse(Some(query));
        let stats = |resource: &GroupResource| match resource.resource.as_str() {
            "pods" => Some(ObjectStats {
                count: 1000,
                average_bytes: 2000,
            }),
            "configmaps" => Some(ObjectStats {
                count: 3,
                average_bytes: 0,
            }),
            "secrets" => Some(ObjectStats {
                count: 0,
                average_bytes: 0,
            }),
            _ => None,
        };
        let estimator = WorkEstimator {
            object_stats: Box::new(stats),
        };
        let request = parse(method, path, &query);
        estimator.estimate(&request, &query, Some(30), watches).work
    }

    #[track_caller]
    fn check(url: &str, seats: usize) {
        let estimate = estimate(&Method::GET, url, &WatchTracker::default());
        assert_eq!(estimate, WorkEstimate::seats(seats), "{url}");
    }

    #[test]
    fn a_list_from_the_cache_takes_seats_by_its_bytes() {
        check("/api/v1/pods", 10);
        check("/api/v1/namespaces/a/pods", 10);
        check("/api/v1/pods?resourceVersion=0", 10);
        check("/api/v1/pods?limit=100", 2);
        check("/api/v1/pods?limit=100&labelSelector=a%3Db", 2);
        check("/api/v1/pods?fieldSelector=metadata.name%3Dx", 1);
        check("/api/v1/configmaps", 10);
        check("/api/v1/secrets", 1);
    }

    #[test]
    fn a_list_of_an_older_version_may_take_more() {
        check("/api/v1/pods?resourceVersion=7&resourceVersionMatch=Exact", 20);
        check(
            "/api/v1/pods?resourceVersion=7&resourceVersionMatch=NotOlderThan",
            10,
        );
        check("/api/v1/pods?continue=x", 20);
        check("/api/v1/pods?limit=500&continue=x", 10);
        check("/api/v1/pods?limit=100&continue=x&labelSelector=a%3Db", 10);
        check("/api/v1/pods?limit=500&resourceVersion=7", 10);
        check("/api/v1/configmaps?continue=x", 30);
    }

    #[test]
    fn a_list_with_malformed_options_takes_the_most_seats() {
        check("/api/v1/pods?limit=x", 30);
    }

    #[test]
    fn a_list_of_what_is_not_stored_here_takes_one_seat() {
        check("/apis/metrics.k8s.io/v1beta1/pods2", 1);
    }

    #[test]
    fn a_watch_with_initial_events_is_a_list() {
        check("/api/v1/pods?watch=1", 10);
        check("/api/v1/pods?watch=1&resourceVersion=0", 10);
        check("/api/v1/pods?watch=1&resourceVersion=7", 1);
        check(
            "/api/v1/pods?watch=1&resourceVersion=7&sendInitialEvents=true",
            10,
        );
    }

    #[test]
    fn other_reads_take_one_seat() {
        check("/api/v1/namespaces/a/pods/x", 1);
        check("/version", 1);
    }

    #[test]
    fn a_change_for_many_watches_takes_seats_after_the_response() {
        let watches = Arc::new(WatchTracker::default());
        let query = Query::parse(Some("watch=1"));
        let RequestInfo::Resource(watch) = parse(&Method::GET, "/api/v1/pods", &query) else {
            panic!("a watch is a resource request");
        };
        let mut open = Vec::new();
        let mut check = |count: usize, final_seats: usize, milliseconds: u64| {
            open.resize_with(count, || watches.register(&watch));
            let expected = WorkEstimate {
                initial_seats: 1,
                final_seats,
                additional_latency: Duration::from_millis(milliseconds),
            };
            let found = estimate(&Method::POST, "/api/v1/namespaces/a/pods", &watches);
            assert_eq!(found, expected, "{count} watches");
        };
        check(0, 0, 0);
        check(9, 0, 0);
        check(10, 1, 5);
        check(95, 10, 5);
        check(200, 10, 10);
    }
}
