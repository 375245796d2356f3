//! Paths and operations of a kind, in OpenAPI v3.

use serde_json::{Map, Value, json};
use setpoint_api::{ApiVerb, Gvk, HttpVerb};
use setpoint_codec::{media, protobuf};
use setpoint_schema::openapi::Schemas;
use setpoint_strategy::{ConnectKind, Kind, KindInfo, Subresource};

use super::operation_id::{group_names, title};
use super::parameters::{self, Parameter, insert, insert_with};
use super::verb_spec::{GET, LIST, ON_COLLECTION, VERB_SPECS, VerbSpec, WATCH, WATCH_LIST};

/// The paths and schemas of one group and version, under construction.
#[derive(Debug)]
pub(super) struct Paths {
    pub map: Map<String, Value>,
    pub schemas: Schemas,
    root: String,
    /// Group and version in operation ids: `AppsV1`.
    name: String,
    /// Group and version as a tag: `apps_v1`.
    tag: String,
}

/// The media types of a patch; the last only for kinds with a protobuf encoding.
const PATCH_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
const JSON_STREAM: &str = "application/json;stream=watch";
const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Request and response types of an operation.
struct OperationTypes<'a> {
    gvk: (&'a str, &'a str, &'a str),
    /// Suffix of the operation id: the kind and what follows it.
    subject: String,
    request: Option<&'a Value>,
    response: &'a Value,
    protobuf: bool,
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
            name: format!("{name}{}", title(version)),
            tag: format!("{tag}_{version}"),
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
        let scope = if info.is_namespaced() { "Namespaced" } else { "" };
        let subject = format!("{scope}{}", info.gvk.kind);
        let collection = self.collection(info);
        let single = format!("{collection}/{{name}}");
        let has_protobuf = !info.is_custom && protobuf::has_protobuf_form(kind.shape());
        let mut on_collection = Vec::new();
        let mut on_object = Vec::new();
        for spec in VERB_SPECS.iter().filter(|spec| info.allows(spec.verb)) {
            let response = self.response_schema(spec, info, (&object, &list));
            let types = OperationTypes {
                gvk: (&info.gvk.group, &info.gvk.version, &info.gvk.kind),
                subject: subject.clone(),
                request: Some(&object),
                response: &response,
                protobuf: has_protobuf,
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
            self.write_subresource(info, subresource, (&single, &object), has_protobuf);
        }
        self.write_all_namespaces(info, &list, has_protobuf);
        self.write_watches(info, &subject, has_protobuf);
    }

    fn collection(&self, info: &KindInfo) -> String {
        let (root, plural) = (&self.root, &info.gvr.resource);
        match info.is_namespaced() {
            true => format!("{root}/namespaces/{{namespace}}/{plural}"),
            false => format!("{root}/{plural}"),
        }
    }

    /// Writes the list across all namespaces.
    fn write_all_namespaces(&mut self, info: &KindInfo, list: &Value, protobuf: bool) {
        if !info.is_namespaced() || !info.allows(LIST.verb) {
            return;
        }
        let subject = format!("{}ForAllNamespaces", info.gvk.kind);
        let types = read_types(info, subject, list, protobuf);
        let path = format!("{}/{}", self.root, info.gvr.resource);
        let operation = self.operation(&LIST, &types);
        insert(&mut self.map, &path, vec![(LIST.method(), operation)]);
    }

    /// Writes the deprecated `/watch/` paths.
    fn write_watches(&mut self, info: &KindInfo, subject: &str, protobuf: bool) {
        if !info.allows(WATCH.verb) {
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
            let operation = self.operation(spec, &read_types(info, subject, &event, protobuf));
            insert(&mut self.map, &path, vec![(spec.method(), operation)]);
        }
    }

    fn write_subresource(
        &mut self,
        info: &KindInfo,
        subresource: &Subresource,
        (single, object): (&str, &Value),
        protobuf: bool,
    ) {
        let path = format!("{single}/{}", subresource.name);
        let scope = if info.is_namespaced() { "Namespaced" } else { "" };
        let subject = format!("{scope}{}{}", info.gvk.kind, title(subresource.name));
        if let Some(connect) = subresource.connect_kind() {
            return self.write_connect(connect, info, subresource, (&path, &subject));
        }
        let (gvk, schema) = match subresource.body_kind.2 {
            "" => (gvk(&info.gvk), object.clone()),
            kind => {
                let reference =
                    self.schemas
                        .reference_to(subresource.body_kind.0, subresource.body_kind.1, kind);
                (
                    subresource.body_kind,
                    reference.unwrap_or_else(|| json!({"type": "object"})),
                )
            }
        };
        let types = OperationTypes {
            gvk,
            subject,
            request: Some(&schema),
            response: &schema,
            protobuf,
        };
        let specs = VERB_SPECS
            .iter()
            .filter(|spec| subresource.verbs.contains(spec.verb));
        let operations = specs
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
                &read_types(info, subject.to_owned(), &json!({"type": "string"}), true),
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
        let Some((name, mut schema)) = kind.openapi_schema() else {
            return self.schemas.reference(kind.shape());
        };
        schema["properties"]["metadata"] = json!({"allOf": [self.schemas.metadata_of("ConfigMap")]});
        self.schemas.reference_as(&name, || schema)
    }

    fn list_of(&mut self, kind: &dyn Kind, object: &Value) -> Value {
        let info = kind.info();
        let Gvk { group, version, .. } = &info.gvk;
        if let Some(reference) = self.schemas.reference_to(group, version, &info.list_kind) {
            return reference;
        }
        let Some((name, _)) = kind.openapi_schema() else {
            return json!({"type": "object"});
        };
        let metadata = self.schemas.metadata_of("ConfigMapList");
        let name = name.replace(&format!(".{}", info.gvk.kind), &format!(".{}", info.list_kind));
        self.schemas.reference_as(&name, || {
            json!({
                "type": "object",
                "required": ["items"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "items": {"type": "array", "items": object},
                    "kind": {"type": "string"},
                    "metadata": {"allOf": [metadata]},
                },
                "x-kubernetes-group-version-kind": [{"group": *group, "kind": info.list_kind, "version": *version}],
            })
        })
    }

    fn meta(&mut self, kind: &str) -> Value {
        let reference = self.schemas.reference_to("", "v1", kind);
        reference.unwrap_or_else(|| json!({"type": "object"}))
    }

    fn operation(&mut self, spec: &VerbSpec, types: &OperationTypes<'_>) -> Value {
        let collection = if spec.verb == ApiVerb::DeleteCollection {
            "Collection"
        } else {
            ""
        };
        let id = format!("{}{}{collection}{}", spec.prefix(), self.name, types.subject);
        let streams = matches!(spec.verb, ApiVerb::List | ApiVerb::Watch);
        let media_types = if streams {
            stream_types(types.protobuf)
        } else {
            plain_types(types.protobuf)
        };
        let responses = spec.codes.iter().map(|(code, text)| {
            let content: Map<String, Value> = media_types
                .iter()
                .map(|one| ((*one).to_owned(), json!({"schema": types.response})))
                .collect();
            (
                (*code).to_owned(),
                json!({"description": text, "content": content}),
            )
        });
        let mut responses: Map<String, Value> = responses.collect();
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        let (group, version, kind) = types.gvk;
        let mut operation = json!({
            "tags": [self.tag],
            "operationId": id,
            "parameters": spec.query.iter().map(|(name, schema_type)| Parameter::query(name, schema_type).to_value()).collect::<Vec<_>>(),
            "responses": responses,
            "x-kubernetes-action": spec.action,
            "x-kubernetes-group-version-kind": {"group": group, "kind": kind, "version": version},
        });
        if let Some(body) = self.body(spec, types) {
            operation["requestBody"] = body;
        }
        operation
    }

    fn body(&mut self, spec: &VerbSpec, types: &OperationTypes<'_>) -> Option<Value> {
        match spec.verb {
            ApiVerb::Create | ApiVerb::Update => {
                Some(json!({"content": {"*/*": {"schema": types.request?}}, "required": true}))
            }
            ApiVerb::Delete | ApiVerb::DeleteCollection => {
                let options = self.meta("DeleteOptions");
                Some(json!({"content": {"*/*": {"schema": options}}}))
            }
            ApiVerb::Patch => {
                let name = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
                let patch = self.schemas.reference_as(name, || json!({"type": "object"}));
                let count = PATCH_TYPES.len() - usize::from(!types.protobuf);
                let content: Map<String, Value> = PATCH_TYPES[..count]
                    .iter()
                    .map(|one| ((*one).to_owned(), json!({"schema": patch})))
                    .collect();
                Some(json!({"content": content, "required": true}))
            }
            ApiVerb::Get | ApiVerb::List | ApiVerb::Watch => None,
        }
    }
}

/// A GET without a request body.
pub(super) fn get_operation(id: &str, tag: &str, response: &Value, types: &[&str]) -> Value {
    let content: Map<String, Value> = types
        .iter()
        .map(|one| ((*one).to_owned(), json!({"schema": response})))
        .collect();
    json!({
        "tags": [tag],
        "operationId": id,
        "responses": {
            "200": {"description": "OK", "content": content},
            "401": {"description": "Unauthorized"},
        },
    })
}

fn read_types<'a>(
    info: &'a KindInfo,
    subject: String,
    response: &'a Value,
    protobuf: bool,
) -> OperationTypes<'a> {
    OperationTypes {
        gvk: gvk(&info.gvk),
        subject,
        request: None,
        response,
        protobuf,
    }
}

fn gvk(gvk: &Gvk) -> (&str, &str, &str) {
    (&gvk.group, &gvk.version, &gvk.kind)
}

pub(super) fn plain_types(protobuf: bool) -> Vec<&'static str> {
    match protobuf {
        true => vec![media::JSON, media::YAML, media::PROTOBUF],
        false => vec![media::JSON, media::YAML],
    }
}

fn stream_types(protobuf: bool) -> Vec<&'static str> {
    let mut types = plain_types(protobuf);
    types.push(JSON_STREAM);
    types.extend(protobuf.then_some(PROTOBUF_STREAM));
    types
}
