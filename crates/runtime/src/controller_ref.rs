//! [`ControllerRefManager`]: adopts and releases the objects that an owner selects by labels.
//!
//! An object that matches and has no controller is adopted; an owned object that no longer matches is released; an object
//! of another controller is left alone. The rules are those of Kubernetes' `pkg/controller/controller_ref_manager.go`. The
//! decision is the pure function [`claim_action`].

use std::sync::Arc;

use serde_json::json;
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Status, Stored};
use setpoint_client::{Api, DynamicApi, Object, Patch, TypedObject};

use crate::batches::run_concurrently;
use crate::owner::controller_reference;

/// What an owner does with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimAction {
    /// The owner controls it, and it matches.
    Keep,
    /// It has no controller, and it matches: the owner becomes its controller.
    Adopt,
    /// The owner controls it, but it no longer matches: the owner reference is removed.
    Release,
    /// It belongs to another controller, or does not match.
    Ignore,
}

/// Claims objects of one resource for one owner.
#[derive(Debug)]
pub struct ControllerRefManager<'a, T> {
    /// The owner that claims the objects.
    pub owner: &'a TypedObject<T>,
    /// The owner's selector.
    pub selector: &'a LabelSelector,
    /// The owners' resource, to read the owner again before the first adoption.
    pub owners: &'a Api<T>,
    /// The objects' resource, to write them.
    pub objects: &'a DynamicApi,
}

/// What the owner with this selector does with the object.
pub fn claim_action(owner: &Stored, selector: &LabelSelector, object: &Stored) -> ClaimAction {
    let matches = selector.matches(|label| object.label(label));
    let is_deleting = owner.header().deleting || object.header().deleting;
    match object.controller() {
        Some(controller) if controller.uid != owner.uid() => ClaimAction::Ignore,
        Some(_) if matches => ClaimAction::Keep,
        Some(_) if owner.header().deleting => ClaimAction::Ignore,
        Some(_) => ClaimAction::Release,
        None if !matches || is_deleting => ClaimAction::Ignore,
        None if object.key().namespace() != owner.key().namespace() => ClaimAction::Ignore,
        None => ClaimAction::Adopt,
    }
}

impl<T: Object> ControllerRefManager<'_, T> {
    /// Adopts and releases objects; returns those that the owner controls then, or the first error.
    pub async fn claim_objects(&self, objects: &[Arc<Stored>]) -> Result<Vec<Arc<Stored>>, Status> {
        let claims: Vec<_> = objects
            .iter()
            .map(|object| (object, claim_action(self.owner, self.selector, object)))
            .collect();
        if claims.iter().any(|(_, claim)| *claim == ClaimAction::Adopt) {
            self.check_owner().await?;
        }
        let outcome = run_concurrently(
            claims
                .into_iter()
                .map(|(object, claim)| self.apply(object, claim)),
        )
        .await;
        Ok(outcome.into_result()?.into_iter().flatten().collect())
    }

    /// Reads the owner again: it may be deleted, or be a new object of the same name, and the cache does not show it yet.
    async fn check_owner(&self) -> Result<(), Status> {
        let name = self.owner.key().name();
        let newest = self.owners.get(name).await?;
        let resource = T::resource().group_resource();
        if newest.uid() != self.owner.uid() {
            let reason = format!("its uid is {} now, not {}", newest.uid(), self.owner.uid());
            return Err(Status::conflict(&resource, name, &reason));
        }
        match newest.header().deleting {
            true => Err(Status::conflict(&resource, name, "it is being deleted")),
            false => Ok(()),
        }
    }

    async fn apply(&self, object: &Arc<Stored>, claim: ClaimAction) -> Result<Option<Arc<Stored>>, Status> {
        match claim {
            ClaimAction::Keep => Ok(Some(object.clone())),
            ClaimAction::Ignore => Ok(None),
            ClaimAction::Adopt => self.adopt(object).await.map(Some),
            ClaimAction::Release => self.release(object).await.map(|()| None),
        }
    }

    /// Adds the owner reference. The patch has the uid, so that it fails on a new object of the same name.
    async fn adopt(&self, object: &Stored) -> Result<Arc<Stored>, Status> {
        let patch = json!({"metadata": {
            "uid": object.uid(),
            "ownerReferences": [controller_reference(self.owner)],
        }});
        let patch = Patch::strategic(&patch)?;
        self.objects.patch(object.key().name(), &patch).await
    }

    /// Removes the owner reference. An object that is deleted, or is a new one of the same name, needs no release.
    async fn release(&self, object: &Stored) -> Result<(), Status> {
        let patch = json!({"metadata": {
            "uid": object.uid(),
            "ownerReferences": [{"$patch": "delete", "uid": self.owner.uid()}],
        }});
        let patch = Patch::strategic(&patch)?;
        match self.objects.patch(object.key().name(), &patch).await {
            Err(status) if status.is_not_found() || status.is_invalid() => Ok(()),
            released => released.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use setpoint_api::object::OwnerReference;
    use setpoint_api::{Header, Key};

    use super::*;

    /// `ns/name`, labelled `app=<label>`, controlled by this uid if any; a `!` after the label marks it as being deleted.
    fn object(key: &str, label: &str, controller: &str) -> Stored {
        let mut header = Header::new(key.parse::<Key>().unwrap());
        header.uid = format!("uid-{}", header.key.name()).into();
        header.deleting = label.ends_with('!');
        header.labels = Box::new([("app".into(), label.trim_end_matches('!').into())]);
        if !controller.is_empty() {
            header.owner_references = Box::new([OwnerReference {
                uid: controller.into(),
                kind: "ReplicaSet".into(),
                name: "web".into(),
                api_version: "apps/v1".into(),
                controller: true,
                block_owner_deletion: true,
            }]);
        }
        Stored::new(header, Bytes::from_static(b"{}"), 1)
    }

    /// What `a/web`, which selects `app=web`, does with such an object; an owner label with `!` marks it as being deleted.
    #[track_caller]
    fn check(owner: &str, key: &str, label: &str, controller: &str, expected: ClaimAction) {
        let owner = object("a/web", owner, "");
        let selector = "app=web".parse().unwrap();
        assert_eq!(
            claim_action(&owner, &selector, &object(key, label, controller)),
            expected
        );
    }

    /// RS1
    #[test]
    fn rs1_orphans_that_match_are_adopted_and_mismatches_released() {
        check("x", "a/p", "web", "", ClaimAction::Adopt);
        check("x", "a/p", "db", "", ClaimAction::Ignore);
        check("x", "a/p", "web", "uid-web", ClaimAction::Keep);
        check("x", "a/p", "db", "uid-web", ClaimAction::Release);
        check("x", "a/p", "web", "uid-other", ClaimAction::Ignore);
    }

    /// RS1
    #[test]
    fn rs1_nothing_is_adopted_while_owner_or_object_is_deleted_or_from_another_namespace() {
        check("x!", "a/p", "web", "", ClaimAction::Ignore);
        check("x", "a/p", "web!", "", ClaimAction::Ignore);
        check("x", "b/p", "web", "", ClaimAction::Ignore);
        check("x!", "a/p", "db", "uid-web", ClaimAction::Ignore);
    }
}
