//! Health of the cluster, as `/readyz/etcd` shows it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_store::{Error, RemoteFailure, Replica};

use crate::{
    client::Client,
    confirm, failure,
    proto::{AlarmRequest, AlarmResponse},
};

/// Why the cluster does not accept writes, if it does not.
#[derive(Debug, Default)]
pub(crate) struct Health {
    failure: Mutex<Option<Error>>,
}

/// How often the cluster is probed.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// How long a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Numbers of alarms.
const NO_SPACE: i32 = 1;
const CORRUPT: i32 = 2;

impl Health {
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    /// Records a failure until a probe succeeds.
    pub(crate) fn fail(&self, error: &Error) {
        let mut failure = self.failure.lock();
        if failure.is_none() {
            tracing::error!(%error, "etcd does not serve");
        }
        *failure = Some(error.clone());
    }

    /// Records that etcd has served a request.
    pub(crate) fn recover(&self) {
        if self.failure.lock().take().is_some() {
            tracing::warn!("etcd serves again");
        }
    }
}

/// Probes the cluster for ever: a linearizable read, which needs a quorum and must not be older than the replica, and the
/// alarms.
pub(crate) async fn run(client: Arc<Client>, (replica, health): (Arc<Replica>, Arc<Health>), key: Bytes) {
    loop {
        let probed = tokio::time::timeout(PROBE_TIMEOUT, probe(&client, &replica, &key)).await;
        match probed.unwrap_or_else(|_| Err(unavailable("context deadline exceeded"))) {
            Ok(()) => health.recover(),
            Err(error) => health.fail(&error),
        }
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
}

async fn probe(client: &Client, replica: &Replica, key: &Bytes) -> Result<(), Error> {
    let known = replica.revision();
    let revision = confirm::read_revision(client, key).await?;
    confirm::check_order(known, revision, RemoteFailure::Unavailable)?;
    let response = client
        .read::<_, AlarmResponse>(
            "etcdserverpb.Maintenance/Alarm",
            &AlarmRequest::default(),
            PROBE_TIMEOUT,
        )
        .await;
    match response {
        Ok(response) => check_alarms(&response),
        // A user without the root role may not list alarms. The read has shown that there is a quorum.
        Err(status)
            if !matches!(
                failure::of_write(&status),
                Error::Remote {
                    failure: RemoteFailure::Rejected,
                    ..
                }
            ) =>
        {
            Err(failure::of_read(&status))
        }
        Err(_) => Ok(()),
    }
}

fn check_alarms(response: &AlarmResponse) -> Result<(), Error> {
    let is_raised = |number| response.alarms.iter().any(|alarm| alarm.alarm == number);
    if is_raised(NO_SPACE) {
        return Err(Error::Remote {
            failure: RemoteFailure::NoSpace,
            message: "etcdserver: mvcc: database space exceeded".to_owned(),
        });
    }
    match is_raised(CORRUPT) {
        true => Err(unavailable("etcdserver: corrupt cluster")),
        false => Ok(()),
    }
}

fn unavailable(message: &str) -> Error {
    Error::Remote {
        failure: RemoteFailure::Unavailable,
        message: message.to_owned(),
    }
}
