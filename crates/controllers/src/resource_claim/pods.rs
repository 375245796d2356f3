//! One pod: the claims that it wants made, and those that it uses.

use k8s_openapi::api::core::v1;
use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::{Value, json};
use setpoint_api::{Key, Stored};
use setpoint_runtime::{Error, Object, Patch, Typed};

use crate::resource_claim::Claims;
use crate::resource_claim::plan::{Claim, POD_CLAIM, Pod, PodClaim, Wanted, name_base};

impl Claims {
    pub(super) async fn sync_pod(&self, key: &Key) -> Result<(), Error> {
        let Some(object) = self.pods.find(key).filter(|object| !object.header().deleting) else {
            return Ok(());
        };
        let Some(pod) = Pod::read(&object) else {
            return Ok(());
        };
        let mut made = Vec::new();
        for claim in &pod.spec.resource_claims {
            match self.make(&object, &pod, claim).await {
                Ok(None) => {}
                Ok(Some(name)) => made.push(json!({"name": claim.name, "resourceClaimName": name})),
                Err(error) => {
                    let message = format!("PodResourceClaim {}: {error}", claim.name);
                    self.events
                        .warning(&object, "FailedResourceClaimCreation", message);
                    return Err(error);
                }
            }
        }
        if !made.is_empty() {
            self.note_made(&object, &made).await?;
        }
        // Before a node is chosen the scheduler reserves; it does so together with the choice.
        if pod.spec.node_name.is_empty() {
            return Ok(());
        }
        for name in pod.claims() {
            self.reserve(&object, &Key::new(key.namespace(), name)).await?;
        }
        Ok(())
    }

    /// Makes a claim that a pod wants, if it is not there; its name, if the pod does not know it yet.
    async fn make(
        &self,
        object: &Typed<v1::Pod>,
        pod: &Pod,
        claim: &PodClaim,
    ) -> Result<Option<String>, Error> {
        let template = match pod.wants(claim) {
            Wanted::Named(_) | Wanted::Nothing => return Ok(None),
            Wanted::ToMake(template) => template,
            Wanted::Made(name) => {
                if self.is_own(object, name).await? {
                    return Ok(None);
                }
                claim.resource_claim_template_name.as_deref().unwrap_or_default()
            }
        };
        // One that was made before its name could be noted.
        let own = self.claims.owned_by(object.uid());
        let is_it = |own: &&Typed<ResourceClaim>| {
            let view: Result<Claim, _> = own.decode();
            view.is_ok_and(|view| view.is_made_for(&claim.name))
        };
        match own.iter().find(is_it) {
            Some(own) => Ok(Some(own.key().name().to_owned())),
            None => self.create(object, claim, template).await.map(Some),
        }
    }

    /// Whether there is a claim of that name that the pod controls.
    async fn is_own(&self, object: &Stored, name: &str) -> Result<bool, Error> {
        let namespace = object.key().namespace();
        let is_own = |claim: &Stored| claim.controller().is_some_and(|owner| owner.uid == object.uid());
        if let Some(claim) = self.claims.find(&Key::new(namespace, name)) {
            return Ok(is_own(&claim));
        }
        let handle = self.client.dynamic(ResourceClaim::resource(), namespace);
        match handle.get(name).await {
            Err(status) if status.is_not_found() => Ok(false),
            found => Ok(is_own(found?.as_ref())),
        }
    }

    async fn create(&self, object: &Stored, claim: &PodClaim, template: &str) -> Result<String, Error> {
        let key = Key::new(object.key().namespace(), template);
        let Some(found) = self.templates.find(&key) else {
            let message = format!(
                "resource claim template {template:?}: resourceclaimtemplates.resource.k8s.io {template:?} not found"
            );
            return Err(Error::failed(message));
        };
        let mut template: Value = found.decode()?;
        let mut inner = template["spec"].take();
        let mut metadata = match inner["metadata"].take() {
            Value::Null => json!({}),
            metadata => metadata,
        };
        metadata["annotations"][POD_CLAIM] = json!(claim.name);
        metadata["generateName"] = json!(name_base(object.key().name(), &claim.name));
        metadata["namespace"] = json!(object.key().namespace());
        metadata["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Pod", "name": object.key().name(), "uid": object.uid(), "controller": true,
        }]);
        let document = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": metadata, "spec": inner["spec"].take(),
        });
        let handle = self.client.dynamic(ResourceClaim::resource(), key.namespace());
        let created = handle.create(document.to_string()).await?;
        Ok(created.key().name().to_owned())
    }

    async fn note_made(&self, object: &Stored, made: &[Value]) -> Result<(), Error> {
        let status = json!({"resourceClaimStatuses": made});
        let patch = Patch::strategic(&json!({"metadata": {"uid": object.uid()}, "status": status}))?;
        let handle = self.client.dynamic(v1::Pod::resource(), object.key().namespace());
        match handle.patch_sub(object.key().name(), "status", &patch).await {
            Err(status) if status.is_not_found() => Ok(()),
            written => Ok(written.map(drop)?),
        }
    }

    /// Notes that the pod uses a claim that is allocated.
    async fn reserve(&self, object: &Stored, key: &Key) -> Result<(), Error> {
        let Some(found) = self.claims.find(key) else {
            return Ok(());
        };
        if !found.decode::<Claim>()?.lacks_consumer(object.uid()) {
            return Ok(());
        }
        let mut document: Value = found.decode()?;
        let consumer = json!({"resource": "pods", "name": object.key().name(), "uid": object.uid()});
        match document["status"]["reservedFor"].as_array_mut() {
            Some(consumers) => consumers.push(consumer),
            None => document["status"]["reservedFor"] = json!([consumer]),
        }
        let handle = self.client.dynamic(ResourceClaim::resource(), key.namespace());
        handle
            .update_sub(key.name(), "status", document.to_string())
            .await?;
        Ok(())
    }
}
