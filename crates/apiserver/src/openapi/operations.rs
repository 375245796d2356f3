//! The paths of a kind and what may be done there.

use serde_json::{Map, Value, json};
use setpoint_kinds::{About, Kind, Subresource};

use super::schemas::{Dialect, Schemas};

/// Query parameters with their types, by what is done.
const READ: &[(&str, &str)] = &[("pretty", "string")];
const LIST: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("pretty", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const WRITE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("pretty", "string"),
];
const PATCH: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
    ("pretty", "string"),
];
const DELETE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("pretty", "string"),
    ("propagationPolicy", "string"),
];

/// The media types a patch may be written in.
const PATCH_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// A verb on a path: its method, its name as an action, its parameters.
struct Operation {
    verb: &'static str,
    method: &'static str,
    action: &'static str,
    parameters: &'static [(&'static str, &'static str)],
}

const ON_COLLECTION: [Operation; 3] = [
    Operation {
        verb: "list",
        method: "get",
        action: "list",
        parameters: LIST,
    },
    Operation {
        verb: "create",
        method: "post",
        action: "post",
        parameters: WRITE,
    },
    Operation {
        verb: "deletecollection",
        method: "delete",
        action: "deletecollection",
        parameters: DELETE,
    },
];
const ON_OBJECT: [Operation; 4] = [
    Operation {
        verb: "get",
        method: "get",
        action: "get",
        parameters: READ,
    },
    Operation {
        verb: "update",
        method: "put",
        action: "put",
        parameters: WRITE,
    },
    Operation {
        verb: "patch",
        method: "patch",
        action: "patch",
        parameters: PATCH,
    },
    Operation {
        verb: "delete",
        method: "delete",
        action: "delete",
        parameters: DELETE,
    },
];
const ON_PART: [Operation; 4] = [
    Operation {
        verb: "get",
        method: "get",
        action: "get",
        parameters: READ,
    },
    Operation {
        verb: "create",
        method: "post",
        action: "post",
        parameters: WRITE,
    },
    Operation {
        verb: "update",
        method: "put",
        action: "put",
        parameters: WRITE,
    },
    Operation {
        verb: "patch",
        method: "patch",
        action: "patch",
        parameters: PATCH,
    },
];

/// Writes the paths of one kind.
pub(super) fn write(paths: &mut Map<String, Value>, schemas: &mut Schemas, kind: &dyn Kind) {
    let about = kind.about();
    let own = schemas.reference(kind.shape());
    let list_gvk = (
        about.gvk.group.as_str(),
        about.gvk.version.as_str(),
        about.list_kind.as_str(),
    );
    let list = schemas
        .reference_to(list_gvk)
        .unwrap_or_else(|| json!({"type": "object"}));
    let gvk = (
        about.gvk.group.as_str(),
        about.gvk.version.as_str(),
        about.gvk.kind.as_str(),
    );
    let root = root(about);
    let plural = about.names.plural;
    let collection = match about.is_namespaced() {
        true => format!("{root}/namespaces/{{namespace}}/{plural}"),
        false => format!("{root}/{plural}"),
    };
    let allowed = |operation: &&Operation| about.allows(operation.verb);
    let on_collection = ON_COLLECTION.iter().filter(allowed).map(|operation| {
        let answer = if operation.verb == "list" { &list } else { &own };
        (
            operation.method,
            describe(schemas.dialect, operation, gvk, (&own, answer)),
        )
    });
    insert(paths, collection.clone(), on_collection);
    if about.is_namespaced() {
        let across = ON_COLLECTION.iter().take(1).filter(allowed);
        let across = across.map(|one| (one.method, describe(schemas.dialect, one, gvk, (&own, &list))));
        insert(paths, format!("{root}/{plural}"), across);
    }
    let on_object = ON_OBJECT.iter().filter(allowed);
    let on_object = on_object.map(|one| (one.method, describe(schemas.dialect, one, gvk, (&own, &own))));
    insert(paths, format!("{collection}/{{name}}"), on_object);
    for part in about.subresources {
        write_part(paths, schemas, (about, part), (&collection, &own));
    }
}

fn write_part(
    paths: &mut Map<String, Value>,
    schemas: &mut Schemas,
    (about, part): (&About, &Subresource),
    (collection, own): (&str, &Value),
) {
    let (gvk, taken) = match part.kind.2 {
        "" => {
            let gvk = (
                about.gvk.group.as_str(),
                about.gvk.version.as_str(),
                about.gvk.kind.as_str(),
            );
            (gvk, own.clone())
        }
        _ => (
            part.kind,
            schemas
                .reference_to(part.kind)
                .unwrap_or_else(|| json!({"type": "object"})),
        ),
    };
    let allowed = ON_PART
        .iter()
        .filter(|operation| part.verbs.contains(&operation.verb));
    let described = allowed.map(|one| (one.method, describe(schemas.dialect, one, gvk, (&taken, &taken))));
    insert(paths, format!("{collection}/{{name}}/{}", part.name), described);
}

fn insert(
    paths: &mut Map<String, Value>,
    path: String,
    operations: impl Iterator<Item = (&'static str, Value)>,
) {
    let mut entry: Map<String, Value> = operations
        .map(|(method, value)| (method.to_owned(), value))
        .collect();
    let named = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let named: Vec<Value> = named.map(path_parameter).collect();
    if !named.is_empty() {
        entry.insert("parameters".to_owned(), named.into());
    }
    paths.insert(path, entry.into());
}

fn describe(dialect: Dialect, operation: &Operation, gvk: (&str, &str, &str), of: (&Value, &Value)) -> Value {
    let (body, answer) = of;
    let parameters: Vec<Value> = operation
        .parameters
        .iter()
        .map(|(name, kind)| query_parameter(dialect, name, kind))
        .collect();
    let mut described = json!({
        "parameters": parameters,
        "responses": {"200": response(dialect, answer)},
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {"group": gvk.0, "kind": gvk.2, "version": gvk.1},
    });
    let taken: &[&str] = match operation.method {
        "post" | "put" => &["*/*"],
        "patch" => &PATCH_TYPES,
        _ => &[],
    };
    match dialect {
        _ if taken.is_empty() => {}
        Dialect::Second => described["consumes"] = json!(taken),
        Dialect::Third => {
            let schema = if operation.method == "patch" {
                json!({"type": "object"})
            } else {
                body.clone()
            };
            let content: Map<String, Value> = taken
                .iter()
                .map(|media| ((*media).to_owned(), json!({"schema": schema})))
                .collect();
            described["requestBody"] = json!({"content": content, "required": true});
        }
    }
    described
}

fn response(dialect: Dialect, answer: &Value) -> Value {
    match dialect {
        Dialect::Second => json!({"description": "OK", "schema": answer}),
        Dialect::Third => json!({"description": "OK", "content": {"application/json": {"schema": answer}}}),
    }
}

fn query_parameter(dialect: Dialect, name: &str, kind: &str) -> Value {
    match dialect {
        Dialect::Second => json!({"name": name, "in": "query", "type": kind, "uniqueItems": true}),
        Dialect::Third => json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}}),
    }
}

fn path_parameter(name: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "type": "string", "schema": {"type": "string"}})
}

fn root(about: &About) -> String {
    let (group, version) = (&about.gvk.group, &about.gvk.version);
    match group.as_str() {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    }
}
