//! [`ObservedLease`]: the lease as a candidate last observed it; whether it is held, and what to write into it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use setpoint_api::ResourceVersion;

/// The lease as last observed, and when its spec last changed (client-go's `observedRecord` and `observedTime`).
#[derive(Debug, Default)]
pub(crate) struct ObservedLease {
    lease: Lease,
    /// On the candidate's own clock. Absent until a lease was observed.
    changed_at: Option<Timestamp>,
}

/// The duration written into a released lease, as in client-go.
const RELEASED_LEASE_SECONDS: i32 = 1;

/// The spec that the first holder writes.
pub(crate) fn initial_spec(identity: &str, duration: Duration, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(0),
        ..LeaseSpec::default()
    }
}

impl ObservedLease {
    /// Stores an observed lease. Only a change of its spec restarts its duration.
    pub(crate) fn observe(&mut self, lease: Lease, now: Timestamp) {
        if self.changed_at.is_none() || self.lease.spec != lease.spec {
            self.changed_at = Some(now);
        }
        self.lease = lease;
    }

    /// The version that was observed; `None` if there was no lease.
    pub(crate) fn resource_version(&self) -> Option<ResourceVersion> {
        self.lease.metadata.resource_version.as_deref()?.parse().ok()
    }

    /// The holder's identity; empty if the lease is free.
    pub(crate) fn holder(&self) -> &str {
        let spec = self.lease.spec.as_ref();
        spec.and_then(|spec| spec.holder_identity.as_deref())
            .unwrap_or_default()
    }

    /// Whether another candidate holds the lease and it has not expired.
    pub(crate) fn is_taken(&self, identity: &str, now: Timestamp) -> bool {
        let holder = self.holder();
        !holder.is_empty() && holder != identity && !self.remaining(now).is_zero()
    }

    /// Whether this candidate holds the lease and it has not expired.
    pub(crate) fn is_held_by(&self, identity: &str, now: Timestamp) -> bool {
        self.holder() == identity && !self.remaining(now).is_zero()
    }

    /// The time until the lease expires.
    pub(crate) fn remaining(&self, now: Timestamp) -> Duration {
        let Some(changed_at) = self.changed_at else {
            return Duration::ZERO;
        };
        let spec = self.lease.spec.as_ref();
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
        let left = SignedDuration::from_secs(seconds.into()) - now.duration_since(changed_at);
        left.try_into().unwrap_or_default()
    }

    /// The lease with this candidate as its holder. A change of holder counts as a transition and sets the acquire time; a
    /// renewal does neither.
    pub(crate) fn with_holder(&self, identity: &str, duration: Duration, now: Timestamp) -> Lease {
        let before = self.lease.spec.clone().unwrap_or_default();
        let mut spec = LeaseSpec {
            preferred_holder: before.preferred_holder,
            strategy: before.strategy,
            ..initial_spec(identity, duration, now)
        };
        let transitions = before.lease_transitions.unwrap_or(0);
        if self.holder() == identity {
            spec.acquire_time = before.acquire_time.or(spec.acquire_time);
            spec.lease_transitions = Some(transitions);
        } else {
            spec.lease_transitions = Some(transitions.saturating_add(1));
        }
        let mut lease = self.lease.clone();
        lease.spec = Some(spec);
        lease
    }

    /// The lease without a holder.
    pub(crate) fn released(&self, now: Timestamp) -> Lease {
        let mut lease = self.lease.clone();
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(RELEASED_LEASE_SECONDS);
        spec.acquire_time = Some(MicroTime(now));
        spec.renew_time = Some(MicroTime(now));
        lease
    }

    /// The object reference for events about the lease; `None` before it was observed.
    pub(crate) fn reference(&self) -> Option<ObjectReference> {
        self.changed_at?;
        let metadata = &self.lease.metadata;
        Some(ObjectReference {
            api_version: Some("coordination.k8s.io/v1".to_owned()),
            kind: Some("Lease".to_owned()),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            field_path: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn lease(holder: &str, renewed: i64) -> Lease {
        let spec = initial_spec(holder, Duration::from_secs(15), at(renewed));
        Lease {
            spec: Some(spec),
            ..Lease::default()
        }
    }

    /// A lease of `b` that was seen at these seconds, renewed at those: whether it is taken for `a` at `now`.
    #[track_caller]
    fn check(looks: &[(i64, i64)], now: i64, expected: bool) {
        let mut observed = ObservedLease::default();
        for (second, renewed) in looks {
            observed.observe(lease("b", *renewed), at(*second));
        }
        assert_eq!(observed.is_taken("a", at(now)), expected);
    }

    #[test]
    fn a_lease_expires_its_duration_after_its_last_observed_change() {
        check(&[(0, 0)], 14, true);
        check(&[(0, 0)], 15, false);
        check(&[(0, 0), (10, 0)], 15, false);
        check(&[(0, 0), (10, 9)], 24, true);
    }

    #[test]
    fn the_times_written_in_a_lease_are_never_compared() {
        check(&[(0, -3600)], 14, true);
        check(&[(0, 3600)], 15, false);
    }

    #[test]
    fn a_free_lease_is_not_taken() {
        let mut observed = ObservedLease::default();
        observed.observe(lease("", 0), at(0));
        assert!(!observed.is_taken("a", at(0)));
    }

    /// Who holds it after `identity` claims the lease of `b`, since when and after how many changes.
    #[track_caller]
    fn check_claim(identity: &str, expected: (&str, i64, i32)) {
        let mut observed = ObservedLease::default();
        observed.observe(lease("b", 0), at(0));
        let spec = observed
            .with_holder(identity, Duration::from_secs(15), at(20))
            .spec
            .unwrap();
        let holder = spec.holder_identity.unwrap();
        let since = spec.acquire_time.unwrap().0.as_second() - at(0).as_second();
        assert_eq!(
            (holder.as_str(), since, spec.lease_transitions.unwrap()),
            expected
        );
        assert_eq!(spec.renew_time.unwrap().0, at(20));
    }

    #[test]
    fn a_new_holder_is_counted_and_a_renewal_keeps_the_term() {
        check_claim("b", ("b", 0, 0));
        check_claim("a", ("a", 20, 1));
    }

    #[test]
    fn a_released_lease_has_no_holder_and_lasts_a_second() {
        let mut observed = ObservedLease::default();
        observed.observe(lease("b", 0), at(0));
        let spec = observed.released(at(5)).spec.unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some(""));
        assert_eq!(spec.lease_duration_seconds, Some(1));
    }
}
