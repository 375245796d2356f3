//! Encoding of API requests as HTTP: method, path with query, body.

use std::fmt::{Display, Write};
use std::sync::Arc;

use ::http::Method;
use bytes::Bytes;
use serde::Serialize;
use setpoint_api::call::Encoding;
use setpoint_api::options::{
    DeleteOptions, DeletionPropagation, FieldValidation, ListOptions, PatchType, ResourceVersionMatch,
    WatchOptions, WriteOptions,
};
use setpoint_api::{Payload, Request, Target, User, Verb};
use setpoint_codec::media::{JSON, PROTOBUF, YAML};
use setpoint_codec::protobuf::builtin;

use super::encoding::WireFormat;

/// An API request as HTTP.
#[derive(Debug)]
pub(crate) struct EncodedRequest {
    pub(crate) method: Method,
    /// From the root of the API, with the query.
    pub(crate) path: String,
    pub(crate) content_type: Option<&'static str>,
    pub(crate) body: Bytes,
    /// The user, where it is known.
    pub(crate) user: Option<Arc<User>>,
}

/// A query string under construction.
#[derive(Debug, Default)]
struct Query(String);

impl EncodedRequest {
    /// A GET of a non-resource path.
    pub(crate) fn get(path: &str) -> Self {
        Self {
            method: Method::GET,
            path: path.to_owned(),
            content_type: None,
            body: Bytes::new(),
            user: None,
        }
    }

    /// A POST of a JSON body to a non-resource path.
    pub(crate) fn post(path: &str, body: Bytes) -> Self {
        Self {
            method: Method::POST,
            path: path.to_owned(),
            content_type: Some("application/json"),
            body,
            user: None,
        }
    }

    pub(crate) fn encode(request: &Request, format: WireFormat) -> Self {
        let mut query = Query::default();
        let (method, content_type, body) = match &request.verb {
            Verb::Get(options) => {
                query.add("resourceVersion", options.resource_version);
                (Method::GET, None, Bytes::new())
            }
            Verb::List(options) => {
                query.list(options);
                (Method::GET, None, Bytes::new())
            }
            Verb::Watch(options) => {
                query.watch(options);
                (Method::GET, None, Bytes::new())
            }
            Verb::Create(payload, options) => {
                query.write(options);
                let (content_type, body) = encode_body(payload, format);
                (Method::POST, Some(content_type), body)
            }
            Verb::Update(payload, options) => {
                query.write(options);
                let (content_type, body) = encode_body(payload, format);
                (Method::PUT, Some(content_type), body)
            }
            Verb::Patch(kind, payload, options) => {
                query.write(options);
                (
                    Method::PATCH,
                    Some(patch_content_type(*kind)),
                    payload.bytes.clone(),
                )
            }
            Verb::Delete(options) => (Method::DELETE, Some(JSON), delete_options(options)),
            Verb::DeleteCollection(options, which) => {
                query.list(which);
                (Method::DELETE, Some(JSON), delete_options(options))
            }
        };
        let path = path_of(&request.target) + &query.0;
        Self {
            method,
            path,
            content_type,
            body,
            user: Some(request.user.clone()),
        }
    }
}

/// The content type and the body: protobuf if that is the format and no field gets lost by it.
fn encode_body(payload: &Payload, format: WireFormat) -> (&'static str, Bytes) {
    if format == WireFormat::Protobuf
        && payload.encoding == Encoding::Json
        && let Some(encoded) = builtin::seal_json(&payload.bytes)
    {
        return (PROTOBUF, encoded.into());
    }
    let content_type = match payload.encoding {
        Encoding::Json => JSON,
        Encoding::Yaml => YAML,
        Encoding::Protobuf => PROTOBUF,
    };
    (content_type, payload.bytes.clone())
}

fn patch_content_type(kind: PatchType) -> &'static str {
    match kind {
        PatchType::Json => "application/json-patch+json",
        PatchType::Merge => "application/merge-patch+json",
        PatchType::StrategicMerge => "application/strategic-merge-patch+json",
        PatchType::Apply => "application/apply-patch+yaml",
    }
}

fn path_of(target: &Target) -> String {
    let resource = &target.resource;
    let mut path = match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    if let Some(namespace) = &target.namespace {
        path.push_str("/namespaces/");
        escape(&mut path, namespace);
    }
    let parts = [
        Some(&resource.resource),
        target.name.as_ref(),
        target.subresource.as_ref(),
    ];
    for part in parts.into_iter().flatten() {
        path.push('/');
        escape(&mut path, part);
    }
    path
}

fn delete_options(options: &DeleteOptions) -> Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct DeleteOptionsBody<'a> {
        kind: &'static str,
        api_version: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        grace_period_seconds: Option<i64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        propagation_policy: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        preconditions: Option<Preconditions<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        dry_run: Option<[&'static str; 1]>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Preconditions<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        uid: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        resource_version: Option<&'a str>,
    }
    let (uid, resource_version) = (options.uid.as_deref(), options.resource_version.as_deref());
    let body = DeleteOptionsBody {
        kind: "DeleteOptions",
        api_version: "v1",
        grace_period_seconds: options.grace_period_seconds,
        propagation_policy: options.propagation_policy.map(|propagation| match propagation {
            DeletionPropagation::Orphan => "Orphan",
            DeletionPropagation::Background => "Background",
            DeletionPropagation::Foreground => "Foreground",
        }),
        preconditions: (uid.is_some() || resource_version.is_some()).then_some(Preconditions {
            uid,
            resource_version,
        }),
        dry_run: options.dry_run.then_some(["All"]),
    };
    setpoint_api::json::to_vec(&body)
        .expect("options are strings and numbers")
        .into()
}

// === impl Query ===

impl Query {
    fn list(&mut self, options: &ListOptions) {
        self.text("labelSelector", &options.labels.to_string());
        self.text("fieldSelector", &options.fields.to_string());
        self.add("limit", options.limit);
        self.text("continue", options.continue_token.as_deref().unwrap_or_default());
        self.add("resourceVersion", options.resource_version);
        self.add(
            "resourceVersionMatch",
            options.resource_version_match.map(version_match),
        );
    }

    fn watch(&mut self, options: &WatchOptions) {
        self.add("watch", Some(true));
        self.text("labelSelector", &options.labels.to_string());
        self.text("fieldSelector", &options.fields.to_string());
        self.add("resourceVersion", options.resource_version);
        self.add(
            "resourceVersionMatch",
            options.resource_version_match.map(version_match),
        );
        self.add(
            "allowWatchBookmarks",
            options.allow_watch_bookmarks.then_some(true),
        );
        self.add("sendInitialEvents", options.send_initial_events);
        self.add("timeoutSeconds", options.timeout.map(|timeout| timeout.as_secs()));
    }

    fn write(&mut self, options: &WriteOptions) {
        self.add("dryRun", options.dry_run.then_some("All"));
        self.text(
            "fieldManager",
            options.field_manager.as_deref().unwrap_or_default(),
        );
        self.add(
            "fieldValidation",
            match options.field_validation {
                FieldValidation::Ignore => Some("Ignore"),
                FieldValidation::Warn => None,
                FieldValidation::Strict => Some("Strict"),
            },
        );
        self.add("force", options.force.then_some(true));
    }

    fn add(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.text(name, &value.to_string());
        }
    }

    fn text(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(name);
        self.0.push('=');
        escape(&mut self.0, value);
    }
}

fn version_match(version_match: ResourceVersionMatch) -> &'static str {
    match version_match {
        ResourceVersionMatch::NotOlderThan => "NotOlderThan",
        ResourceVersionMatch::Exact => "Exact",
    }
}

/// The text with all characters percent-encoded that are not unreserved (RFC 3986).
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape(&mut out, text);
    out
}

/// Percent-encodes all characters that are not unreserved (RFC 3986).
fn escape(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte => write!(out, "%{byte:02X}").expect("writing to a string cannot fail"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use setpoint_api::options::GetOptions;
    use setpoint_api::{Gvr, Key, ResourceVersion};

    use super::*;

    fn pods() -> Gvr {
        Gvr::new("", "v1", "pods")
    }

    fn encode(target: Target, verb: Verb) -> EncodedRequest {
        let user = Arc::new(User::anonymous());
        EncodedRequest::encode(&Request { user, target, verb }, WireFormat::Json)
    }

    #[track_caller]
    fn check(target: Target, verb: Verb, expected: &str) {
        let encoded = encode(target, verb);
        assert_eq!(format!("{} {}", encoded.method, encoded.path), expected);
    }

    #[test]
    fn targets_are_paths() {
        let get = || Verb::Get(GetOptions::default());
        let pod = || Target::object(pods(), &Key::new("a", "web-1"));
        check(pod(), get(), "GET /api/v1/namespaces/a/pods/web-1");
        check(
            pod().subresource("status"),
            get(),
            "GET /api/v1/namespaces/a/pods/web-1/status",
        );
        let node = Target::object(Gvr::new("", "v1", "nodes"), &Key::new("", "n1"));
        check(node, get(), "GET /api/v1/nodes/n1");
        let role = Gvr::new("rbac.authorization.k8s.io", "v1", "clusterroles");
        let role = Target::object(role, &Key::new("", "system:node"));
        check(
            role,
            get(),
            "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
        );
    }

    #[test]
    fn list_and_watch_options_are_queries() {
        let options = ListOptions {
            labels: "app=web,tier in (a, b)".parse().unwrap(),
            limit: Some(500),
            continue_token: Some("t=".to_owned()),
            resource_version: Some(ResourceVersion::ZERO),
            resource_version_match: Some(ResourceVersionMatch::NotOlderThan),
            ..ListOptions::default()
        };
        let query = "labelSelector=app%3Dweb%2Ctier%20in%20%28a%2Cb%29&limit=500&continue=t%3D\
                     &resourceVersion=0&resourceVersionMatch=NotOlderThan";
        check(
            Target::all(pods()),
            Verb::List(options),
            &format!("GET /api/v1/pods?{query}"),
        );
        let options = WatchOptions {
            fields: "spec.nodeName=n1".parse().unwrap(),
            resource_version: Some(ResourceVersion(7)),
            allow_watch_bookmarks: true,
            send_initial_events: Some(false),
            timeout: Some(Duration::from_secs(300)),
            ..WatchOptions::default()
        };
        let query = "watch=true&fieldSelector=spec.nodeName%3Dn1&resourceVersion=7&allowWatchBookmarks=true\
                     &sendInitialEvents=false&timeoutSeconds=300";
        check(
            Target::in_namespace(pods(), "a"),
            Verb::Watch(options),
            &format!("GET /api/v1/namespaces/a/pods?{query}"),
        );
    }

    #[test]
    fn writes_have_their_options() {
        let options = WriteOptions {
            dry_run: true,
            field_manager: Some("me".to_owned()),
            field_validation: FieldValidation::Strict,
            force: true,
            ..WriteOptions::default()
        };
        let patch = Verb::Patch(PatchType::Apply, Payload::json("{}"), options);
        let target = Target::object(pods(), &Key::new("a", "x"));
        let encoded = encode(target, patch);
        assert_eq!(encoded.content_type, Some("application/apply-patch+yaml"));
        let path = "/api/v1/namespaces/a/pods/x?dryRun=All&fieldManager=me&fieldValidation=Strict&force=true";
        assert_eq!(encoded.path, path);
    }

    #[test]
    fn delete_options_are_a_body() {
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            propagation_policy: Some(DeletionPropagation::Foreground),
            uid: Some("u".to_owned()),
            ..DeleteOptions::default()
        };
        let encoded = encode(Target::object(pods(), &Key::new("a", "x")), Verb::Delete(options));
        let expected = r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"propagationPolicy":"Foreground","preconditions":{"uid":"u"}}"#;
        assert_eq!(
            (encoded.method, encoded.body.as_ref()),
            (Method::DELETE, expected.as_bytes())
        );
    }
}
