//! Parameters of operations: those in the path, and those in the query by what is done.

use serde_json::{Map, Value, json};
use setpoint_kinds::{About, Subresource};
use setpoint_schema::{Of, Pack};

/// What streams of text are.
pub(super) const TEXT: &str = "text/plain";

/// Query parameters with their types, by what is done.
pub(super) const READ: &[(&str, &str)] = &[("pretty", "string")];
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
    of: &'static str,
}

impl Parameter {
    pub(super) fn query(name: &str, of: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            in_path: false,
            of,
        }
    }

    fn path(name: &str) -> Self {
        Self {
            in_path: true,
            ..Self::query(name, "string")
        }
    }

    pub(super) fn to_value(&self) -> Value {
        let schema = json!({"type": self.of, "uniqueItems": true});
        match self.in_path {
            true => json!({"name": self.name, "in": "path", "required": true, "schema": schema}),
            false => json!({"name": self.name, "in": "query", "schema": schema}),
        }
    }
}

/// The parameters that stand in a path, in braces.
pub(super) fn in_path(path: &str) -> impl Iterator<Item = Parameter> {
    path.split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(Parameter::path)
}

/// Takes the parameters that all operations have out of each.
pub(super) fn take_shared(operations: &mut [(&'static str, Value)]) -> Vec<Value> {
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

/// The query parameters of a stream: the fields of its options. Options that go without saying are named after the part.
pub(super) fn of_options(about: &About, part: &Subresource) -> Vec<Parameter> {
    let (group, version, kind) = part.kind;
    let wanted = match kind {
        "" => (
            about.gvk.group.as_str(),
            about.gvk.version.as_str(),
            format!("{}LogOptions", about.gvk.kind),
        ),
        kind => (group, version, kind.to_owned()),
    };
    let shape = Pack::builtin().shape_of(wanted.0, wanted.1, &wanted.2);
    let fields = shape.map(|shape| shape.fields.as_slice()).unwrap_or_default();
    let typed = fields.iter().filter_map(|field| {
        let of = match field.of {
            Of::String => "string",
            Of::Bool => "boolean",
            Of::Int32 | Of::Int64 => "integer",
            _ => return None,
        };
        Some(Parameter::query(&field.name, of))
    });
    typed.collect()
}

/// The methods by which a stream is opened.
pub(super) fn methods(part: &Subresource, proxies: bool) -> Vec<&'static str> {
    let mut methods: Vec<&str> = part
        .verbs
        .iter()
        .filter_map(|verb| match *verb {
            "create" => Some("post"),
            "get" => Some("get"),
            "update" => Some("put"),
            "patch" => Some("patch"),
            "delete" => Some("delete"),
            _ => None,
        })
        .collect();
    if proxies {
        methods.extend(["head", "options"]);
    }
    methods
}

/// Puts operations under a path.
pub(super) fn insert(paths: &mut Map<String, Value>, path: &str, operations: Vec<(&'static str, Value)>) {
    insert_with(paths, path, operations, &[]);
}

/// Puts operations under a path. Parameters that all of them have are the path's.
pub(super) fn insert_with(
    paths: &mut Map<String, Value>,
    path: &str,
    mut operations: Vec<(&'static str, Value)>,
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
        .map(|(method, one)| (method.to_owned(), one))
        .collect();
    if !shared.is_empty() {
        entry.insert("parameters".to_owned(), shared.into());
    }
    paths.insert(path.to_owned(), entry.into());
}
