//! The AdmissionReview that is sent to a webhook.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};
use setpoint_api::options::{DeleteOptions, DeletionPropagation, FieldValidation, WriteOptions};
use setpoint_api::{Gvk, Gvr, User};
use setpoint_registry_api::{Operation, OperationOptions, Review};

use super::configuration::ReviewVersion;
use super::object_versions::ObjectVersions;
use crate::matching::{MatchedResource, namespace_of, operation_name};

/// The AdmissionReview of a request, in JSON. The objects are JSON already.
pub(super) fn write(
    (version, uid): (ReviewVersion, &str),
    review: &Review<'_>,
    matched: &MatchedResource,
    objects: &ObjectVersions,
) -> Bytes {
    let mut request = JsonObject::with_capacity(objects.object.len() + objects.old_object.len() + 2048);
    request.member("uid", uid);
    add_names(&mut request, review, matched);
    request.raw("object", &objects.object);
    request.raw("oldObject", &objects.old_object);
    add_options(&mut request, review);
    let mut body = JsonObject::with_capacity(0);
    body.member("kind", "AdmissionReview");
    body.member("apiVersion", &format!("admission.k8s.io/{}", version.name()));
    body.raw("request", &request.finish());
    Bytes::from(body.finish())
}

/// The AdmissionRequest that match conditions see: without its uid and the objects, which are variables of their own.
pub(super) fn write_request(review: &Review<'_>, matched: &MatchedResource) -> Vec<u8> {
    let mut request = JsonObject::with_capacity(1024);
    add_names(&mut request, review, matched);
    add_options(&mut request, review);
    request.finish()
}

fn add_names(request: &mut JsonObject, review: &Review<'_>, matched: &MatchedResource) {
    request.member("kind", &kind(&matched.kind));
    request.member("resource", &resource(&matched.resource));
    request.text("subResource", review.subresource.unwrap_or_default());
    request.member("requestKind", &kind(&review.object_kind()));
    request.member("requestResource", &resource(&review.kind.gvr));
    request.text("requestSubResource", review.subresource.unwrap_or_default());
    request.text("name", review.name);
    request.text("namespace", namespace_of(review));
    request.member("operation", operation_name(review.operation));
    request.member("userInfo", &user_info(review.user));
}

fn add_options(request: &mut JsonObject, review: &Review<'_>) {
    request.member("dryRun", &review.dry_run);
    request.member("options", &options(review));
}

/// A JSON object that is written member by member, in their order.
struct JsonObject(Vec<u8>);

impl JsonObject {
    fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    fn raw(&mut self, name: &str, json: &[u8]) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        self.0.push(b'"');
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
        self.0.extend_from_slice(json);
    }

    fn member(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        let json = serde_json::to_vec(value).expect("text and maps of text are JSON");
        self.raw(name, &json);
    }

    /// A text that is omitted if it is empty.
    fn text(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.member(name, value);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

fn kind(gvk: &Gvk) -> Value {
    json!({"group": gvk.group, "version": gvk.version, "kind": gvk.kind})
}

fn resource(gvr: &Gvr) -> Value {
    json!({"group": gvr.group, "version": gvr.version, "resource": gvr.resource})
}

fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    info.insert("username".to_owned(), user.name.clone().into());
    if !user.uid.is_empty() {
        info.insert("uid".to_owned(), user.uid.clone().into());
    }
    if !user.groups.is_empty() {
        info.insert("groups".to_owned(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        info.insert("extra".to_owned(), json!(user.extra));
    }
    info.into()
}

/// The options of the operation, with what the caller has set.
fn options(review: &Review<'_>) -> Value {
    let options = match review.options {
        OperationOptions::Write(options) => write_options(options),
        OperationOptions::Delete(options) => delete_options(options),
        OperationOptions::None => return Value::Null,
    };
    let kind = match review.operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete | Operation::Connect => "DeleteOptions",
    };
    let mut typed = Map::new();
    typed.insert("kind".to_owned(), kind.into());
    typed.insert("apiVersion".to_owned(), "meta.k8s.io/v1".into());
    typed.extend(options);
    typed.into()
}

fn write_options(options: &WriteOptions) -> Map<String, Value> {
    let mut members = Map::new();
    if options.dry_run {
        members.insert("dryRun".to_owned(), json!(["All"]));
    }
    let manager = options.field_manager.as_deref();
    if let Some(manager) = manager.filter(|_| !options.is_derived_manager) {
        members.insert("fieldManager".to_owned(), manager.into());
    }
    if options.is_explicit_validation {
        let validation = match options.field_validation {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        };
        members.insert("fieldValidation".to_owned(), validation.into());
    }
    members
}

fn delete_options(options: &DeleteOptions) -> Map<String, Value> {
    let mut members = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            members.insert(name.to_owned(), value);
        }
    };
    add("gracePeriodSeconds", options.grace_period_seconds.map(Into::into));
    let mut preconditions = Map::new();
    if let Some(uid) = &options.uid {
        preconditions.insert("uid".to_owned(), uid.clone().into());
    }
    if let Some(version) = &options.resource_version {
        preconditions.insert("resourceVersion".to_owned(), version.clone().into());
    }
    let preconditions = Some(preconditions).filter(|preconditions| !preconditions.is_empty());
    add("preconditions", preconditions.map(Into::into));
    let propagation = options.propagation_policy.map(|policy| match policy {
        DeletionPropagation::Orphan => "Orphan",
        DeletionPropagation::Background => "Background",
        DeletionPropagation::Foreground => "Foreground",
    });
    add("propagationPolicy", propagation.map(Into::into));
    add("dryRun", options.dry_run.then(|| json!(["All"])));
    members
}
