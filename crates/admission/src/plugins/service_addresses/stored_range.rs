//! The node ports that are allocated on a store that several servers share.
//!
//! kube-apiserver allocates a port in the bitmap before it writes the Service, and releases it after the Service is deleted.
//! Here both are one transaction, which fails if the bitmap has changed. So no server, of either kind, allocates a port that
//! another has allocated.
//!
//! A port that a Service has is not allocated, whether the bitmap has it or not. It is not added to the bitmap either:
//! kube-apiserver releases the port before it updates the Service.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use setpoint_api::{ResourceVersion, Status};
use setpoint_registry_api::{Review, SideWrite};

use super::{port_bitmap, services};

/// A port without a Service is released once it was found so this many times, at this interval. It may be one that
/// kube-apiserver has allocated to a Service that it is about to write (upstream: `numRepairsBeforeLeakCleanup`).
const LEAK_OBSERVATIONS: u32 = 3;
const LEAK_INTERVAL: SignedDuration = SignedDuration::from_mins(3);

/// The stored bitmap, and what is known of ports in it that no Service has.
#[derive(Debug)]
pub(super) struct StoredRange {
    range: (u16, u16),
    leaks: Mutex<BTreeMap<i64, Leak>>,
}

/// The allocated ports as of one version of the bitmap.
#[derive(Debug)]
pub(super) struct AllocatedPorts {
    /// Absent if there is no bitmap.
    version: Option<ResourceVersion>,
    /// Those of the bitmap; if there is none, those that Services have.
    ports: BTreeSet<i64>,
    /// Those that other Services have.
    others: BTreeSet<i64>,
}

/// How often a port was found without a Service, and when at last.
#[derive(Debug)]
struct Leak {
    observations: u32,
    last: Timestamp,
}

impl AllocatedPorts {
    /// The ports that cannot be allocated.
    pub(super) fn used(&self) -> BTreeSet<i64> {
        &self.ports | &self.others
    }
}

impl StoredRange {
    pub(super) fn new(range: (u16, u16)) -> Self {
        Self {
            range,
            leaks: Mutex::default(),
        }
    }

    /// Reads the bitmap, for a write of a Service that has the ports `before`. `others` are those of all other Services.
    pub(super) fn read(
        &self,
        review: &Review<'_>,
        before: &BTreeSet<i64>,
        others: BTreeSet<i64>,
    ) -> Result<AllocatedPorts, Status> {
        let stored = review.reader.find_range(&services())?;
        let version = stored.as_ref().map(|stored| stored.version);
        let owned = &others | before;
        let mut ports = match &stored {
            Some(stored) => port_bitmap::decode(&stored.allocation, self.range),
            None => owned.clone(),
        };
        self.release_leaks(&mut ports, &owned, review.facts.now);
        Ok(AllocatedPorts {
            version,
            ports,
            others,
        })
    }

    /// The write relies on the bitmap being unchanged.
    pub(super) fn compare(&self, review: &mut Review<'_>, allocated: &AllocatedPorts) {
        let read = allocated.version;
        review.side_writes.push(SideWrite::Range { read, new: None });
    }

    /// Writes the bitmap with the ports of a Service as they will be, instead of those that it had.
    pub(super) fn replace(
        &self,
        review: &mut Review<'_>,
        allocated: AllocatedPorts,
        (before, after): (&BTreeSet<i64>, &BTreeSet<i64>),
    ) {
        let AllocatedPorts {
            version: read,
            mut ports,
            others,
        } = allocated;
        if read.is_none() && after.is_empty() {
            return;
        }
        ports.retain(|port| !before.contains(port) || others.contains(port));
        ports.extend(after);
        let new = Some(port_bitmap::encode(&ports, self.range));
        review.side_writes.push(SideWrite::Range { read, new });
    }

    /// Releases the ports that no Service has had for a while.
    fn release_leaks(&self, ports: &mut BTreeSet<i64>, owned: &BTreeSet<i64>, now: Timestamp) {
        let mut leaks = self.leaks.lock();
        leaks.retain(|port, _| ports.contains(port) && !owned.contains(port));
        for port in ports.difference(owned) {
            let new = Leak {
                observations: 1,
                last: now,
            };
            let leak = leaks.entry(*port).or_insert(new);
            if now.duration_since(leak.last) >= LEAK_INTERVAL {
                *leak = Leak {
                    observations: leak.observations + 1,
                    last: now,
                };
            }
        }
        let is_leaked = |port: &i64| {
            leaks
                .get(port)
                .is_some_and(|leak| leak.observations > LEAK_OBSERVATIONS)
        };
        ports.retain(|port| !is_leaked(port));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ports that are left at this minute.
    fn left(range: &StoredRange, minute: i64, (ports, owned): (&[i64], &[i64])) -> Vec<i64> {
        let (mut ports, owned) = (ports.iter().copied().collect(), owned.iter().copied().collect());
        let now = Timestamp::from_second(60 * minute).unwrap();
        range.release_leaks(&mut ports, &owned, now);
        ports.into_iter().collect()
    }

    #[test]
    fn a_port_that_no_service_has_is_released_after_a_while() {
        let range = StoredRange::new((1, 9));
        for minute in [0, 3, 5, 6] {
            assert_eq!(left(&range, minute, (&[1, 2], &[2])), [1, 2]);
        }
        assert_eq!(left(&range, 9, (&[1, 2], &[2])), [2]);
        // It is free until it is allocated again, which is another start.
        assert_eq!(left(&range, 9, (&[2], &[2])), [2]);
        assert_eq!(left(&range, 99, (&[1, 2], &[2])), [1, 2]);
    }

    #[test]
    fn a_port_that_a_service_has_is_not_released() {
        let range = StoredRange::new((1, 9));
        assert_eq!(left(&range, 0, (&[1], &[])), [1]);
        assert_eq!(left(&range, 4, (&[1], &[1])), [1]);
        for minute in [8, 12, 16] {
            assert_eq!(left(&range, minute, (&[1], &[])), [1]);
        }
    }
}
