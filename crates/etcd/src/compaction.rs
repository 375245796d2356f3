//! Compaction of etcd's history by one of the servers, kube-apiservers included: each tries to increase the version of one
//! key, and who succeeds compacts to the revision that it saw one interval ago (upstream: `compact.go`).

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use setpoint_grpc::Status;

use crate::{
    client::Client,
    proto::{
        CompactionRequest, Compare, EmptyResponse, PutRequest, RangeRequest, RequestOp, TxnRequest,
        TxnResponse, compare,
    },
};

/// The key that all servers of a cluster share.
pub(crate) const COMPACT_REV_KEY: &[u8] = b"compact_rev_key";

/// What a server remembers from one interval to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The version of the key.
    version: i64,
    /// The revision that can be compacted to.
    revision: i64,
}

/// Takes part in the compaction for ever. With an interval of zero, it never does.
pub(crate) async fn run(client: Arc<Client>, interval: Duration) {
    if interval.is_zero() {
        return std::future::pending().await;
    }
    let mut turn = Turn::default();
    loop {
        tokio::time::sleep(interval).await;
        match take_turn(&client, turn).await {
            Ok(next) => turn = next,
            Err(status) => tracing::warn!(error = status.text(), "etcd was not compacted"),
        }
    }
}

/// Compacts, if no other server has since the last turn.
async fn take_turn(client: &Client, turn: Turn) -> Result<Turn, Status> {
    let response: TxnResponse = client.write("etcdserverpb.KV/Txn", &claim(turn)).await?;
    let revision = response.header.map_or(0, |header| header.revision);
    if !response.succeeded {
        let current = response.responses.into_iter().next().and_then(|one| one.range);
        let version = current.and_then(|range| range.kvs.first().map(|kv| kv.version));
        return Ok(Turn {
            version: version.unwrap_or_default(),
            revision,
        });
    }
    if turn.revision > 0 {
        let request = CompactionRequest {
            revision: turn.revision,
        };
        client
            .write::<_, EmptyResponse>("etcdserverpb.KV/Compact", &request)
            .await?;
        tracing::debug!(revision = turn.revision, "etcd is compacted");
    }
    Ok(Turn {
        version: turn.version + 1,
        revision,
    })
}

fn claim(turn: Turn) -> TxnRequest {
    let key = Bytes::from_static(COMPACT_REV_KEY);
    TxnRequest {
        compare: vec![Compare {
            result: compare::EQUAL,
            target: compare::VERSION,
            key: key.clone(),
            version: Some(turn.version),
            ..Compare::default()
        }],
        success: vec![RequestOp {
            put: Some(PutRequest {
                key: key.clone(),
                value: turn.revision.to_string().into(),
                lease: 0,
                ..PutRequest::default()
            }),
            ..RequestOp::default()
        }],
        failure: vec![RequestOp {
            range: Some(RangeRequest {
                key,
                ..RangeRequest::default()
            }),
            ..RequestOp::default()
        }],
    }
}
