//! Parameters of operations: in the path, and in the query by verb.

use serde_json::{Map, Value, json};
use setpoint_api::{ApiVerb, HttpVerb};
use setpoint_schema::{FieldType, Pack};
use setpoint_strategy::{ConnectKind, KindInfo, Subresource};

use super::sentences;

/// Media type of a log stream.
pub(super) const TEXT: &str = "text/plain";

/// Query parameters with their types, by verb.
pub(super) const READ: &[(&str, &str)] = &[("pretty", "string")];
pub(super) const READ_CUSTOM: &[(&str, &str)] = &[("pretty", "string"), ("resourceVersion", "string")];
pub(super) const LIST: &[(&str, &str)] = &[
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
pub(super) const WRITE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("pretty", "string"),
];
pub(super) const PATCH: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
    ("pretty", "string"),
];
pub(super) const DELETE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("pretty", "string"),
    ("propagationPolicy", "string"),
];
pub(super) const DELETE_ALL: &[(&str, &str)] = &[
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("pretty", "string"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
];

/// One parameter.
#[derive(Debug, Clone)]
pub(super) struct Parameter {
    name: String,
    in_path: bool,
    schema_type: &'static str,
}

impl Parameter {
    pub(super) fn query(name: &str, schema_type: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            in_path: false,
            schema_type,
        }
    }

    fn path(name: &str) -> Self {
        Self {
            in_path: true,
            ..Self::query(name, "string")
        }
    }

    pub(super) fn to_value(&self) -> Value {
        let schema = json!({"type": self.schema_type, "uniqueItems": true});
        let mut parameter = match self.in_path {
            true => json!({"name": self.name, "in": "path", "required": true, "schema": schema}),
            false => json!({"name": self.name, "in": "query", "schema": schema}),
        };
        if let Some(description) = sentences::of_parameter(&self.name) {
            parameter["description"] = description.into();
        }
        parameter
    }
}

/// The parameters in a path, which are in braces.
pub(super) fn in_path(path: &str) -> impl Iterator<Item = Parameter> {
    path.split('/')
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
        .map(Parameter::path)
}

/// Removes the parameters that all operations have from each, and returns them.
pub(super) fn take_shared(operations: &mut [(HttpVerb, Value)]) -> Vec<Value> {
    let of = |one: &Value| one["parameters"].as_array().cloned().unwrap_or_default();
    let mut shared = operations.first().map(|(_, one)| of(one)).unwrap_or_default();
    for (_, one) in &*operations {
        let own = of(one);
        shared.retain(|parameter| own.contains(parameter));
    }
    for (_, one) in operations {
        let mut own = of(one);
        own.retain(|parameter| !shared.contains(parameter));
        match own.is_empty() {
            true => {
                one.as_object_mut().map(|one| one.remove("parameters"));
            }
            false => one["parameters"] = own.into(),
        }
    }
    shared
}

/// The query parameters of a stream: the fields of its options kind, by default `KINDLogOptions`.
pub(super) fn connect_options(info: &KindInfo, subresource: &Subresource) -> Vec<Parameter> {
    let (group, version, kind) = subresource.body_kind;
    let options = match kind {
        "" => (
            info.gvk.group.as_str(),
            info.gvk.version.as_str(),
            format!("{}LogOptions", info.gvk.kind),
        ),
        kind => (group, version, kind.to_owned()),
    };
    let shape = Pack::builtin().shape_of(options.0, options.1, &options.2);
    let fields = shape.map(|shape| shape.fields.as_slice()).unwrap_or_default();
    let typed = fields.iter().filter_map(|field| {
        let schema_type = match field.value_type {
            FieldType::String => "string",
            FieldType::Bool => "boolean",
            FieldType::Int32 | FieldType::Int64 => "integer",
            _ => return None,
        };
        Some(Parameter::query(&field.name, schema_type))
    });
    typed.collect()
}

/// The HTTP methods that open a stream.
pub(super) fn methods(connect: ConnectKind, subresource: &Subresource) -> Vec<HttpVerb> {
    let mut methods: Vec<HttpVerb> = subresource.verbs.iter().map(ApiVerb::http_verb).collect();
    if connect.is_proxy() {
        methods.extend([HttpVerb::Head, HttpVerb::Options]);
    }
    methods
}

/// Adds operations to a path.
pub(super) fn insert(paths: &mut Map<String, Value>, path: &str, operations: Vec<(HttpVerb, Value)>) {
    insert_with(paths, path, operations, &[]);
}

/// Adds operations to a path. Parameters that all of them have become the path's.
pub(super) fn insert_with(
    paths: &mut Map<String, Value>,
    path: &str,
    mut operations: Vec<(HttpVerb, Value)>,
    query: &[Parameter],
) {
    if operations.is_empty() {
        return;
    }
    let mut shared: Vec<Value> = in_path(path)
        .chain(query.iter().cloned())
        .map(|one| one.to_value())
        .collect();
    shared.extend(take_shared(&mut operations));
    shared.sort_by(|left, right| left["name"].as_str().cmp(&right["name"].as_str()));
    let mut entry: Map<String, Value> = operations
        .into_iter()
        .map(|(method, one)| (method.as_str().to_owned(), one))
        .collect();
    if !shared.is_empty() {
        entry.insert("parameters".to_owned(), shared.into());
    }
    paths.insert(path.to_owned(), entry.into());
}
