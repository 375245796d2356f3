//! Sync of one pod: generates its claims, and reserves those it uses.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::{Value, json};
use setpoint_api::{Key, Stored};
use setpoint_runtime::{Client, Error, Object, Patch, TypedObject};

use crate::pods;
use crate::resource_claim::Claims;
use crate::resource_claim::plan::{Claim, ClaimRef, POD_CLAIM, Pod, PodClaim, name_prefix};

/// The field manager that applies the names of generated claims, as upstream names it.
const FIELD_MANAGER: &str = "ResourceClaimController";

impl Claims {
    pub(super) async fn sync_pod(&self, client: &Client, key: &Key) -> Result<(), Error> {
        let Some(object) = self.pods.find(key).filter(|object| !object.header().deleting) else {
            return Ok(());
        };
        let Some(pod) = Pod::read(&object) else {
            return Ok(());
        };
        let mut generated = BTreeMap::new();
        for claim in &pod.spec.resource_claims {
            match self.ensure_claim(client, &object, &pod, claim).await {
                Ok(None) => {}
                Ok(Some(name)) => {
                    generated.insert(claim.name.as_str(), name);
                }
                Err(error) => {
                    let message = format!("PodResourceClaim {}: {error}", claim.name);
                    self.events
                        .warning(&object, "FailedResourceClaimCreation", message);
                    return Err(error);
                }
            }
        }
        if !generated.is_empty() {
            record_generated(client, &object, &pod, generated).await?;
        }
        // Before the pod is bound the scheduler reserves its claims, together with the binding.
        if pods::Pod::read(object.stored().clone()).view().node.is_empty() {
            return Ok(());
        }
        for name in pod.claims() {
            self.reserve(client, &object, &Key::new(key.namespace(), name))
                .await?;
        }
        Ok(())
    }

    /// Generates the claim of an entry if it does not exist, and returns its name if the pod's status lacks it.
    async fn ensure_claim(
        &self,
        client: &Client,
        object: &TypedObject<v1::Pod>,
        pod: &Pod,
        claim: &PodClaim,
    ) -> Result<Option<String>, Error> {
        let template = match pod.claim_ref(claim) {
            ClaimRef::Existing(_) | ClaimRef::Nothing => return Ok(None),
            ClaimRef::FromTemplate(template) => template,
            ClaimRef::Generated(name) => {
                if self.is_own(client, object, name).await? {
                    return Ok(None);
                }
                claim.resource_claim_template_name.as_deref().unwrap_or_default()
            }
        };
        // It may have been generated before its name was recorded.
        let own = self.claims.owned_by(object.uid());
        let is_it = |own: &&TypedObject<ResourceClaim>| {
            let view: Result<Claim, _> = own.decode();
            view.is_ok_and(|view| view.was_generated_for(&claim.name))
        };
        match own.iter().find(is_it) {
            Some(own) => Ok(Some(own.key().name().to_owned())),
            None => self.create(client, object, claim, template).await.map(Some),
        }
    }

    /// Whether a claim of that name exists and the pod controls it.
    async fn is_own(&self, client: &Client, object: &Stored, name: &str) -> Result<bool, Error> {
        let namespace = object.key().namespace();
        let is_own = |claim: &Stored| claim.controller().is_some_and(|owner| owner.uid == object.uid());
        if let Some(claim) = self.claims.find(&Key::new(namespace, name)) {
            return Ok(is_own(&claim));
        }
        let handle = client.dynamic(ResourceClaim::resource(), namespace);
        match handle.get(name).await {
            Err(status) if status.is_not_found() => Ok(false),
            found => Ok(is_own(found?.as_ref())),
        }
    }

    async fn create(
        &self,
        client: &Client,
        object: &Stored,
        claim: &PodClaim,
        template: &str,
    ) -> Result<String, Error> {
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
        metadata["generateName"] = json!(name_prefix(object.key().name(), &claim.name));
        metadata["namespace"] = json!(object.key().namespace());
        metadata["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Pod", "name": object.key().name(), "uid": object.uid(), "controller": true,
        }]);
        let body = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": metadata, "spec": inner["spec"].take(),
        });
        let handle = client.dynamic(ResourceClaim::resource(), key.namespace());
        let created = handle.create(body.to_string()).await?;
        Ok(created.key().name().to_owned())
    }

    /// Adds the pod as a consumer of an allocated claim.
    async fn reserve(&self, client: &Client, object: &Stored, key: &Key) -> Result<(), Error> {
        let Some(found) = self.claims.find(key) else {
            return Ok(());
        };
        if !found.decode::<Claim>()?.lacks_consumer(object.uid()) {
            return Ok(());
        }
        let mut body: Value = found.decode()?;
        let consumer = json!({"resource": "pods", "name": object.key().name(), "uid": object.uid()});
        match body["status"]["reservedFor"].as_array_mut() {
            Some(consumers) => consumers.push(consumer),
            None => body["status"]["reservedFor"] = json!([consumer]),
        }
        let handle = client.dynamic(ResourceClaim::resource(), key.namespace());
        handle
            .update_subresource(key.name(), "status", body.to_string())
            .await?;
        Ok(())
    }
}

/// Applies the names of the pod's generated claims: those that its status has, and the new ones.
async fn record_generated(
    client: &Client,
    object: &Stored,
    pod: &Pod,
    generated: BTreeMap<&str, String>,
) -> Result<(), Error> {
    let mut names: BTreeMap<&str, &str> = pod.status.generated_claims().collect();
    names.extend(generated.iter().map(|(claim, name)| (*claim, name.as_str())));
    let statuses = names
        .iter()
        .map(|(claim, name)| json!({"name": claim, "resourceClaimName": name}));
    let applied = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": object.key().name(), "uid": object.uid()},
        "status": {"resourceClaimStatuses": statuses.collect::<Vec<_>>()},
    });
    let patch = Patch::apply(&applied, FIELD_MANAGER)?.force();
    let handle = client.dynamic(v1::Pod::resource(), object.key().namespace());
    match handle
        .patch_subresource(object.key().name(), "status", &patch)
        .await
    {
        Err(status) if status.is_not_found() => Ok(()),
        written => Ok(written.map(drop)?),
    }
}
