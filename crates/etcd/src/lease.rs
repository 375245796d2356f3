//! Leases of expiring keys. A lease is expensive for etcd, so keys that expire at about the same time share one
//! (upstream: `lease_manager.go`).

use std::{sync::Arc, time::Duration};

use setpoint_grpc::{Code, Status};
use setpoint_store::{Millis, Replica};
use tokio::sync::Mutex;

use crate::{
    client::Client,
    proto::{LeaseGrantRequest, LeaseGrantResponse},
};

/// Grants leases and reuses the last one.
#[derive(Debug)]
pub(crate) struct Leases {
    /// Has the clock.
    replica: Arc<Replica>,
    /// Held while a lease is granted, so that concurrent puts share it.
    last: Mutex<Option<Lease>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lease {
    id: i64,
    expires: Millis,
    keys: u32,
}

/// A lease is reused for this part of its keys' lifetime, at most for the duration.
const REUSE_DIVISOR: u64 = 20;
const MAX_REUSE_MILLIS: u64 = 60_000;

/// Keys of one lease. etcd deletes them in one transaction.
const MAX_KEYS: u32 = 1000;

impl Leases {
    pub(crate) fn new(replica: Arc<Replica>) -> Leases {
        Leases {
            replica,
            last: Mutex::new(None),
        }
    }

    /// A lease that ends after `ttl`, and not much later. Takes no longer than one request, however many callers wait for a
    /// lease: otherwise each would wait for the timeouts of those before it.
    pub(crate) async fn lease(&self, client: &Client, ttl: Duration) -> Result<i64, Status> {
        let leased = tokio::time::timeout(client.timeout, self.reuse_or_grant(client, ttl)).await;
        leased.unwrap_or_else(|_| Err(Status::new(Code::DEADLINE_EXCEEDED, "context deadline exceeded")))
    }

    async fn reuse_or_grant(&self, client: &Client, ttl: Duration) -> Result<i64, Status> {
        let mut last = self.last.lock().await;
        let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let now = self.replica.now();
        if let Some(lease) = last.as_mut()
            && lease.fits(now, ttl)
        {
            lease.keys += 1;
            return Ok(lease.id);
        }
        let seconds = ttl.saturating_add(reuse(ttl)).div_ceil(1000).max(1);
        let request = LeaseGrantRequest {
            ttl: i64::try_from(seconds).unwrap_or(i64::MAX),
        };
        let granted: LeaseGrantResponse = client.write("etcdserverpb.Lease/LeaseGrant", &request).await?;
        *last = Some(Lease {
            id: granted.id,
            expires: now.saturating_add(seconds.saturating_mul(1000)),
            keys: 1,
        });
        Ok(granted.id)
    }

    /// Does not reuse the last lease, since etcd no longer has it.
    pub(crate) async fn forget(&self) {
        *self.last.lock().await = None;
    }
}

impl Lease {
    /// Whether a key that expires `ttl` from now can share the lease.
    fn fits(&self, now: Millis, ttl: u64) -> bool {
        let expires = now.saturating_add(ttl);
        let late_enough = expires < self.expires;
        let early_enough = expires.saturating_add(reuse(ttl)) > self.expires;
        late_enough && early_enough && self.keys < MAX_KEYS
    }
}

fn reuse(ttl: u64) -> u64 {
    (ttl / REUSE_DIVISOR).min(MAX_REUSE_MILLIS)
}

#[cfg(test)]
mod tests {
    use setpoint_store::conformance::ManualClock;
    use setpoint_store::{Error, RemoteFuture, RemoteLog, RemoteOutcome, RemoteTxn, Revision, Store};

    use super::*;
    use crate::config::{EtcdConfig, TlsFiles};

    const HOUR: u64 = 3_600_000;

    #[track_caller]
    fn check(now: Millis, ttl: u64, keys: u32, expected: bool) {
        let lease = Lease {
            id: 1,
            expires: HOUR + 60_000,
            keys,
        };
        assert_eq!(lease.fits(now, ttl), expected);
    }

    /// EV2
    #[test]
    fn a_lease_is_shared_by_keys_that_expire_within_a_minute() {
        check(0, HOUR - 1, 1, false);
        check(1, HOUR, 1, true);
        check(59_999, HOUR, 1, true);
        check(60_000, HOUR, 1, false);
        check(1, HOUR, MAX_KEYS, false);
        check(0, HOUR / 2, 1, false);
    }

    /// A remote log without a cluster.
    #[derive(Debug)]
    struct NoCluster;

    impl RemoteLog for NoCluster {
        fn propose(&self, _: RemoteTxn) -> RemoteFuture<'_, RemoteOutcome> {
            Box::pin(async { Err(Error::Closed) })
        }

        fn confirmed_revision(&self) -> RemoteFuture<'_, Revision> {
            Box::pin(async { Err(Error::Closed) })
        }

        fn check_health(&self) -> Result<(), Error> {
            Ok(())
        }

        fn close(&self) -> RemoteFuture<'_, ()> {
            Box::pin(async { Ok(()) })
        }
    }

    fn replica() -> Arc<Replica> {
        let mut replica = None;
        let started = Store::replicated(ManualClock::default().config(), |created| {
            replica = Some(created);
            Ok(Arc::new(NoCluster))
        });
        started.unwrap();
        replica.unwrap()
    }

    #[test]
    fn a_caller_does_not_wait_for_the_timeouts_of_the_callers_before_it() {
        let servers = ["http://127.0.0.1:1".to_owned()];
        let mut config = EtcdConfig::new(&servers, &TlsFiles::default()).unwrap();
        config.request_timeout = Duration::from_millis(1);
        let (leases, client) = (Leases::new(replica()), Client::new(&config));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let _granting = leases.last.lock().await;
            let waited = leases.lease(&client, Duration::from_secs(60));
            assert_eq!(waited.await.unwrap_err().code, Code::DEADLINE_EXCEEDED);
        });
    }
}
