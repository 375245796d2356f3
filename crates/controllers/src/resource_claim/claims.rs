//! Sync of one ResourceClaim: removes consumers that are done, and deletes claims that are not needed.

use std::sync::Arc;

use k8s_openapi::api::core::v1;
use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::Value;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Key, Stored};
use setpoint_runtime::{Client, Error, Object, TypedObject};

use crate::resource_claim::Claims;
use crate::resource_claim::plan::{Claim, Consumer, FINALIZER, is_done};

impl Claims {
    pub(super) async fn sync_claim(&self, client: &Client, key: &Key) -> Result<(), Error> {
        let Some(object) = self.claims.find(key) else {
            return Ok(());
        };
        let claim: Claim = object.decode()?;
        let mut done_uids = Vec::new();
        for consumer in &claim.status.reserved_for {
            if self.is_gone(client, key, consumer).await? {
                done_uids.push(consumer.uid.as_str());
            }
        }
        let is_unused = done_uids.len() == claim.status.reserved_for.len();
        if !done_uids.is_empty() {
            release(client, &object, &claim, &done_uids).await?;
        } else if is_unused && claim.is_protected() && object.header().deleting {
            remove_finalizer_if_unused(client, &object, &claim).await?;
        }
        if is_unused && self.is_unneeded(&object) {
            delete(client, &object).await?;
        }
        Ok(())
    }

    /// Whether the pod that is a consumer will not use the claim any more. Consumers of other kinds are left alone.
    async fn is_gone(&self, client: &Client, key: &Key, consumer: &Consumer) -> Result<bool, Error> {
        if !consumer.is_pod() {
            return Ok(false);
        }
        if let Some(pod) = self.pods.find(&Key::new(key.namespace(), &consumer.name)) {
            return Ok(pod.uid() != consumer.uid || is_done(pod.stored()));
        }
        // It may be too new for the cache.
        let handle = client.dynamic(v1::Pod::resource(), key.namespace());
        match handle.get(&consumer.name).await {
            Err(status) if status.is_not_found() => Ok(true),
            found => Ok(found?.uid() != consumer.uid),
        }
    }

    /// Whether it was generated for a pod that will not use it. If the pod is deleted, the garbage collector deletes
    /// the claim.
    fn is_unneeded(&self, object: &Stored) -> bool {
        let owner = object
            .controller()
            .filter(|owner| owner.kind == "Pod" && owner.api_version == "v1");
        owner.is_some_and(|owner| {
            let pod = self.pods.find(&Key::new(object.key().namespace(), &owner.name));
            pod.is_some_and(|pod| pod.uid() != owner.uid || is_done(pod.stored()))
        })
    }
}

/// Removes consumers; with the last one the allocation is removed, too.
async fn release(client: &Client, object: &Stored, claim: &Claim, done_uids: &[&str]) -> Result<(), Error> {
    let mut body: Value = object.decode()?;
    let status = &mut body["status"];
    if let Some(consumers) = status["reservedFor"].as_array_mut() {
        consumers.retain(|consumer| !done_uids.iter().any(|uid| consumer["uid"] == **uid));
    }
    let is_unused = done_uids.len() == claim.status.reserved_for.len();
    if is_unused && claim.is_protected() {
        drop_field(status, "allocation");
    }
    let released = write_status(client, object, &body).await?;
    match is_unused && claim.is_protected() {
        true => unprotect(client, &released).await,
        false => Ok(()),
    }
}

/// Removes the finalizer of a terminating claim without consumers.
async fn remove_finalizer_if_unused(
    client: &Client,
    object: &TypedObject<ResourceClaim>,
    claim: &Claim,
) -> Result<(), Error> {
    if !claim.is_allocated() {
        return unprotect(client, object).await;
    }
    let mut body: Value = object.decode()?;
    drop_field(&mut body["status"], "allocation");
    let freed = write_status(client, object, &body).await?;
    unprotect(client, &freed).await
}

async fn write_status(client: &Client, object: &Stored, body: &Value) -> Result<Arc<Stored>, Error> {
    let handle = client.dynamic(ResourceClaim::resource(), object.key().namespace());
    let written = handle.update_subresource(object.key().name(), "status", body.to_string());
    Ok(written.await?)
}

async fn unprotect(client: &Client, object: &Stored) -> Result<(), Error> {
    let mut body: Value = object.decode()?;
    if let Some(finalizers) = body["metadata"]["finalizers"].as_array_mut() {
        finalizers.retain(|own| own != FINALIZER);
    }
    let handle = client.dynamic(ResourceClaim::resource(), object.key().namespace());
    match handle.update(object.key().name(), body.to_string()).await {
        Err(status) if status.is_not_found() => Ok(()),
        written => Ok(written.map(drop)?),
    }
}

async fn delete(client: &Client, object: &Stored) -> Result<(), Error> {
    if object.header().deleting {
        return Ok(());
    }
    let options = DeleteOptions::with_uid(object.uid());
    let handle = client.dynamic(ResourceClaim::resource(), object.key().namespace());
    match handle.delete(object.key().name(), options).await {
        Err(status) if status.is_not_found() => Ok(()),
        deleted => Ok(deleted.map(drop)?),
    }
}

fn drop_field(body: &mut Value, name: &str) {
    if let Some(fields) = body.as_object_mut() {
        fields.remove(name);
    }
}
