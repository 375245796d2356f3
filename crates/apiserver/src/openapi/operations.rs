//! Paths and operations of a kind, in OpenAPI v3.

use serde_json::{Map, Value, json};
use setpoint_api::{ApiVerb, Gvk, HttpVerb};
use setpoint_codec::protobuf;
use setpoint_schema::openapi::{OpenApiVersion, Schemas, descriptions};
use setpoint_strategy::custom::selectable_fields;
use setpoint_strategy::{ConnectKind, Kind, KindInfo, Subresource};

use super::operation::{Encodings, OperationTypes, get_operation, plain_types};
use super::operation_id::{camel_case, group_names, title};
use super::parameters::{self, insert, insert_with};
use super::verb_spec::{
    CUSTOM_VERB_SPECS, GET, LIST, ON_COLLECTION, VERB_SPECS, VerbSpec, WATCH, WATCH_LIST,
};

/// The paths and schemas of one group and version, under construction.
#[derive(Debug)]
pub(super) struct Paths {
    pub map: Map<String, Value>,
    pub schemas: Schemas,
    root: String,
    /// Group and version in operation ids: `AppsV1`.
    pub name: String,
    /// Group and version as a tag: `apps_v1`.
    pub tag: String,
}

impl Paths {
    pub(super) fn new(group: &str, version: &str) -> Self {
        let (name, tag) = group_names(group);
        Self {
            map: Map::new(),
            schemas: Schemas::new(group, version),
            root: match group {
                "" => format!("/api/{version}"),
                group => format!("/apis/{group}/{version}"),
            },
            name: format!("{name}{}", camel_case(version, true)),
            tag: format!("{tag}_{}", camel_case(version, false)),
        }
    }

    /// Writes the path of the APIResourceList.
    pub(super) fn write_root(&mut self) {
        let list = self.meta("APIResourceList");
        let id = format!("get{}APIResources", self.name);
        let path = format!("{}/", self.root);
        self.map.insert(
            path,
            json!({HttpVerb::Get.as_str(): get_operation(&id, &self.tag, &list, &plain_types(true))}),
        );
    }

    /// Writes the paths of one kind.
    pub(super) fn write(&mut self, kind: &dyn Kind) {
        let info = kind.info();
        let object = self.object(kind);
        let list = self.list_of(kind, &object);
        let subject = format!("{}{}", scope(info), info.gvk.kind);
        let collection = self.collection(info);
        let single = format!("{collection}/{{name}}");
        let encodings = match info.is_custom {
            true => Encodings::Custom,
            false if protobuf::has_protobuf_form(kind.shape()) => Encodings::Protobuf,
            false => Encodings::Json,
        };
        let mut on_collection = Vec::new();
        let mut on_object = Vec::new();
        for spec in verb_specs(info).iter().filter(|spec| info.allows(spec.verb)) {
            let response = self.response_schema(spec, info, (&object, &list));
            let types = OperationTypes {
                request: Some(&object),
                ..OperationTypes::read(info, subject.clone(), &response, encodings)
            };
            let operation = (spec.method(), self.operation(spec, &types));
            match ON_COLLECTION.contains(spec.verb) {
                true => on_collection.push(operation),
                false => on_object.push(operation),
            }
        }
        insert(&mut self.map, &collection, on_collection);
        insert(&mut self.map, &single, on_object);
        for subresource in info.subresources.iter() {
            self.write_subresource(info, subresource, (&single, &object), encodings);
        }
        self.write_all_namespaces(info, &list, encodings);
        self.write_watches(info, &subject, encodings);
    }

    fn collection(&self, info: &KindInfo) -> String {
        let (root, plural) = (&self.root, &info.gvr.resource);
        match info.is_namespaced() {
            true => format!("{root}/namespaces/{{namespace}}/{plural}"),
            false => format!("{root}/{plural}"),
        }
    }

    /// Writes the list across all namespaces.
    fn write_all_namespaces(&mut self, info: &KindInfo, list: &Value, encodings: Encodings) {
        if !info.is_namespaced() || !info.allows(LIST.verb) {
            return;
        }
        let subject = format!("{}ForAllNamespaces", info.gvk.kind);
        let types = OperationTypes::read(info, subject, list, encodings);
        let path = format!("{}/{}", self.root, info.gvr.resource);
        let operation = self.operation(&LIST, &types);
        insert(&mut self.map, &path, vec![(LIST.method(), operation)]);
    }

    /// Writes the deprecated `/watch/` paths, which custom kinds do not have.
    fn write_watches(&mut self, info: &KindInfo, subject: &str, encodings: Encodings) {
        if !info.allows(WATCH.verb) || info.is_custom {
            return;
        }
        let event = self.meta("WatchEvent");
        let collection = self.collection(info);
        let watched = collection.replacen(&self.root, &format!("{}/watch", self.root), 1);
        let mut paths = vec![
            (watched.clone(), format!("{subject}List"), &WATCH_LIST),
            (format!("{watched}/{{name}}"), subject.to_owned(), &WATCH),
        ];
        if info.is_namespaced() {
            let all_namespaces = format!("{}/watch/{}", self.root, info.gvr.resource);
            paths.push((
                all_namespaces,
                format!("{}ListForAllNamespaces", info.gvk.kind),
                &WATCH_LIST,
            ));
        }
        for (path, subject, spec) in paths {
            let operation = self.operation(spec, &OperationTypes::read(info, subject, &event, encodings));
            insert(&mut self.map, &path, vec![(spec.method(), operation)]);
        }
    }

    fn write_subresource(
        &mut self,
        info: &KindInfo,
        subresource: &Subresource,
        (single, object): (&str, &Value),
        encodings: Encodings,
    ) {
        let path = format!("{single}/{}", subresource.name);
        let subject = format!("{}{}{}", scope(info), info.gvk.kind, title(subresource.name));
        if let Some(connect) = subresource.connect_kind() {
            return self.write_connect(connect, info, subresource, (&path, &subject));
        }
        let (group, version, kind) = subresource.body_kind;
        let schema = match kind {
            "" => object.clone(),
            kind => {
                let reference = self.schemas.reference_to(group, version, kind);
                reference.unwrap_or_else(|| json!({"type": "object"}))
            }
        };
        let mut types = OperationTypes {
            request: Some(&schema),
            subresource: subresource.name,
            ..OperationTypes::read(info, subject, &schema, encodings)
        };
        // The operations of a custom kind's scale have the kind's own name.
        if !kind.is_empty() && !info.is_custom {
            types.gvk = subresource.body_kind;
        }
        let specs = verb_specs(info).iter();
        let operations = specs
            .filter(|spec| subresource.verbs.contains(spec.verb))
            .map(|spec| (spec.method(), self.operation(spec, &types)))
            .collect();
        insert(&mut self.map, &path, operations);
    }

    /// Writes a connect subresource. A proxy, which takes every verb, takes a path as well.
    fn write_connect(
        &mut self,
        connect: ConnectKind,
        info: &KindInfo,
        subresource: &Subresource,
        (path, subject): (&str, &str),
    ) {
        let query = parameters::connect_options(info, subresource);
        if connect == ConnectKind::Log {
            let mut operation = self.operation(
                &GET,
                &OperationTypes::read(
                    info,
                    subject.to_owned(),
                    &json!({"type": "string"}),
                    Encodings::Protobuf,
                ),
            );
            operation["responses"]["200"]["content"][parameters::TEXT] =
                json!({"schema": {"type": "string"}});
            return insert_with(&mut self.map, path, vec![(GET.method(), operation)], &query);
        }
        let methods = parameters::methods(connect, subresource);
        for (path, suffix) in [(path.to_owned(), ""), (format!("{path}/{{path}}"), "WithPath")] {
            let operations = methods.iter().map(|method| {
                let id = format!("connect{}{}{subject}{suffix}", self.name, title(method.as_str()));
                (*method, self.connect_operation(&id, subresource.body_kind))
            });
            let operations = operations.collect();
            insert_with(&mut self.map, &path, operations, &query);
            if !connect.is_proxy() {
                break;
            }
        }
    }

    fn connect_operation(&self, id: &str, (group, version, kind): (&str, &str, &str)) -> Value {
        let mut operation = get_operation(id, &self.tag, &json!({"type": "string"}), &["*/*"]);
        operation["x-kubernetes-action"] = "connect".into();
        operation["x-kubernetes-group-version-kind"] =
            json!({"group": group, "kind": kind, "version": version});
        operation
    }

    fn response_schema(
        &mut self,
        spec: &VerbSpec,
        info: &KindInfo,
        (object, list): (&Value, &Value),
    ) -> Value {
        match spec.verb {
            ApiVerb::List => list.clone(),
            ApiVerb::DeleteCollection => self.meta("Status"),
            ApiVerb::Delete if !info.rules.deletion.returns_deleted => self.meta("Status"),
            _ => object.clone(),
        }
    }

    /// The schema of a kind.
    fn object(&mut self, kind: &dyn Kind) -> Value {
        let Some((name, schema)) = kind.openapi_schema(OpenApiVersion::V3) else {
            return self.schemas.reference(kind.shape());
        };
        // The schema refers to the metadata of objects.
        self.schemas.metadata_of("ConfigMap");
        self.schemas.reference_as(&name, || schema)
    }

    fn list_of(&mut self, kind: &dyn Kind, object: &Value) -> Value {
        let info = kind.info();
        let Gvk { group, version, .. } = &info.gvk;
        if let Some(reference) = self.schemas.reference_to(group, version, &info.list_kind) {
            self.schemas
                .describe_list(&reference, &info.gvk.kind, &info.names.plural);
            return reference;
        }
        let Some(name) = object["$ref"].as_str().filter(|_| info.is_custom) else {
            return json!({"type": "object"});
        };
        let metadata = self.schemas.metadata_of("ConfigMapList");
        let name = name.rsplit('/').next().unwrap_or_default();
        let name = name.replace(&format!(".{}", info.gvk.kind), &format!(".{}", info.list_kind));
        let reference = self.schemas.reference_as(&name, || {
            let mut list = json!({
                "type": "object",
                "required": ["items"],
                "properties": {
                    "apiVersion": {"description": descriptions::API_VERSION, "type": "string"},
                    "items": {"type": "array", "items": object},
                    "kind": {"description": descriptions::KIND, "type": "string"},
                    "metadata": {"description": descriptions::LIST_METADATA, "allOf": [metadata]},
                },
                "x-kubernetes-group-version-kind": [{"group": *group, "kind": info.list_kind, "version": *version}],
            });
            if let (Value::Object(list), Some(fields)) = (&mut list, selectable_fields(info)) {
                list.extend([fields]);
            }
            list
        });
        self.schemas
            .describe_list(&reference, &info.gvk.kind, &info.names.plural);
        reference
    }

    pub(super) fn meta(&mut self, kind: &str) -> Value {
        let reference = self.schemas.reference_to("", "v1", kind);
        reference.unwrap_or_else(|| json!({"type": "object"}))
    }
}

/// The prefix of the kind in operation ids.
fn scope(info: &KindInfo) -> &'static str {
    if info.is_namespaced() { "Namespaced" } else { "" }
}

fn verb_specs(info: &KindInfo) -> &'static [VerbSpec] {
    if info.is_custom {
        &CUSTOM_VERB_SPECS
    } else {
        &VERB_SPECS
    }
}
