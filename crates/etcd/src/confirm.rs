//! Confirmed revisions: one linearizable read of etcd serves all callers that were waiting when it was sent.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_store::{Error, RemoteFailure, Replica, Revision};
use tokio::sync::{mpsc, oneshot};

use crate::{
    client::Client,
    failure,
    health::Health,
    proto::{RangeRequest, RangeResponse},
    txn,
};

/// Receives the confirmed revision.
pub(crate) type Confirmation = oneshot::Sender<Result<Revision, Error>>;

/// Callers that may wait for the next read.
pub(crate) const QUEUE: usize = 4096;

/// Serves callers until their queue closes.
pub(crate) async fn run(
    client: Arc<Client>,
    (replica, health): (Arc<Replica>, Arc<Health>),
    key: Bytes,
    mut callers: mpsc::Receiver<Confirmation>,
) {
    let mut waiting = Vec::new();
    while callers.recv_many(&mut waiting, QUEUE).await > 0 {
        let known = replica.revision();
        let confirmed = read_revision(&client, &key).await;
        let confirmed =
            confirmed.and_then(|revision| check_order(known, revision, RemoteFailure::Unavailable));
        if let Err(error) = &confirmed {
            health.fail(error);
        }
        for caller in waiting.drain(..) {
            caller.send(confirmed.clone()).ok();
        }
    }
}

/// A linearizable response is never older than a revision that the replica had before the request, unless etcd was restored
/// from an older backup. The replica then has revisions that etcd assigns again, and must not be served.
pub(crate) fn check_order(
    known: Revision,
    confirmed: Revision,
    failure: RemoteFailure,
) -> Result<Revision, Error> {
    match confirmed < known {
        true => Err(Error::Remote {
            failure,
            message: format!(
                "etcd is at revision {confirmed}, but revision {known} was read before: if it was restored from a backup, \
                 restart this server"
            ),
        }),
        false => Ok(confirmed),
    }
}

/// The revision of a linearizable read of one key.
pub(crate) async fn read_revision(client: &Client, key: &Bytes) -> Result<Revision, Error> {
    let request = RangeRequest {
        key: key.clone(),
        limit: 1,
        keys_only: true,
        ..RangeRequest::default()
    };
    let response = client
        .read::<_, RangeResponse>("etcdserverpb.KV/Range", &request, client.timeout)
        .await
        .map_err(|status| failure::of_read(&status))?;
    Ok(txn::revision(response.header.map_or(0, |header| header.revision)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etcd_that_went_back_in_time_is_an_error() {
        let (old, new) = (Revision::new(5), Revision::new(6));
        let check = |known, confirmed| check_order(known, confirmed, RemoteFailure::Unavailable);
        assert_eq!(check(old, new).unwrap(), new);
        assert_eq!(check(old, old).unwrap(), old);
        let error = check(new, old).unwrap_err().to_string();
        assert!(
            error.starts_with("etcd is at revision 5, but revision 6 was read before"),
            "{error}"
        );
    }
}
