//! Claiming: which objects belong to an owner that picks them by labels.
//!
//! An object without a controller that matches is adopted; one of ours that no longer matches is released; one of
//! somebody else's is left alone. The rules are those of Kubernetes' `pkg/controller/controller_ref_manager.go`. The
//! decision is pure; [`Claims`] carries it out.

use std::sync::Arc;

use serde_json::json;
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Status, Stored};
use setpoint_client::{Dynamic, Handle, Object, Patch, Typed};

use crate::batches::at_once;
use crate::owner::controller_reference;

/// What an object is to an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It is the owner's, and shall be.
    Keep,
    /// It is nobody's, and shall be the owner's.
    Adopt,
    /// It is the owner's, and shall not be.
    Release,
    /// It is none of the owner's business.
    Ignore,
}

/// The claims of one owner on objects of one resource.
#[derive(Debug)]
pub struct Claims<'a, T> {
    /// Whose claims these are.
    pub owner: &'a Typed<T>,
    /// How it picks.
    pub selector: &'a LabelSelector,
    /// The owners, to make sure before the first adoption that this one is still there.
    pub owners: &'a Handle<T>,
    /// The objects, to be written.
    pub objects: &'a Dynamic,
}

/// What the object is to the owner who picks by this selector.
pub fn decide(owner: &Stored, selector: &LabelSelector, object: &Stored) -> Claim {
    let matches = selector.matches(|label| object.label(label));
    let is_leaving = owner.header().deleting || object.header().deleting;
    match object.controller() {
        Some(controller) if controller.uid != owner.uid() => Claim::Ignore,
        Some(_) if matches => Claim::Keep,
        Some(_) if owner.header().deleting => Claim::Ignore,
        Some(_) => Claim::Release,
        None if !matches || is_leaving => Claim::Ignore,
        None if object.key().namespace() != owner.key().namespace() => Claim::Ignore,
        None => Claim::Adopt,
    }
}

impl<T: Object> Claims<'_, T> {
    /// The objects that are the owner's after all claims are carried out. If one cannot be, the first reason why.
    pub async fn carry_out(&self, objects: &[Arc<Stored>]) -> Result<Vec<Arc<Stored>>, Status> {
        let claims: Vec<_> = objects
            .iter()
            .map(|object| (object, decide(self.owner, self.selector, object)))
            .collect();
        if claims.iter().any(|(_, claim)| *claim == Claim::Adopt) {
            self.check_owner().await?;
        }
        let outcome = at_once(claims.into_iter().map(|(object, claim)| self.act(object, claim))).await;
        Ok(outcome.into_result()?.into_iter().flatten().collect())
    }

    /// The cache may not know yet that the owner is gone, or is another of the same name.
    async fn check_owner(&self) -> Result<(), Status> {
        let name = self.owner.key().name();
        let newest = self.owners.get(name).await?;
        let resource = T::resource().group_resource();
        if newest.uid() != self.owner.uid() {
            let why = format!("its uid is {} now, not {}", newest.uid(), self.owner.uid());
            return Err(Status::conflict(&resource, name, &why));
        }
        match newest.header().deleting {
            true => Err(Status::conflict(&resource, name, "it is being deleted")),
            false => Ok(()),
        }
    }

    async fn act(&self, object: &Arc<Stored>, claim: Claim) -> Result<Option<Arc<Stored>>, Status> {
        match claim {
            Claim::Keep => Ok(Some(object.clone())),
            Claim::Ignore => Ok(None),
            Claim::Adopt => self.adopt(object).await.map(Some),
            Claim::Release => self.release(object).await.map(|()| None),
        }
    }

    /// Adds the owner; the uid goes along, so that another object of the same name is not taken for this one.
    async fn adopt(&self, object: &Stored) -> Result<Arc<Stored>, Status> {
        let patch = json!({"metadata": {
            "uid": object.uid(),
            "ownerReferences": [controller_reference(self.owner)],
        }});
        let patch = Patch::strategic(&patch)?;
        self.objects.patch(object.key().name(), &patch).await
    }

    /// Takes the owner off. An object that is gone, or is another by now, needs no releasing.
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
    use setpoint_api::object::Owner;
    use setpoint_api::{Header, Key};

    use super::*;

    /// `ns/name`, labelled `app=<label>`, controlled by this uid if any; a `!` behind the label marks it as going.
    fn object(key: &str, label: &str, controller: &str) -> Stored {
        let mut header = Header::new(key.parse::<Key>().unwrap());
        header.uid = format!("uid-{}", header.key.name()).into();
        header.deleting = label.ends_with('!');
        header.labels = Box::new([("app".into(), label.trim_end_matches('!').into())]);
        if !controller.is_empty() {
            header.owners = Box::new([Owner {
                uid: controller.into(),
                kind: "ReplicaSet".into(),
                name: "web".into(),
                api_version: "apps/v1".into(),
                controller: true,
                blocks_deletion: true,
            }]);
        }
        Stored::new(header, Bytes::from_static(b"{}"), 1)
    }

    /// What an object of these traits is to `a/web`, which picks `app=web` and is going if its label says so.
    #[track_caller]
    fn check(owner: &str, key: &str, label: &str, controller: &str, expected: Claim) {
        let owner = object("a/web", owner, "");
        let selector = "app=web".parse().unwrap();
        assert_eq!(
            decide(&owner, &selector, &object(key, label, controller)),
            expected
        );
    }

    /// RS1
    #[test]
    fn rs1_orphans_that_match_are_adopted_and_mismatches_released() {
        check("x", "a/p", "web", "", Claim::Adopt);
        check("x", "a/p", "db", "", Claim::Ignore);
        check("x", "a/p", "web", "uid-web", Claim::Keep);
        check("x", "a/p", "db", "uid-web", Claim::Release);
        check("x", "a/p", "web", "uid-other", Claim::Ignore);
    }

    /// RS1
    #[test]
    fn rs1_nothing_is_adopted_by_or_for_one_who_goes_or_from_elsewhere() {
        check("x!", "a/p", "web", "", Claim::Ignore);
        check("x", "a/p", "web!", "", Claim::Ignore);
        check("x", "b/p", "web", "", Claim::Ignore);
        check("x!", "a/p", "db", "uid-web", Claim::Ignore);
    }
}
