//! [`LeasedKeys`]: keys by which servers announce themselves to each other. Each has a lease, so that it is deleted soon
//! after its server has ended.

use std::time::Duration;

use bytes::Bytes;
use setpoint_store::Error;

use crate::{
    client::Client,
    config::EtcdConfig,
    failure,
    follow::prefix_end,
    proto::{
        DeleteRangeRequest, EmptyResponse, LeaseGrantRequest, LeaseGrantResponse, PutRequest, RangeRequest,
        RangeResponse,
    },
};

/// The keys under one prefix, which are not in a store. Every method may be called again after an error.
#[derive(Debug)]
pub struct LeasedKeys {
    client: Client,
    prefix: Bytes,
    ttl: Duration,
}

impl LeasedKeys {
    /// The keys under `prefix`, each of which is deleted `ttl` after it was last put.
    pub fn new(config: &EtcdConfig, prefix: Bytes, ttl: Duration) -> Self {
        Self {
            client: Client::new(config),
            prefix,
            ttl,
        }
    }

    /// Writes a key with a new lease. The old lease expires without keys.
    pub async fn put(&self, key: Bytes, value: Bytes) -> Result<(), Error> {
        let request = LeaseGrantRequest {
            ttl: i64::try_from(self.ttl.as_secs().max(1)).unwrap_or(i64::MAX),
        };
        let granted: LeaseGrantResponse = self.write("etcdserverpb.Lease/LeaseGrant", &request).await?;
        let request = PutRequest {
            key,
            value,
            lease: granted.id,
            ..PutRequest::default()
        };
        self.write::<_, EmptyResponse>("etcdserverpb.KV/Put", &request)
            .await?;
        Ok(())
    }

    /// The keys that have not expired, in their order.
    pub async fn list(&self) -> Result<Vec<Bytes>, Error> {
        let request = RangeRequest {
            key: self.prefix.clone(),
            range_end: prefix_end(&self.prefix),
            keys_only: true,
            ..RangeRequest::default()
        };
        let response = self
            .client
            .read::<_, RangeResponse>("etcdserverpb.KV/Range", &request, self.client.timeout)
            .await
            .map_err(|status| failure::of_read(&status))?;
        Ok(response.kvs.into_iter().map(|kv| kv.key).collect())
    }

    /// Deletes a key.
    pub async fn delete(&self, key: Bytes) -> Result<(), Error> {
        let request = DeleteRangeRequest { key };
        self.write::<_, EmptyResponse>("etcdserverpb.KV/DeleteRange", &request)
            .await?;
        Ok(())
    }

    async fn write<Q: prost::Message, A: prost::Message + Default>(
        &self,
        method: &str,
        request: &Q,
    ) -> Result<A, Error> {
        let written = self.client.write(method, request).await;
        written.map_err(|status| failure::of_write(&status))
    }
}
