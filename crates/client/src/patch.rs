//! [`Patch`]: a patch in one of the formats of the API.

use bytes::Bytes;
use serde::Serialize;
use setpoint_api::options::{FieldValidation, PatchType, WriteOptions};
use setpoint_api::{Payload, Status, Verb};

/// The body of a patch, its type and its options.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), setpoint_api::Status> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let maps = cluster.client("me").namespaced::<k8s_openapi::api::core::v1::ConfigMap>("default");
/// use serde_json::json;
/// use setpoint_client::Patch;
///
/// // The first apply creates the object. Each manager owns its fields.
/// let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"mine": "1"}});
/// maps.patch("a", &Patch::apply(&config, "me")?).await?;
/// let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"yours": "2"}});
/// maps.patch("a", &Patch::apply(&config, "you")?).await?;
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
    /// JSON merge patch (RFC 7386): fields to set; `null` removes one. Lists are replaced whole.
    pub fn merge(body: &impl Serialize) -> Result<Self, Status> {
        Self::new(PatchType::Merge, body)
    }

    /// Strategic merge patch: fields to set, with lists merged by their keys. Built-in kinds only.
    pub fn strategic(body: &impl Serialize) -> Result<Self, Status> {
        Self::new(PatchType::StrategicMerge, body)
    }

    /// JSON patch (RFC 6902): a list of operations.
    pub fn json(operations: &impl Serialize) -> Result<Self, Status> {
        Self::new(PatchType::Json, operations)
    }

    /// Server-side apply: the fields that this manager owns. Creates the object if it does not exist.
    pub fn apply(body: &impl Serialize, manager: &str) -> Result<Self, Status> {
        let mut patch = Self::new(PatchType::Apply, body)?;
        patch.options.field_manager = Some(manager.to_owned());
        Ok(patch)
    }

    /// Takes over conflicting fields from other managers. For apply patches only.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.options.force = true;
        self
    }

    /// Dry run: the server returns the result and stores nothing.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Strict field validation: unknown and duplicate fields are rejected.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.options.field_validation = FieldValidation::Strict;
        self
    }

    /// Sets the field manager.
    #[must_use]
    pub fn field_manager(mut self, manager: &str) -> Self {
        self.options.field_manager = Some(manager.to_owned());
        self
    }

    /// The request with the options of the client. Options of the patch take precedence.
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

    fn new(kind: PatchType, body: &impl Serialize) -> Result<Self, Status> {
        let body = setpoint_api::json::to_vec(body)
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
    fn an_apply_has_its_manager_and_may_force_conflicts() {
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
    fn options_of_a_patch_take_precedence_over_those_of_its_client() {
        let writes = WriteOptions {
            dry_run: true,
            field_manager: Some("client".to_owned()),
            field_validation: FieldValidation::Strict,
            ..WriteOptions::default()
        };
        for (patch, manager) in [
            (Patch::merge(&json!({})).unwrap(), "client"),
            (Patch::merge(&json!({})).unwrap().field_manager("me"), "me"),
        ] {
            let Verb::Patch(_, _, options) = patch.to_verb(&writes) else {
                panic!("it is a patch");
            };
            assert_eq!(options.field_manager.as_deref(), Some(manager));
            assert!(options.dry_run && options.field_validation == FieldValidation::Strict);
        }
    }
}
