//! CustomResourceDefinitions of the kinds of KUDO.

use serde_json::{Value, json};

/// The CRDs of Operator, OperatorVersion and Instance.
pub fn all() -> [Value; 3] {
    [
        crd(["Operator", "operators", "operator"], operator(), false),
        crd(
            ["OperatorVersion", "operatorversions", "operatorversion"],
            operator_version(),
            false,
        ),
        crd(["Instance", "instances", "instance"], instance(), true),
    ]
}

fn crd([kind, plural, singular]: [&str; 3], [spec, status]: [Value; 2], has_status: bool) -> Value {
    let schema = object(&[
        ("apiVersion", text()),
        ("kind", text()),
        ("metadata", json!({"type": "object"})),
        ("spec", spec),
        ("status", status),
    ]);
    let mut version = json!({
        "name": "v1beta1",
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": schema},
    });
    if has_status {
        version["subresources"] = json!({"status": {}});
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.kudo.dev"),
            "labels": {"app": "kudo-manager"},
        },
        "spec": {
            "group": "kudo.dev",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": singular},
            "scope": "Namespaced",
            "versions": [version],
        },
    })
}

fn operator() -> [Value; 2] {
    let maintainer = object(&[("name", text()), ("email", text())]);
    let spec = object(&[
        ("description", text()),
        ("kubernetesVersion", text()),
        ("kudoVersion", text()),
        ("maintainers", list(maintainer)),
        ("namespaceManifest", text()),
        ("url", text()),
    ]);
    [spec, json!({"type": "object"})]
}

fn operator_version() -> [Value; 2] {
    let spec = object(&[
        ("operator", reference()),
        ("version", text()),
        ("appVersion", text()),
        ("connectionString", text()),
        ("templates", map(text())),
        ("tasks", list(task())),
        ("parameters", list(parameter())),
        ("plans", nullable(map(plan()))),
        ("upgradableFrom", list(reference())),
    ]);
    [spec, json!({"type": "object"})]
}

fn task() -> Value {
    let pipe = object(&[
        ("file", text()),
        ("envFile", text()),
        ("kind", text()),
        ("key", text()),
    ]);
    let spec = object(&[
        ("resources", nullable(list(text()))),
        ("wantErr", boolean()),
        ("fatal", boolean()),
        ("done", boolean()),
        ("pod", text()),
        ("pipe", nullable(list(pipe))),
        ("parameter", text()),
        ("package", text()),
        ("instanceName", text()),
        ("appVersion", text()),
        ("operatorVersion", text()),
        ("parameterFile", text()),
    ]);
    object(&[("name", text()), ("kind", text()), ("spec", spec)])
}

fn parameter() -> Value {
    object(&[
        ("displayName", text()),
        ("name", text()),
        ("description", text()),
        ("required", boolean()),
        ("default", text()),
        ("trigger", text()),
        ("value-type", text()),
        ("immutable", boolean()),
        ("enum", list(text())),
    ])
}

fn plan() -> Value {
    let step = object(&[("name", text()), ("tasks", list(text()))]);
    let phase = object(&[("name", text()), ("strategy", text()), ("steps", list(step))]);
    object(&[("strategy", text()), ("phases", nullable(list(phase)))])
}

fn instance() -> [Value; 2] {
    let execution = object(&[("planName", text()), ("status", text()), ("uid", text())]);
    let spec = object(&[
        ("operatorVersion", reference()),
        ("parameters", map(text())),
        ("planExecution", execution),
    ]);
    let state = [("name", text()), ("status", text()), ("message", text())];
    let step = object(&state);
    let phase = object(&[&state[..], &[("steps", list(step))]].concat());
    let updated = nullable(json!({"type": "string", "format": "date-time"}));
    let own = [
        ("uid", text()),
        ("lastUpdatedTimestamp", updated),
        ("phases", list(phase)),
    ];
    let plan = object(&[&state[..], &own].concat());
    let status = object(&[("planStatus", map(plan)), ("conditions", list(condition()))]);
    [spec, status]
}

fn condition() -> Value {
    let mut condition = object(&[
        (
            "lastTransitionTime",
            json!({"type": "string", "format": "date-time"}),
        ),
        ("message", json!({"type": "string", "maxLength": 32768})),
        (
            "observedGeneration",
            json!({"type": "integer", "format": "int64", "minimum": 0}),
        ),
        (
            "reason",
            json!({
                "type": "string",
                "minLength": 1,
                "maxLength": 1024,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            }),
        ),
        (
            "status",
            json!({"type": "string", "enum": ["True", "False", "Unknown"]}),
        ),
        ("type", json!({"type": "string", "maxLength": 316})),
    ]);
    condition["required"] = json!(["lastTransitionTime", "message", "reason", "status", "type"]);
    condition
}

fn reference() -> Value {
    let fields = [
        "apiVersion",
        "fieldPath",
        "kind",
        "name",
        "namespace",
        "resourceVersion",
        "uid",
    ];
    object(&fields.map(|field| (field, text())))
}

fn object(properties: &[(&str, Value)]) -> Value {
    let properties: serde_json::Map<String, Value> = properties
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    json!({"type": "object", "properties": properties})
}

fn map(values: Value) -> Value {
    json!({"type": "object", "additionalProperties": values})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn boolean() -> Value {
    json!({"type": "boolean"})
}

fn nullable(mut schema: Value) -> Value {
    schema["nullable"] = true.into();
    schema
}
