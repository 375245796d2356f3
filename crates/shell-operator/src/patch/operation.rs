//! Operations as hooks write them: JSON objects one after another, or YAML documents.

use serde::Deserialize;
use serde_json::Value;
use setpoint_codec::{from_tree, yaml};

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Create this object.
    Create {
        /// The whole object.
        object: Value,
        /// What to do if it exists.
        if_exists: IfExists,
    },
    /// Delete an object.
    Delete {
        /// The object.
        target: ObjectRef,
        /// What happens to its dependents.
        deletion: Deletion,
    },
    /// Change an object.
    Patch {
        /// The object.
        target: ObjectRef,
        /// The change.
        change: Change,
        /// A missing object is no error.
        ignore_missing: bool,
        /// The change is applied even if the hook fails.
        ignore_hook_error: bool,
    },
}

/// What a creation does if the object exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// It fails.
    Fail,
    /// It replaces the object.
    Update,
    /// It leaves the object as it is.
    Ignore,
}

/// What a deletion does with the dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// They are deleted first, and the operation waits for it.
    Foreground,
    /// They are deleted later.
    Background,
    /// They stay.
    NonCascading,
}

/// A change of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// By a jq program, from the object to the new one.
    Jq(String),
    /// By a JSON merge patch.
    Merge(Value),
    /// By a JSON patch.
    Json(Value),
}

/// An object by its names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectRef {
    /// Group and version; empty for the preferred ones.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty for cluster-wide objects.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The subresource, without a slash; empty for the object itself.
    pub subresource: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawOperation {
    operation: String,
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    subresource: String,
    object: Option<Value>,
    jq_filter: String,
    merge_patch: Option<Value>,
    json_patch: Option<Value>,
    ignore_missing_object: bool,
    ignore_hook_error: bool,
}

/// The operations in a file. The first invalid one is an error, and none is applied then.
pub fn parse_operations(text: &[u8]) -> Result<Vec<Operation>, String> {
    let raw = parse_json(text).or_else(|_| parse_yaml(text))?;
    let numbered = raw.into_iter().enumerate();
    let operations = numbered.map(|(at, raw)| {
        let what = format!("{} {}/{}/{}", raw.operation, raw.kind, raw.namespace, raw.name);
        raw.convert()
            .map_err(|error| format!("invalid object patch operation {at} ({what}): {error}"))
    });
    operations.collect()
}

fn parse_json(text: &[u8]) -> Result<Vec<RawOperation>, serde_json::Error> {
    serde_json::Deserializer::from_slice(text)
        .into_iter::<RawOperation>()
        .collect()
}

fn parse_yaml(text: &[u8]) -> Result<Vec<RawOperation>, String> {
    let documents = yaml::parse_all(text).map_err(|error| format!("invalid object patch: {error}"))?;
    let documents = documents.iter().filter(|document| !document.is_null());
    documents
        .map(|document| from_tree(document).map_err(|error| format!("invalid object patch: {error}")))
        .collect()
}

impl RawOperation {
    fn convert(self) -> Result<Operation, String> {
        match self.operation.as_str() {
            "Create" => self.create(IfExists::Fail),
            "CreateOrUpdate" => self.create(IfExists::Update),
            "CreateIfNotExists" => self.create(IfExists::Ignore),
            "Delete" => self.delete(Deletion::Foreground),
            "DeleteInBackground" => self.delete(Deletion::Background),
            "DeleteNonCascading" => self.delete(Deletion::NonCascading),
            "JQPatch" if self.jq_filter.is_empty() => Err("'jqFilter' is required".to_owned()),
            "JQPatch" => {
                let filter = self.jq_filter.clone();
                self.patch(Change::Jq(filter))
            }
            "MergePatch" => {
                let patch = structured(self.merge_patch.clone(), "mergePatch")?;
                match patch.is_object() {
                    true => self.patch(Change::Merge(patch)),
                    false => Err("'mergePatch' is not an object".to_owned()),
                }
            }
            "JSONPatch" => {
                let patch = structured(self.json_patch.clone(), "jsonPatch")?;
                match patch.as_array().is_some_and(|operations| !operations.is_empty()) {
                    true => self.patch(Change::Json(patch)),
                    false => Err("'jsonPatch' is not a list of operations".to_owned()),
                }
            }
            "" => Err("'operation' is required".to_owned()),
            other => Err(format!("unknown operation '{other}'")),
        }
    }

    fn create(self, if_exists: IfExists) -> Result<Operation, String> {
        let object = structured(self.object, "object")?;
        let has = |field: &str| object[field].as_str().is_some_and(|text| !text.is_empty());
        if !has("kind") || !has("apiVersion") {
            return Err("'object' has no apiVersion or no kind".to_owned());
        }
        Ok(Operation::Create { object, if_exists })
    }

    fn delete(self, deletion: Deletion) -> Result<Operation, String> {
        let target = self.target()?;
        Ok(Operation::Delete { target, deletion })
    }

    fn patch(self, change: Change) -> Result<Operation, String> {
        Ok(Operation::Patch {
            change,
            ignore_missing: self.ignore_missing_object,
            ignore_hook_error: self.ignore_hook_error,
            target: self.target()?,
        })
    }

    fn target(self) -> Result<ObjectRef, String> {
        for (field, value) in [("kind", &self.kind), ("name", &self.name)] {
            if value.is_empty() {
                return Err(format!("'{field}' is required"));
            }
        }
        Ok(ObjectRef {
            api_version: self.api_version,
            kind: self.kind,
            namespace: self.namespace,
            name: self.name,
            subresource: self.subresource.trim_start_matches('/').to_owned(),
        })
    }
}

impl Operation {
    /// Whether it is applied even if the hook fails: a change of a status that requests it.
    pub fn is_applied_after_failure(&self) -> bool {
        match self {
            Self::Patch {
                target,
                ignore_hook_error,
                ..
            } => *ignore_hook_error && target.subresource == "status",
            Self::Create { .. } | Self::Delete { .. } => false,
        }
    }
}

/// A value that may be a text with JSON or YAML.
fn structured(value: Option<Value>, field: &str) -> Result<Value, String> {
    match value {
        None | Some(Value::Null) => Err(format!("'{field}' is required")),
        Some(Value::String(text)) => {
            let tree =
                yaml::parse(text.as_bytes()).map_err(|error| format!("'{field}' is invalid: {error}"))?;
            from_tree(&tree).map_err(|error| format!("'{field}' is invalid: {error}"))
        }
        Some(value) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[Operation]) {
        assert_eq!(parse_operations(text.as_bytes()).unwrap(), expected);
    }

    #[track_caller]
    fn check_invalid(text: &str, expected: &str) {
        let error = parse_operations(text.as_bytes()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }

    fn pod(name: &str) -> ObjectRef {
        ObjectRef {
            kind: "Pod".to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            ..ObjectRef::default()
        }
    }

    #[test]
    fn json_and_yaml_with_several_operations_are_read() {
        let delete = |name| Operation::Delete {
            target: pod(name),
            deletion: Deletion::Background,
        };
        check(
            r#"{"operation":"DeleteInBackground","kind":"Pod","namespace":"default","name":"a"}
               {"operation":"DeleteInBackground","kind":"Pod","namespace":"default","name":"b"}"#,
            &[delete("a"), delete("b")],
        );
        check(
            "operation: DeleteInBackground\nkind: Pod\nnamespace: default\nname: a\n---\noperation: DeleteInBackground\nkind: Pod\nnamespace: default\nname: b\n",
            &[delete("a"), delete("b")],
        );
        check("", &[]);
    }

    #[test]
    fn objects_and_patches_may_be_text() {
        check(
            "operation: Create\nobject: |\n  {\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}\n",
            &[Operation::Create {
                object: json!({"apiVersion": "v1", "kind": "ConfigMap"}),
                if_exists: IfExists::Fail,
            }],
        );
        check(
            "operation: MergePatch\nkind: Pod\nnamespace: default\nname: a\nsubresource: /status\nignoreHookError: true\nmergePatch: |\n  spec:\n    replicas: 1\n",
            &[Operation::Patch {
                target: ObjectRef {
                    subresource: "status".to_owned(),
                    ..pod("a")
                },
                change: Change::Merge(json!({"spec": {"replicas": 1}})),
                ignore_missing: false,
                ignore_hook_error: true,
            }],
        );
    }

    #[test]
    fn invalid_operations_are_named() {
        check_invalid(
            r#"{"operation":"Explode","kind":"Pod","name":"a"}"#,
            "unknown operation 'Explode'",
        );
        check_invalid(r#"{"operation":"Delete","name":"a"}"#, "'kind' is required");
        check_invalid(r#"{"operation":"Create"}"#, "'object' is required");
        check_invalid(
            r#"{"operation":"JQPatch","kind":"Pod","name":"a"}"#,
            "'jqFilter' is required",
        );
        check_invalid(
            r#"{"operation":"JSONPatch","kind":"Pod","name":"a","jsonPatch":{}}"#,
            "not a list",
        );
        check_invalid("\u{1}garbage: [", "invalid object patch");
    }
}
