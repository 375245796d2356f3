//! Limits on the requests in flight, read-only and mutating ones apart. They apply without priority and fairness.
//!
//! The rules are those of Kubernetes' `apiserver/pkg/server/filters/maxinflight.go`: requests over a limit are rejected
//! at once, except those of administrators; long-running requests do not count.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use setpoint_api::User;

use super::flow_control::{ExecutingRequest, RequestDigest, TooManyRequests};

/// The two limits.
#[derive(Debug)]
pub(crate) struct MaxInFlight {
    /// `None` without a limit.
    reading: Option<InFlightLimit>,
    mutating: Option<InFlightLimit>,
}

/// A limit and the requests that count towards it.
#[derive(Debug)]
struct InFlightLimit {
    max: usize,
    executing: Arc<AtomicUsize>,
}

/// A request in flight, counted until dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<AtomicUsize>);

const TOO_MANY: TooManyRequests = TooManyRequests {
    retry_after_seconds: 1,
};

impl MaxInFlight {
    /// The limits; 0 is none.
    pub(crate) fn new(reading: usize, mutating: usize) -> Self {
        let limit = |max: usize| {
            (max > 0).then(|| InFlightLimit {
                max,
                executing: Arc::default(),
            })
        };
        Self {
            reading: limit(reading),
            mutating: limit(mutating),
        }
    }

    pub(crate) fn admit(&self, digest: &RequestDigest<'_>) -> Result<ExecutingRequest, TooManyRequests> {
        if digest.info.is_long_running() {
            return Ok(ExecutingRequest::default());
        }
        let limit = match digest.is_mutating() {
            false => &self.reading,
            true => &self.mutating,
        };
        let permit = limit.as_ref().map(InFlightLimit::try_acquire);
        match permit {
            Some(None) if !digest.user.is_in(User::MASTERS) => Err(TOO_MANY),
            permit => Ok(ExecutingRequest {
                permit: permit.flatten(),
                ..ExecutingRequest::default()
            }),
        }
    }
}

impl InFlightLimit {
    fn try_acquire(&self) -> Option<Permit> {
        let next = |executing: usize| (executing < self.max).then_some(executing + 1);
        self.executing
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .ok()
            .map(|_| Permit(self.executing.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;

    use super::*;
    use crate::request::parse;
    use crate::request::query::Query;

    fn admit(filter: &MaxInFlight, method: &Method, url: &str, group: &str) -> Option<ExecutingRequest> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let query = Query::parse(Some(query));
        let digest = RequestDigest {
            user: &Arc::new(User::new("x", &[group])),
            info: &parse(method, path, &query),
            query: &query,
            method,
            path: None,
            max_wait: Duration::ZERO,
        };
        filter.admit(&digest).ok()
    }

    #[test]
    fn reading_and_mutating_requests_have_limits_of_their_own() {
        let filter = MaxInFlight::new(2, 1);
        let get = || admit(&filter, &Method::GET, "/api/v1/pods", "devs");
        let post = || admit(&filter, &Method::POST, "/api/v1/namespaces/a/pods", "devs");
        let first = get();
        let (_second, _third) = (get().unwrap(), post().unwrap());
        assert!(get().is_none());
        assert!(post().is_none());
        drop(first);
        assert!(get().is_some());
    }

    #[test]
    fn administrators_and_watches_are_not_limited() {
        let filter = MaxInFlight::new(1, 1);
        let _taken = admit(&filter, &Method::GET, "/api/v1/pods", "devs").unwrap();
        assert!(admit(&filter, &Method::GET, "/api/v1/pods", "devs").is_none());
        assert!(admit(&filter, &Method::GET, "/api/v1/pods", User::MASTERS).is_some());
        assert!(admit(&filter, &Method::GET, "/api/v1/pods?watch=1", "devs").is_some());
    }

    #[test]
    fn zero_is_no_limit() {
        let filter = MaxInFlight::new(0, 1);
        let _all: Vec<_> = (0..100)
            .map(|_| admit(&filter, &Method::GET, "/version", "devs").unwrap())
            .collect();
    }
}
