//! Transactions: from the store's form to etcd's and back.

use bytes::Bytes;
use setpoint_grpc::{Code, Status};
use setpoint_store::{
    Error, RemoteCompare, RemoteCondition, RemoteEntry, RemoteFailure, RemoteOp, RemoteOutcome, RemoteTxn,
    Replica, Revision,
};

use crate::{
    client::Client,
    confirm, failure,
    follow::prefix_end,
    lease::Leases,
    proto::{
        Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse,
        compare,
    },
};

/// Executes a transaction once. Its outcome is not known if etcd's revisions went back: the replica does not show it.
pub(crate) async fn propose(
    client: &Client,
    (leases, replica): (&Leases, &Replica),
    txn: RemoteTxn,
) -> Result<RemoteOutcome, Error> {
    let known = replica.revision();
    let mut sent = send(client, leases, &txn).await;
    if let Err(status) = &sent
        && is_lease_gone(status)
    {
        leases.forget().await;
        sent = send(client, leases, &txn).await;
    }
    let response = sent.map_err(|status| failure::of_write(&status))?;
    let revision = revision(response.header.map_or(0, |header| header.revision));
    confirm::check_order(known, revision, RemoteFailure::Unknown)?;
    if response.succeeded {
        return Ok(RemoteOutcome::Committed { revision });
    }
    let mut current = response.responses.into_iter().map(|response| {
        let range = response.range.unwrap_or_default();
        range.kvs.into_iter().next().map(entry)
    });
    let failed = txn.compares.iter().enumerate().find_map(|(index, compare)| {
        let current = current.next().flatten();
        let modified = current.as_ref().map(|entry| entry.modified);
        (!compare.condition.holds(modified)).then_some((index, current))
    });
    let (index, current) = failed.ok_or_else(|| Error::Remote {
        failure: RemoteFailure::Unavailable,
        message: "etcd rejected a transaction whose compares hold".to_owned(),
    })?;
    Ok(RemoteOutcome::Rejected {
        index,
        current,
        revision,
    })
}

/// A key and value of etcd.
pub(crate) fn entry(kv: KeyValue) -> RemoteEntry {
    RemoteEntry {
        key: kv.key,
        value: kv.value,
        created: revision(kv.create_revision),
        modified: revision(kv.mod_revision),
        version: u64::try_from(kv.version).unwrap_or_default(),
    }
}

/// The store's revision of etcd's number, which is never negative.
pub(crate) fn revision(number: i64) -> Revision {
    Revision::new(u64::try_from(number).unwrap_or_default())
}

/// etcd's number of a revision.
pub(crate) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.get()).unwrap_or(i64::MAX)
}

async fn send(client: &Client, leases: &Leases, txn: &RemoteTxn) -> Result<TxnResponse, Status> {
    let mut success = Vec::with_capacity(txn.ops.len());
    for op in &txn.ops {
        success.push(encode_op(client, leases, op).await?);
    }
    let request = TxnRequest {
        compare: txn.compares.iter().map(encode_compare).collect(),
        success,
        failure: txn.compares.iter().map(read_compared).collect(),
    };
    client.write("etcdserverpb.KV/Txn", &request).await
}

async fn encode_op(client: &Client, leases: &Leases, op: &RemoteOp) -> Result<RequestOp, Status> {
    Ok(match op {
        RemoteOp::Put { key, value, ttl } => {
            let lease = match ttl {
                // Without a lease nothing is sent.
                Some(ttl) => leases.lease(client, *ttl).await.map_err(Status::into_unsent)?,
                None => 0,
            };
            let put = PutRequest {
                key: key.clone(),
                value: value.clone(),
                lease,
                ..PutRequest::default()
            };
            RequestOp {
                put: Some(put),
                ..RequestOp::default()
            }
        }
        RemoteOp::Touch { key } => {
            let put = PutRequest {
                key: key.clone(),
                ignore_value: true,
                ignore_lease: true,
                ..PutRequest::default()
            };
            RequestOp {
                put: Some(put),
                ..RequestOp::default()
            }
        }
        RemoteOp::Delete { key } => RequestOp {
            delete_range: Some(DeleteRangeRequest { key: key.clone() }),
            ..RequestOp::default()
        },
    })
}

fn encode_compare(compare: &RemoteCompare) -> Compare {
    let key = compare.key.clone();
    match compare.condition {
        // No revision wrote it; to etcd zero would mean that the key is absent.
        RemoteCondition::Modified(Revision::ZERO) => created(key, compare::LESS),
        RemoteCondition::Modified(revision) => Compare {
            result: compare::EQUAL,
            target: compare::MOD,
            key,
            mod_revision: Some(number(revision)),
            ..Compare::default()
        },
        RemoteCondition::Absent => created(key, compare::EQUAL),
        RemoteCondition::Present => created(key, compare::GREATER),
        // Without keys etcd compares with zero.
        RemoteCondition::Unchanged(since) => Compare {
            result: compare::LESS,
            target: compare::MOD,
            range_end: prefix_end(&key),
            key,
            mod_revision: Some(number(since) + 1),
            ..Compare::default()
        },
    }
}

/// Compares the creation of a key with zero.
fn created(key: Bytes, result: i32) -> Compare {
    Compare {
        result,
        target: compare::CREATE,
        key,
        create_revision: Some(0),
        ..Compare::default()
    }
}

/// Reads what a compare looked at, if it does not hold.
fn read_compared(compare: &RemoteCompare) -> RequestOp {
    let key = compare.key.clone();
    let range = match compare.condition {
        RemoteCondition::Unchanged(since) => RangeRequest {
            range_end: prefix_end(&key),
            key,
            limit: 1,
            min_mod_revision: number(since) + 1,
            ..RangeRequest::default()
        },
        _ => RangeRequest {
            key,
            ..RangeRequest::default()
        },
    };
    RequestOp {
        range: Some(range),
        ..RequestOp::default()
    }
}

fn is_lease_gone(status: &Status) -> bool {
    status.code == Code::NOT_FOUND && status.message.contains("lease not found")
}
