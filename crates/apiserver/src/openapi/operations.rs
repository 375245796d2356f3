//! The paths of a kind and what may be done there, in OpenAPI, version 3.

use serde_json::{Map, Value, json};
use setpoint_api::Gvk;
use setpoint_codec::{media, protobuf};
use setpoint_kinds::{About, Kind, Subresource};
use setpoint_schema::openapi::Schemas;

use super::parameters::{self, Parameter, insert, insert_with};
use super::words::{title, words};
use crate::connect;

/// A document in the making: the paths and schemas of one group and version.
#[derive(Debug)]
pub(super) struct Paths {
    pub map: Map<String, Value>,
    pub schemas: Schemas,
    root: String,
    /// Group and version as they stand in the name of an operation: `AppsV1`.
    word: String,
    /// And as a tag: `apps_v1`.
    tag: String,
}

/// What a verb is in a document.
struct Act {
    verb: &'static str,
    method: &'static str,
    action: &'static str,
    /// How the operation's name begins.
    word: &'static str,
    query: &'static [(&'static str, &'static str)],
    codes: &'static [(&'static str, &'static str)],
}

const OK: (&str, &str) = ("200", "OK");
const CREATED: (&str, &str) = ("201", "Created");
const ACCEPTED: (&str, &str) = ("202", "Accepted");

#[rustfmt::skip]
const ACTS: [Act; 7] = [
    Act { verb: "list", method: "get", action: "list", word: "list", query: parameters::LIST, codes: &[OK] },
    Act { verb: "create", method: "post", action: "post", word: "create", query: parameters::WRITE, codes: &[OK, CREATED, ACCEPTED] },
    Act { verb: "deletecollection", method: "delete", action: "deletecollection", word: "delete", query: parameters::DELETE_ALL, codes: &[OK] },
    Act { verb: "get", method: "get", action: "get", word: "read", query: parameters::READ, codes: &[OK] },
    Act { verb: "update", method: "put", action: "put", word: "replace", query: parameters::WRITE, codes: &[OK, CREATED] },
    Act { verb: "patch", method: "patch", action: "patch", word: "patch", query: parameters::PATCH, codes: &[OK, CREATED] },
    Act { verb: "delete", method: "delete", action: "delete", word: "delete", query: parameters::DELETE, codes: &[OK, ACCEPTED] },
];
const WATCH: Act = Act {
    verb: "watch",
    method: "get",
    action: "watch",
    word: "watch",
    query: parameters::LIST,
    codes: &[OK],
};
const WATCH_LIST: Act = Act {
    action: "watchlist",
    ..WATCH
};

/// The verbs on a collection; the others are on an object.
const ON_COLLECTION: [&str; 3] = ["list", "create", "deletecollection"];

/// The media types a patch may be written in; the last only for kinds that have a protobuf form.
const PATCH_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
const JSON_STREAM: &str = "application/json;stream=watch";
const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// What one operation takes and gives.
struct Said<'a> {
    gvk: (&'a str, &'a str, &'a str),
    /// How the name of the operation ends: the kind and what follows it.
    subject: String,
    takes: Option<&'a Value>,
    gives: &'a Value,
    binary: bool,
}

impl Paths {
    pub(super) fn new(group: &str, version: &str) -> Self {
        let (word, tag) = words(group);
        Self {
            map: Map::new(),
            schemas: Schemas::new(group, version),
            root: match group {
                "" => format!("/api/{version}"),
                group => format!("/apis/{group}/{version}"),
            },
            word: format!("{word}{}", title(version)),
            tag: format!("{tag}_{version}"),
        }
    }

    /// The path that lists the resources.
    pub(super) fn write_root(&mut self) {
        let list = self.meta("APIResourceList");
        let id = format!("get{}APIResources", self.word);
        let path = format!("{}/", self.root);
        self.map.insert(
            path,
            json!({"get": reading(&id, &self.tag, &list, &plain_types(true))}),
        );
    }

    /// The paths of one kind.
    pub(super) fn write(&mut self, kind: &dyn Kind) {
        let about = kind.about();
        let object = self.object(kind);
        let list = self.list_of(kind, &object);
        let scope = if about.is_namespaced() { "Namespaced" } else { "" };
        let subject = format!("{scope}{}", about.gvk.kind);
        let collection = self.collection(about);
        let single = format!("{collection}/{{name}}");
        let binary = !about.defined && protobuf::has_form(kind.shape());
        let mut on_collection = Vec::new();
        let mut on_object = Vec::new();
        for act in ACTS.iter().filter(|act| about.allows(act.verb)) {
            let gives = self.answer(act, about, (&object, &list));
            let said = Said {
                gvk: (&about.gvk.group, &about.gvk.version, &about.gvk.kind),
                subject: subject.clone(),
                takes: Some(&object),
                gives: &gives,
                binary,
            };
            let described = (act.method, self.describe(act, &said));
            match ON_COLLECTION.contains(&act.verb) {
                true => on_collection.push(described),
                false => on_object.push(described),
            }
        }
        insert(&mut self.map, &collection, on_collection);
        insert(&mut self.map, &single, on_object);
        for part in about.subresources.iter() {
            self.write_part(about, part, (&single, &object), binary);
        }
        self.write_across(about, &list, binary);
        self.write_watches(about, &subject, binary);
    }

    fn collection(&self, about: &About) -> String {
        let (root, plural) = (&self.root, &about.gvr.resource);
        match about.is_namespaced() {
            true => format!("{root}/namespaces/{{namespace}}/{plural}"),
            false => format!("{root}/{plural}"),
        }
    }

    /// The list of all namespaces together.
    fn write_across(&mut self, about: &About, list: &Value, binary: bool) {
        let Some(act) = ACTS
            .first()
            .filter(|act| about.is_namespaced() && about.allows(act.verb))
        else {
            return;
        };
        let subject = format!("{}ForAllNamespaces", about.gvk.kind);
        let said = said(about, subject, list, binary);
        let path = format!("{}/{}", self.root, about.gvr.resource);
        let described = self.describe(act, &said);
        insert(&mut self.map, &path, vec![(act.method, described)]);
    }

    /// The older paths of watches.
    fn write_watches(&mut self, about: &About, subject: &str, binary: bool) {
        if !about.allows(WATCH.verb) {
            return;
        }
        let event = self.meta("WatchEvent");
        let collection = self.collection(about);
        let watched = collection.replacen(&self.root, &format!("{}/watch", self.root), 1);
        let mut places = vec![
            (watched.clone(), format!("{subject}List"), &WATCH_LIST),
            (format!("{watched}/{{name}}"), subject.to_owned(), &WATCH),
        ];
        if about.is_namespaced() {
            let across = format!("{}/watch/{}", self.root, about.gvr.resource);
            places.push((
                across,
                format!("{}ListForAllNamespaces", about.gvk.kind),
                &WATCH_LIST,
            ));
        }
        for (path, subject, act) in places {
            let described = self.describe(act, &said(about, subject, &event, binary));
            insert(&mut self.map, &path, vec![(act.method, described)]);
        }
    }

    fn write_part(&mut self, about: &About, part: &Subresource, (single, own): (&str, &Value), binary: bool) {
        let path = format!("{single}/{}", part.name);
        let scope = if about.is_namespaced() { "Namespaced" } else { "" };
        let subject = format!("{scope}{}{}", about.gvk.kind, title(part.name));
        if connect::is_stream(part) {
            return self.write_connect(about, part, &path, &subject);
        }
        let (gvk, taken) = match part.kind.2 {
            "" => (gvk(&about.gvk), own.clone()),
            kind => {
                let known = self.schemas.reference_to(part.kind.0, part.kind.1, kind);
                (part.kind, known.unwrap_or_else(|| json!({"type": "object"})))
            }
        };
        let said = Said {
            gvk,
            subject,
            takes: Some(&taken),
            gives: &taken,
            binary,
        };
        let acts = ACTS.iter().filter(|act| part.verbs.contains(&act.verb));
        let described = acts.map(|act| (act.method, self.describe(act, &said))).collect();
        insert(&mut self.map, &path, described);
    }

    /// A stream to where the object runs. What takes every verb takes a path behind it as well.
    fn write_connect(&mut self, about: &About, part: &Subresource, path: &str, subject: &str) {
        let query = parameters::of_options(about, part);
        if part.kind.2.is_empty() {
            let mut reading = self.describe(
                &ACTS[3],
                &said(about, subject.to_owned(), &json!({"type": "string"}), true),
            );
            reading["responses"]["200"]["content"][parameters::TEXT] = json!({"schema": {"type": "string"}});
            return insert_with(&mut self.map, path, vec![("get", reading)], &query);
        }
        let proxies = part.verbs.len() == 5;
        let methods: Vec<&str> = parameters::methods(part, proxies);
        for (path, suffix) in [(path.to_owned(), ""), (format!("{path}/{{path}}"), "WithPath")] {
            let described = methods.iter().map(|method| {
                let id = format!("connect{}{}{subject}{suffix}", self.word, title(method));
                (*method, self.connected(&id, part.kind))
            });
            let described = described.collect();
            insert_with(&mut self.map, &path, described, &query);
            if !proxies {
                break;
            }
        }
    }

    fn connected(&self, id: &str, (group, version, kind): (&str, &str, &str)) -> Value {
        let mut described = reading(id, &self.tag, &json!({"type": "string"}), &["*/*"]);
        described["x-kubernetes-action"] = "connect".into();
        described["x-kubernetes-group-version-kind"] =
            json!({"group": group, "kind": kind, "version": version});
        described
    }

    fn answer(&mut self, act: &Act, about: &About, (object, list): (&Value, &Value)) -> Value {
        match act.verb {
            "list" => list.clone(),
            "deletecollection" => self.meta("Status"),
            "delete" if !about.rules.returns_deleted => self.meta("Status"),
            _ => object.clone(),
        }
    }

    /// The schema of a kind.
    fn object(&mut self, kind: &dyn Kind) -> Value {
        let Some((name, mut schema)) = kind.published() else {
            return self.schemas.reference(kind.shape());
        };
        schema["properties"]["metadata"] = json!({"allOf": [self.schemas.metadata_of("ConfigMap")]});
        self.schemas.reference_as(&name, || schema)
    }

    fn list_of(&mut self, kind: &dyn Kind, object: &Value) -> Value {
        let about = kind.about();
        let Gvk { group, version, .. } = &about.gvk;
        if let Some(known) = self.schemas.reference_to(group, version, &about.list_kind) {
            return known;
        }
        let Some((name, _)) = kind.published() else {
            return json!({"type": "object"});
        };
        let metadata = self.schemas.metadata_of("ConfigMapList");
        let name = name.replace(&format!(".{}", about.gvk.kind), &format!(".{}", about.list_kind));
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
                "x-kubernetes-group-version-kind": [{"group": *group, "kind": about.list_kind, "version": *version}],
            })
        })
    }

    fn meta(&mut self, kind: &str) -> Value {
        let known = self.schemas.reference_to("", "v1", kind);
        known.unwrap_or_else(|| json!({"type": "object"}))
    }

    fn describe(&mut self, act: &Act, said: &Said<'_>) -> Value {
        let collection = if act.verb == "deletecollection" {
            "Collection"
        } else {
            ""
        };
        let id = format!("{}{}{collection}{}", act.word, self.word, said.subject);
        let streams = matches!(act.verb, "list" | "watch");
        let types = if streams {
            stream_types(said.binary)
        } else {
            plain_types(said.binary)
        };
        let responses = act.codes.iter().map(|(code, text)| {
            let content: Map<String, Value> = types
                .iter()
                .map(|one| ((*one).to_owned(), json!({"schema": said.gives})))
                .collect();
            (
                (*code).to_owned(),
                json!({"description": text, "content": content}),
            )
        });
        let mut responses: Map<String, Value> = responses.collect();
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        let (group, version, kind) = said.gvk;
        let mut described = json!({
            "tags": [self.tag],
            "operationId": id,
            "parameters": act.query.iter().map(|(name, of)| Parameter::query(name, of).to_value()).collect::<Vec<_>>(),
            "responses": responses,
            "x-kubernetes-action": act.action,
            "x-kubernetes-group-version-kind": {"group": group, "kind": kind, "version": version},
        });
        if let Some(body) = self.body(act, said) {
            described["requestBody"] = body;
        }
        described
    }

    fn body(&mut self, act: &Act, said: &Said<'_>) -> Option<Value> {
        match act.method {
            "post" | "put" => Some(json!({"content": {"*/*": {"schema": said.takes?}}, "required": true})),
            "delete" => {
                let options = self.meta("DeleteOptions");
                Some(json!({"content": {"*/*": {"schema": options}}}))
            }
            "patch" => {
                let name = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
                let patch = self.schemas.reference_as(name, || json!({"type": "object"}));
                let count = if said.binary {
                    PATCH_TYPES.len()
                } else {
                    PATCH_TYPES.len() - 1
                };
                let content: Map<String, Value> = PATCH_TYPES[..count]
                    .iter()
                    .map(|one| ((*one).to_owned(), json!({"schema": patch})))
                    .collect();
                Some(json!({"content": content, "required": true}))
            }
            _ => None,
        }
    }
}

/// A GET that takes nothing.
pub(super) fn reading(id: &str, tag: &str, gives: &Value, types: &[&str]) -> Value {
    let content: Map<String, Value> = types
        .iter()
        .map(|one| ((*one).to_owned(), json!({"schema": gives})))
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

fn said<'a>(about: &'a About, subject: String, gives: &'a Value, binary: bool) -> Said<'a> {
    Said {
        gvk: gvk(&about.gvk),
        subject,
        takes: None,
        gives,
        binary,
    }
}

fn gvk(gvk: &Gvk) -> (&str, &str, &str) {
    (&gvk.group, &gvk.version, &gvk.kind)
}

pub(super) fn plain_types(binary: bool) -> Vec<&'static str> {
    match binary {
        true => vec![media::JSON, media::YAML, media::PROTOBUF],
        false => vec![media::JSON, media::YAML],
    }
}

fn stream_types(binary: bool) -> Vec<&'static str> {
    let mut types = plain_types(binary);
    types.push(JSON_STREAM);
    types.extend(binary.then_some(PROTOBUF_STREAM));
    types
}
