//! A soft limit of the process's memory (`--max-memory`): above it expensive requests are rejected and cheap ones
//! served, so that the server is not killed.
//!
//! Expensive are large bodies, lists of everything, watches that begin with the current objects, and applies. Requests
//! of system components, and those for leases, are served in any case: the cluster depends on them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http_body::Body as _;
use hyper::body::Incoming;
use setpoint_api::options::PatchType;
use setpoint_api::{ApiVerb, Status, User};

use super::bodies_in_flight::LARGE_BODY_BYTES;
use crate::chain::Exchange;
use crate::metrics::{MetricsSource, TextEncoder, resident_bytes};
use crate::request::options::StatusError;
use crate::request::query::Query;
use crate::request::{ResourceRequest, payload};

/// How long a measurement is used.
const SAMPLE_MILLIS: u64 = 100;

/// When a rejected client should try again.
const RETRY_AFTER_SECONDS: u32 = 5;

/// The limit and the last measurement.
#[derive(Debug, Default)]
pub(crate) struct MemoryLimit {
    /// Zero is no limit.
    max_bytes: u64,
    /// When the memory was measured last, in milliseconds since 1970.
    sampled_at: AtomicU64,
    is_exceeded: AtomicBool,
    rejected: AtomicU64,
}

impl MemoryLimit {
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self {
            max_bytes,
            ..Self::default()
        }
    }

    /// Rejects an expensive request if the process uses more memory than the limit.
    pub(crate) fn check(
        &self,
        exchange: &Exchange<'_>,
        resource: &ResourceRequest,
        user: &User,
        body: Option<&Incoming>,
    ) -> Result<(), StatusError> {
        if self.max_bytes == 0
            || !(is_expensive(exchange, resource) || has_large_body(body))
            || !self.is_exceeded(exchange.shared.clock.millis())
            || is_essential(user, resource)
        {
            return Ok(());
        }
        self.rejected.fetch_add(1, Ordering::Relaxed);
        Err(Box::new(Status {
            message: "the server uses more memory than its limit, please try again later".to_owned(),
            ..Status::too_many_requests(RETRY_AFTER_SECONDS)
        }))
    }

    /// Whether the last measurement is above the limit. It is taken again after a while.
    fn is_exceeded(&self, now: u64) -> bool {
        let sampled_at = self.sampled_at.load(Ordering::Relaxed);
        let is_old = now.saturating_sub(sampled_at) >= SAMPLE_MILLIS;
        let claimed = |at| {
            let swapped = self
                .sampled_at
                .compare_exchange(at, now, Ordering::Relaxed, Ordering::Relaxed);
            swapped.is_ok()
        };
        if is_old && claimed(sampled_at) {
            let is_exceeded = resident_bytes().is_some_and(|bytes| bytes > self.max_bytes);
            self.is_exceeded.store(is_exceeded, Ordering::Relaxed);
        }
        self.is_exceeded.load(Ordering::Relaxed)
    }
}

/// Whether the cluster depends on the request.
fn is_essential(user: &User, resource: &ResourceRequest) -> bool {
    let is_coordination = resource.target.resource.group == "coordination.k8s.io";
    is_coordination || user.is_in(User::MASTERS) || is_system_component(&user.name)
}

/// Whether the name is that of a component of the cluster, or of an account in its namespace.
fn is_system_component(name: &str) -> bool {
    match name.strip_prefix("system:serviceaccount:") {
        Some(account) => account.starts_with("kube-system:"),
        None => name.starts_with("system:") && name != "system:anonymous",
    }
}

fn has_large_body(body: Option<&Incoming>) -> bool {
    let length = body.map_or(Some(0), |body| body.size_hint().exact());
    length.is_none_or(|length| length > LARGE_BODY_BYTES as u64)
}

/// Whether the verb and its options make a request expensive.
fn is_expensive(exchange: &Exchange<'_>, resource: &ResourceRequest) -> bool {
    let query = exchange.query;
    match resource.verb {
        Some(ApiVerb::List | ApiVerb::DeleteCollection) => !is_paginated(query),
        Some(ApiVerb::Watch) => begins_with_objects(query),
        Some(ApiVerb::Patch) => {
            payload::patch_type(&exchange.head.headers).is_ok_and(|patch| patch == PatchType::Apply)
        }
        _ => false,
    }
}

fn is_paginated(query: &Query<'_>) -> bool {
    query.text("limit").is_some_and(|limit| limit != "0")
}

/// Whether a watch sends the current objects before the changes.
fn begins_with_objects(query: &Query<'_>) -> bool {
    let has_version = query
        .text("resourceVersion")
        .is_some_and(|version| version != "0");
    query.flag("sendInitialEvents").unwrap_or(!has_version)
}

impl MetricsSource for MemoryLimit {
    fn write(&self, text: &mut TextEncoder) {
        let limit = "setpoint_memory_limit_bytes";
        text.family(
            limit,
            "gauge",
            "Resident memory above which expensive requests are rejected; zero is no limit.",
        );
        text.sample(limit, &[], self.max_bytes);
        let rejected = "setpoint_memory_limit_rejected_requests_total";
        text.family(
            rejected,
            "counter",
            "Expensive requests rejected since the memory is above its limit.",
        );
        text.sample(rejected, &[], self.rejected.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_measured_again_after_a_while() {
        let limit = MemoryLimit::new(1);
        assert!(!limit.is_exceeded(50), "nothing was measured yet");
        assert!(limit.is_exceeded(1000));
        limit.is_exceeded.store(false, Ordering::Relaxed);
        assert!(!limit.is_exceeded(1099));
        assert!(limit.is_exceeded(1100));
        assert!(!MemoryLimit::new(u64::MAX).is_exceeded(1000));
    }

    #[track_caller]
    fn check_component(name: &str, expected: bool) {
        assert_eq!(is_system_component(name), expected, "{name}");
    }

    #[test]
    fn components_of_the_cluster_are_known_by_their_names() {
        check_component("system:kube-scheduler", true);
        check_component("system:node:node-0", true);
        check_component("system:serviceaccount:kube-system:job-controller", true);
        check_component("system:serviceaccount:default:default", false);
        check_component("system:anonymous", false);
        check_component("alice", false);
    }

    #[track_caller]
    fn check_watch(query: &str, expected: bool) {
        assert_eq!(
            begins_with_objects(&Query::parse(Some(query))),
            expected,
            "{query}"
        );
    }

    #[test]
    fn a_watch_without_a_version_begins_with_the_current_objects() {
        check_watch("watch=true", true);
        check_watch("resourceVersion=0", true);
        check_watch("resourceVersion=7", false);
        check_watch("resourceVersion=7&sendInitialEvents=true", true);
        check_watch("sendInitialEvents=false", false);
    }
}
