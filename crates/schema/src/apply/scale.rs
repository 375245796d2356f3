//! Owners through the scale of an object: the number of replicas has the same owners in both.
//!
//! A scale has no owners of its own. It is lent those of its object's number before a write, and what the write makes of
//! them is given back. So a conflict over the number is one, whichever way it is written.

use super::field_set::FieldSet;
use super::managers::{Entry, Id, Managers};
use crate::tree::Tree;

/// The version that scales are in.
pub const SCALE_VERSION: &str = "autoscaling/v1";

/// Where the number stands in a scale.
const IN_SCALE: [&str; 2] = ["spec", "replicas"];

/// Where an object has the number that its scale shows.
#[derive(Clone, Copy, Debug)]
pub struct Scaled<'a> {
    /// The version of the object, such as `apps/v1`.
    pub api_version: &'a str,
    pub replicas: &'a [&'a str],
}

impl Scaled<'_> {
    /// Gives a scale the owners of the object's number.
    pub fn lend(&self, object: &Tree, scale: &mut Tree) {
        let number = self.number();
        let owners = owners(object)
            .into_iter()
            .filter(|entry| entry.fields.meets(&number));
        let lent = owners.map(|entry| Entry {
            fields: FieldSet::of_fields([IN_SCALE.as_slice()]),
            ..in_version(entry, SCALE_VERSION)
        });
        Managers::of_entries(lent.collect()).store(scale);
    }

    /// Gives the object the owners that its scale has after a write. Whoever lost the number there loses it here, and
    /// who is new there is new here, without a time.
    pub fn give_back(&self, scale: &Tree, object: &mut Tree) {
        let number = self.number();
        let mut new = owners(scale);
        let mut entries = Vec::new();
        for mut entry in owners(object) {
            let known = new.iter().position(|other| other.id == entry.id);
            match known.filter(|_| entry.fields.meets(&number)) {
                Some(at) => drop(new.remove(at)),
                None => entry.fields = entry.fields.difference(&number),
            }
            entries.push(entry);
        }
        let in_scale = FieldSet::of_fields([IN_SCALE.as_slice()]);
        new.retain(|entry| entry.fields.meets(&in_scale));
        entries.extend(new.into_iter().map(|entry| Entry {
            fields: number.clone(),
            time: None,
            ..in_version(entry, self.api_version)
        }));
        entries.retain(|entry| !entry.fields.is_empty());
        Managers::of_entries(entries).store(object);
    }

    fn number(&self) -> FieldSet {
        FieldSet::of_fields([self.replicas])
    }
}

fn owners(object: &Tree) -> Vec<Entry> {
    let managers = Managers::of(object).unwrap_or_default();
    managers.entries().to_vec()
}

fn in_version(entry: Entry, version: &str) -> Entry {
    let Id {
        manager,
        operation,
        subresource,
        ..
    } = &entry.id;
    Entry {
        id: Id::new(manager, *operation, version, subresource),
        api_version: version.into(),
        ..entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Scaled<'static> = Scaled {
        api_version: "apps/v1",
        replicas: &["spec", "replicas"],
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

    fn told(object: &Tree) -> Vec<String> {
        let entries = owners(object).into_iter();
        let told = entries.map(|entry| {
            let time = entry.time.as_deref().unwrap_or("-");
            let paths = entry.fields.paths().join(" ");
            format!("{} {} {time} {paths}", entry.id.manager, entry.api_version)
        });
        told.collect()
    }

    #[test]
    fn a_scale_has_the_owners_of_the_number_in_its_own_version() {
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
        AT.lend(&object, &mut scale);
        assert_eq!(told(&scale), ["a autoscaling/v1 t .spec.replicas"]);
    }

    #[test]
    fn who_loses_the_number_in_the_scale_loses_it_in_the_object() {
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
        AT.give_back(&scale, &mut object);
        assert_eq!(
            told(&object),
            ["b apps/v1 - .spec.replicas", "a apps/v1 t .spec.paused"]
        );
    }

    #[test]
    fn an_applier_who_keeps_the_number_keeps_its_entry() {
        let entry = |version| entry("a", "Apply", version, r#"{"f:spec":{"f:replicas":{}}}"#);
        let mut object = object(&entry("apps/v1"));
        AT.give_back(&self::object(&entry("autoscaling/v1")), &mut object);
        assert_eq!(told(&object), ["a apps/v1 t .spec.replicas"]);
    }
}
