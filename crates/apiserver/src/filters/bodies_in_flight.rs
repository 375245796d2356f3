//! Limit of the request bodies that are held at the same time, by one user and in total.
//!
//! A body of three mebibytes is cheap to send, and held while its request waits for its turn. Small bodies are not
//! counted: the seats of priority and fairness limit them well enough.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use setpoint_api::Status;

use super::limit::BODY_BYTES;
use crate::metrics::{MetricsSource, TextEncoder};
use crate::request::options::StatusError;

/// A body of more bytes is counted.
pub(crate) const LARGE_BODY_BYTES: usize = 64 * 1024;

/// Bytes of large bodies that one user may have in flight: about twenty of the largest.
const MAX_BYTES_PER_USER: usize = 64 * 1024 * 1024;

/// Bytes of large bodies that may be in flight.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// When a rejected client should try again.
const RETRY_AFTER_SECONDS: u32 = 1;

/// The large request bodies that are held now.
#[derive(Debug, Default)]
pub(crate) struct BodiesInFlight {
    held: Mutex<HeldBytes>,
    rejected: AtomicU64,
}

/// The total is the sum of the users' bytes, which are never zero.
#[derive(Debug, Default)]
struct HeldBytes {
    by_user: HashMap<String, usize>,
    total: usize,
}

/// The bytes of one body, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct BodyReservation<'a> {
    bodies: &'a BodiesInFlight,
    user: String,
    bytes: usize,
}

impl BodiesInFlight {
    /// Reserves the bytes of a body before it is read; a body of unknown length may be as long as the limit. Returns
    /// nothing for a small one.
    pub(crate) fn reserve(
        &self,
        user: &str,
        length: Option<u64>,
    ) -> Result<Option<BodyReservation<'_>>, StatusError> {
        let length = length.and_then(|length| usize::try_from(length).ok());
        let bytes = length.unwrap_or(BODY_BYTES).min(BODY_BYTES);
        if bytes <= LARGE_BODY_BYTES {
            return Ok(None);
        }
        if !self.held.lock().add(user, bytes) {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            return Err(Box::new(Status::too_many_requests(RETRY_AFTER_SECONDS)));
        }
        Ok(Some(BodyReservation {
            bodies: self,
            user: user.to_owned(),
            bytes,
        }))
    }
}

impl HeldBytes {
    /// Adds the bytes of a user, unless that would exceed a limit.
    fn add(&mut self, user: &str, bytes: usize) -> bool {
        let own = self.by_user.get(user).copied().unwrap_or_default();
        if own + bytes > MAX_BYTES_PER_USER || self.total + bytes > MAX_BYTES {
            return false;
        }
        self.by_user.insert(user.to_owned(), own + bytes);
        self.total += bytes;
        true
    }

    fn remove(&mut self, user: &str, bytes: usize) {
        self.total -= bytes;
        if let Some(own) = self.by_user.get_mut(user) {
            *own -= bytes;
            if *own == 0 {
                self.by_user.remove(user);
            }
        }
    }
}

impl Drop for BodyReservation<'_> {
    fn drop(&mut self) {
        self.bodies.held.lock().remove(&self.user, self.bytes);
    }
}

impl MetricsSource for BodiesInFlight {
    fn write(&self, text: &mut TextEncoder) {
        let held = "setpoint_request_body_bytes_in_flight";
        text.family(held, "gauge", "Bytes of large request bodies that are held now.");
        text.sample(held, &[], self.held.lock().total);
        let rejected = "setpoint_request_bodies_rejected_total";
        text.family(
            rejected,
            "counter",
            "Requests rejected since too many bytes of request bodies are held.",
        );
        text.sample(rejected, &[], self.rejected.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserve_all<'a>(bodies: &'a BodiesInFlight, user: &str) -> Vec<BodyReservation<'a>> {
        let full = || bodies.reserve(user, None).ok().flatten();
        std::iter::from_fn(full).collect()
    }

    #[test]
    fn one_user_cannot_hold_all_bytes() {
        let bodies = BodiesInFlight::default();
        let held = reserve_all(&bodies, "alice");
        assert_eq!(held.len(), MAX_BYTES_PER_USER / BODY_BYTES);
        let status = bodies.reserve("alice", None).unwrap_err();
        assert_eq!(
            (status.code, status.details.unwrap().retry_after_seconds),
            (429, 1)
        );
        assert!(bodies.reserve("bob", None).unwrap().is_some());
        drop(held);
        assert!(bodies.reserve("alice", None).unwrap().is_some());
        assert!(bodies.held.lock().by_user.is_empty());
    }

    #[test]
    fn all_users_together_have_a_limit() {
        let bodies = BodiesInFlight::default();
        let users: Vec<String> = (0..10).map(|number| format!("user-{number}")).collect();
        let held: Vec<_> = users.iter().flat_map(|user| reserve_all(&bodies, user)).collect();
        assert_eq!(held.len(), MAX_BYTES / BODY_BYTES);
        assert!(bodies.reserve("bob", None).is_err());
    }

    #[test]
    fn small_bodies_are_not_counted() {
        let bodies = BodiesInFlight::default();
        let _held = reserve_all(&bodies, "alice");
        assert!(bodies.reserve("alice", Some(1000)).unwrap().is_none());
        assert!(bodies.reserve("alice", Some(2_000_000)).is_err());
    }
}
