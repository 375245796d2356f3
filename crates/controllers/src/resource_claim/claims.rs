//! One claim: who still uses it, and whether it is still needed.

use std::sync::Arc;

use k8s_openapi::api::core::v1;
use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::Value;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Key, Stored};
use setpoint_runtime::{Error, Object, Typed};

use crate::resource_claim::Claims;
use crate::resource_claim::plan::{Claim, Consumer, FINALIZER, is_done};

impl Claims {
    pub(super) async fn sync_claim(&self, key: &Key) -> Result<(), Error> {
        let Some(object) = self.claims.find(key) else {
            return Ok(());
        };
        let claim: Claim = object.decode()?;
        let mut gone = Vec::new();
        for consumer in &claim.status.reserved_for {
            if self.is_gone(key, consumer).await? {
                gone.push(consumer.uid.as_str());
            }
        }
        let is_unused = gone.len() == claim.status.reserved_for.len();
        if !gone.is_empty() {
            self.release(&object, &claim, &gone).await?;
        } else if is_unused && claim.is_protected() && object.header().deleting {
            self.let_go(&object, &claim).await?;
        }
        if is_unused && self.is_left_over(&object) {
            self.delete(&object).await?;
        }
        Ok(())
    }

    /// Whether a pod that used the claim will not any more. Consumers of other kinds are left alone.
    async fn is_gone(&self, key: &Key, consumer: &Consumer) -> Result<bool, Error> {
        if !consumer.is_pod() {
            return Ok(false);
        }
        if let Some(pod) = self.pods.find(&Key::new(key.namespace(), &consumer.name)) {
            return Ok(pod.uid() != consumer.uid || is_done(&pod));
        }
        // It may be too new to be known here.
        let handle = self.client.dynamic(v1::Pod::resource(), key.namespace());
        match handle.get(&consumer.name).await {
            Err(status) if status.is_not_found() => Ok(true),
            found => Ok(found?.uid() != consumer.uid),
        }
    }

    /// Takes away consumers; with the last one goes what was allocated.
    async fn release(&self, object: &Stored, claim: &Claim, gone: &[&str]) -> Result<(), Error> {
        let mut document: Value = object.decode()?;
        let status = &mut document["status"];
        if let Some(consumers) = status["reservedFor"].as_array_mut() {
            consumers.retain(|consumer| !gone.iter().any(|uid| consumer["uid"] == **uid));
        }
        let is_unused = gone.len() == claim.status.reserved_for.len();
        if is_unused && claim.is_protected() {
            drop_field(status, "allocation");
        }
        let released = self.write_status(object, &document).await?;
        match is_unused && claim.is_protected() {
            true => self.unprotect(&released).await,
            false => Ok(()),
        }
    }

    /// Lets a claim go that is on its way out and not used.
    async fn let_go(&self, object: &Typed<ResourceClaim>, claim: &Claim) -> Result<(), Error> {
        if !claim.is_allocated() {
            return self.unprotect(object).await;
        }
        let mut document: Value = object.decode()?;
        drop_field(&mut document["status"], "allocation");
        let freed = self.write_status(object, &document).await?;
        self.unprotect(&freed).await
    }

    async fn write_status(&self, object: &Stored, document: &Value) -> Result<Arc<Stored>, Error> {
        let handle = self
            .client
            .dynamic(ResourceClaim::resource(), object.key().namespace());
        let written = handle.update_sub(object.key().name(), "status", document.to_string());
        Ok(written.await?)
    }

    async fn unprotect(&self, object: &Stored) -> Result<(), Error> {
        let mut document: Value = object.decode()?;
        if let Some(finalizers) = document["metadata"]["finalizers"].as_array_mut() {
            finalizers.retain(|own| own != FINALIZER);
        }
        let handle = self
            .client
            .dynamic(ResourceClaim::resource(), object.key().namespace());
        match handle.update(object.key().name(), document.to_string()).await {
            Err(status) if status.is_not_found() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }

    /// Whether it was made for a pod that will not use it. If the pod is gone, the garbage collector sees to it.
    fn is_left_over(&self, object: &Stored) -> bool {
        let owner = object
            .controller()
            .filter(|owner| owner.kind == "Pod" && owner.api_version == "v1");
        owner.is_some_and(|owner| {
            let pod = self.pods.find(&Key::new(object.key().namespace(), &owner.name));
            pod.is_some_and(|pod| pod.uid() != owner.uid || is_done(&pod))
        })
    }

    async fn delete(&self, object: &Stored) -> Result<(), Error> {
        if object.header().deleting {
            return Ok(());
        }
        let options = DeleteOptions::of_uid(object.uid());
        let handle = self
            .client
            .dynamic(ResourceClaim::resource(), object.key().namespace());
        match handle.delete(object.key().name(), options).await {
            Err(status) if status.is_not_found() => Ok(()),
            deleted => Ok(deleted.map(drop)?),
        }
    }
}

fn drop_field(document: &mut Value, name: &str) {
    if let Some(fields) = document.as_object_mut() {
        fields.remove(name);
    }
}
