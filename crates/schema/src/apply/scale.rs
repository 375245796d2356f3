//! Field managers of the scale subresource: the replica count has the same owners in the object and in its scale.
//!
//! A scale stores no managed fields. Before a write it gets the owners of the object's replica count, and after the write
//! they are written back to the object. So both ways of writing the replica count conflict with each other.

use super::field_set::FieldSet;
use super::managed_fields::{ManagedFields, ManagedFieldsEntry, ManagerId};
use crate::tree::Tree;

/// The API version of scales.
pub const SCALE_VERSION: &str = "autoscaling/v1";

/// The path of the replica count in a scale.
const SCALE_REPLICAS_PATH: [&str; 2] = ["spec", "replicas"];

/// Maps managed fields between an object and its scale (upstream: `ScaleHandler`).
#[derive(Clone, Copy, Debug)]
pub struct ScaleHandler<'a> {
    /// The API version of the object, such as `apps/v1`.
    pub api_version: &'a str,
    pub replicas_path: &'a [&'a str],
}

impl ScaleHandler<'_> {
    /// Sets a scale's managed fields to the owners of the object's replica count.
    pub fn to_subresource(&self, object: &Tree, scale: &mut Tree) {
        let replicas = self.replicas();
        let owners = owners(object)
            .into_iter()
            .filter(|entry| entry.fields.intersects(&replicas));
        let entries = owners.map(|entry| ManagedFieldsEntry {
            fields: FieldSet::of_fields([SCALE_REPLICAS_PATH.as_slice()]),
            ..in_version(entry, SCALE_VERSION)
        });
        ManagedFields::of_entries(entries.collect()).store(scale);
    }

    /// Updates the object's managed fields from its scale after a write. A manager that lost the replica count there loses
    /// it here, and a new owner there is added here, without a time.
    pub fn to_parent(&self, scale: &Tree, object: &mut Tree) {
        let replicas = self.replicas();
        let mut new = owners(scale);
        let mut entries = Vec::new();
        for mut entry in owners(object) {
            let known = new.iter().position(|other| other.id == entry.id);
            match known.filter(|_| entry.fields.intersects(&replicas)) {
                Some(at) => drop(new.remove(at)),
                None => entry.fields = entry.fields.difference(&replicas),
            }
            entries.push(entry);
        }
        let in_scale = FieldSet::of_fields([SCALE_REPLICAS_PATH.as_slice()]);
        new.retain(|entry| entry.fields.intersects(&in_scale));
        entries.extend(new.into_iter().map(|entry| ManagedFieldsEntry {
            fields: replicas.clone(),
            time: None,
            ..in_version(entry, self.api_version)
        }));
        entries.retain(|entry| !entry.fields.is_empty());
        ManagedFields::of_entries(entries).store(object);
    }

    fn replicas(&self) -> FieldSet {
        FieldSet::of_fields([self.replicas_path])
    }
}

fn owners(object: &Tree) -> Vec<ManagedFieldsEntry> {
    let managers = ManagedFields::of(object).unwrap_or_default();
    managers.entries().to_vec()
}

fn in_version(entry: ManagedFieldsEntry, version: &str) -> ManagedFieldsEntry {
    let ManagerId {
        manager,
        operation,
        subresource,
        ..
    } = &entry.id;
    ManagedFieldsEntry {
        id: ManagerId::new(manager, *operation, version, subresource),
        api_version: version.into(),
        ..entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLER: ScaleHandler<'static> = ScaleHandler {
        api_version: "apps/v1",
        replicas_path: &["spec", "replicas"],
    };

    fn object(entries: &str) -> Tree {
        let text = format!(r#"{{"metadata":{{"managedFields":[{entries}]}}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn entry(manager: &str, operation: &str, version: &str, fields: &str) -> String {
        format!(
            r#"{{"manager":"{manager}","operation":"{operation}","apiVersion":"{version}","time":"t","fieldsType":"FieldsV1","fieldsV1":{fields}}}"#
        )
    }

    fn described(object: &Tree) -> Vec<String> {
        let entries = owners(object).into_iter();
        let lines = entries.map(|entry| {
            let time = entry.time.as_deref().unwrap_or("-");
            let paths = entry.fields.paths().join(" ");
            format!("{} {} {time} {paths}", entry.id.manager, entry.api_version)
        });
        lines.collect()
    }

    #[test]
    fn a_scale_has_the_owners_of_replicas_in_its_own_version() {
        let object = object(
            &[
                entry(
                    "a",
                    "Apply",
                    "apps/v1",
                    r#"{"f:spec":{"f:replicas":{},"f:paused":{}}}"#,
                ),
                entry("b", "Update", "apps/v1", r#"{"f:spec":{"f:paused":{}}}"#),
            ]
            .join(","),
        );
        let mut scale = Tree::default();
        HANDLER.to_subresource(&object, &mut scale);
        assert_eq!(described(&scale), ["a autoscaling/v1 t .spec.replicas"]);
    }

    #[test]
    fn a_manager_that_loses_replicas_in_the_scale_loses_them_in_the_object() {
        let mut object = object(&entry(
            "a",
            "Apply",
            "apps/v1",
            r#"{"f:spec":{"f:replicas":{},"f:paused":{}}}"#,
        ));
        let scale = self::object(&entry(
            "b",
            "Apply",
            "autoscaling/v1",
            r#"{"f:spec":{"f:replicas":{}}}"#,
        ));
        HANDLER.to_parent(&scale, &mut object);
        assert_eq!(
            described(&object),
            ["b apps/v1 - .spec.replicas", "a apps/v1 t .spec.paused"]
        );
    }

    #[test]
    fn an_applier_that_keeps_replicas_keeps_its_entry() {
        let entry = |version| entry("a", "Apply", version, r#"{"f:spec":{"f:replicas":{}}}"#);
        let mut object = object(&entry("apps/v1"));
        HANDLER.to_parent(&self::object(&entry("autoscaling/v1")), &mut object);
        assert_eq!(described(&object), ["a apps/v1 t .spec.replicas"]);
    }
}
