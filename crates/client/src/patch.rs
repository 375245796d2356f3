//! [`Patch`]: a change of an object in one of the forms the API takes.

use bytes::Bytes;
use serde::Serialize;
use setpoint_api::options::{FieldValidation, PatchType, WriteOptions};
use setpoint_api::{Payload, Status, Verb};

/// What to change, and how the server is to understand it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), setpoint_api::Status> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let maps = cluster.client("me").namespaced::<k8s_openapi::api::core::v1::ConfigMap>("default");
/// use serde_json::json;
/// use setpoint_client::Patch;
///
/// // The first to apply makes it. Each manager has its own fields.
/// let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"mine": "1"}});
/// maps.patch("a", &Patch::apply(&wanted, "me")?).await?;
/// let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"yours": "2"}});
/// maps.patch("a", &Patch::apply(&wanted, "you")?).await?;
/// let map = maps.get("a").await?.shared()?;
/// assert_eq!(map.data.as_ref().unwrap().len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Patch {
    kind: PatchType,
    body: Bytes,
    options: WriteOptions,
}

impl Patch {
    /// Fields to set; `null` removes one. Lists are replaced whole.
    pub fn merge(document: &impl Serialize) -> Result<Self, Status> {
        Self::of(PatchType::Merge, document)
    }

    /// Fields to set, with lists merged by their keys. Only built-in kinds understand it.
    pub fn strategic(document: &impl Serialize) -> Result<Self, Status> {
        Self::of(PatchType::StrategicMerge, document)
    }

    /// Operations to carry out one after the other, as RFC 6902 has them.
    pub fn json(operations: &impl Serialize) -> Result<Self, Status> {
        Self::of(PatchType::Json, operations)
    }

    /// What the object shall look like as far as this manager is concerned; the object is made if it is not there.
    pub fn apply(document: &impl Serialize, manager: &str) -> Result<Self, Status> {
        let mut patch = Self::of(PatchType::Apply, document)?;
        patch.options.field_manager = Some(manager.to_owned());
        Ok(patch)
    }

    /// Takes fields from other managers, where that is needed. It means something for an apply only.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.options.force = true;
        self
    }

    /// Says what would come of it and changes nothing.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Refuses fields that the server does not know.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.options.field_validation = FieldValidation::Strict;
        self
    }

    /// Who is noted as the one who changed it.
    #[must_use]
    pub fn managed_by(mut self, manager: &str) -> Self {
        self.options.field_manager = Some(manager.to_owned());
        self
    }

    /// What a client that writes in this way sends. What the patch itself says goes first.
    pub(crate) fn to_verb(&self, writes: &WriteOptions) -> Verb {
        let mut options = self.options.clone();
        options.dry_run |= writes.dry_run;
        if options.field_manager.is_none() {
            options.field_manager.clone_from(&writes.field_manager);
        }
        if options.field_validation == FieldValidation::default() {
            options.field_validation = writes.field_validation;
        }
        Verb::Patch(self.kind, Payload::json(self.body.clone()), options)
    }

    fn of(kind: PatchType, document: &impl Serialize) -> Result<Self, Status> {
        let body = serde_json::to_vec(document)
            .map_err(|error| Status::bad_request(format!("cannot encode the patch: {error}")))?;
        Ok(Self {
            kind,
            body: body.into(),
            options: WriteOptions::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_apply_has_its_manager_and_may_take_by_force() {
        let patch = Patch::apply(&json!({"a": 1}), "me").unwrap().force().strict();
        let Verb::Patch(PatchType::Apply, payload, options) = patch.to_verb(&WriteOptions::default()) else {
            panic!("an apply is a patch");
        };
        assert_eq!(payload.bytes, r#"{"a":1}"#);
        assert_eq!(
            (options.field_manager.as_deref(), options.force),
            (Some("me"), true)
        );
        assert_eq!(options.field_validation, FieldValidation::Strict);
    }

    #[test]
    fn what_a_patch_says_goes_before_what_its_client_does() {
        let writes = WriteOptions {
            dry_run: true,
            field_manager: Some("client".to_owned()),
            field_validation: FieldValidation::Strict,
            ..WriteOptions::default()
        };
        for (patch, manager) in [
            (Patch::merge(&json!({})).unwrap(), "client"),
            (Patch::merge(&json!({})).unwrap().managed_by("me"), "me"),
        ] {
            let Verb::Patch(_, _, options) = patch.to_verb(&writes) else {
                panic!("it is a patch");
            };
            assert_eq!(options.field_manager.as_deref(), Some(manager));
            assert!(options.dry_run && options.field_validation == FieldValidation::Strict);
        }
    }
}
