//! The `TokenRequest` API: issues a token for a service account, bound to the referenced object.
//!
//! The rules and messages are those of `pkg/registry/core/serviceaccount/storage/token.go` in Kubernetes.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use setpoint_api::field::Errors;
use setpoint_api::{GroupResource, Gvk, Key, Status, Stored};
use setpoint_cache::Caches;
use setpoint_schema::Tree;
use setpoint_schema::time::{Precision, from_unix};
use setpoint_schema::tree::from_tree;

use super::claims::{Claims, Kubernetes, Ref};
use super::issuer::Issuer;
use crate::authorize::rule::nullable_list;
use crate::service_account;

const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;
/// The expiration that the kubelet requests for projected tokens of pods. The odd value identifies them.
const PROJECTED_SECONDS: i64 = 3607;
/// The extended expiration of such a token, so that programs that read it only once keep working.
const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;

/// A request for a token of a service account.
#[allow(missing_debug_implementations, reason = "caches have no Debug")]
pub struct TokenRequest<'a> {
    pub account: &'a Stored,
    /// The `TokenRequest`.
    pub body: Tree,
    pub caches: &'a dyn Caches,
    pub now: Timestamp,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RequestObject {
    metadata: Meta,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Meta {
    name: String,
    namespace: String,
    uid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "nullable_list")]
    audiences: Vec<String>,
    expiration_seconds: Option<i64>,
    bound_object_ref: Option<BoundRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BoundRef {
    kind: String,
    api_version: String,
    name: String,
    uid: String,
}

/// The fields of a pod that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod {
    spec: PodSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    service_account_name: String,
    node_name: String,
}

/// Checks a request, and completes its metadata and its audiences. Validating admission sees it like this.
pub fn prepare(issuer: &Issuer, account: &Stored, body: &mut Tree, now: Timestamp) -> Result<(), Status> {
    let request = read(body)?;
    check_identity(&request.metadata, account)?;
    check_seconds(request.spec.expiration_seconds.unwrap_or(DEFAULT_SECONDS))?;
    if request.spec.audiences.is_empty() {
        let audiences = issuer.audiences.iter().map(|one| Tree::from(one.as_str()));
        body.set(&["spec", "audiences"], audiences.collect::<Vec<_>>());
    }
    body.set(&["metadata", "name"], account.key().name());
    body.set(&["metadata", "namespace"], account.key().namespace());
    body.set(&["metadata", "uid"], account.uid());
    body.set(&["metadata", "creationTimestamp"], time(now.as_second()));
    body.take(&["status"]);
    Ok(())
}

/// Issues the token, and returns the request object with its status set.
pub fn issue(issuer: &Issuer, mut token_request: TokenRequest<'_>) -> Result<Tree, Status> {
    let (account, now) = (token_request.account, token_request.now);
    prepare(issuer, account, &mut token_request.body, now)?;
    let request = read(&token_request.body)?;
    let mut seconds = request.spec.expiration_seconds.unwrap_or(DEFAULT_SECONDS);
    let mut claims = claims_of(issuer, &token_request, &request.spec.audiences);
    if let Some(bound) = &request.spec.bound_object_ref {
        bind(&mut claims.kubernetes, bound, &token_request)?;
    }
    seconds = seconds.min(issuer.max_expiration_seconds.unwrap_or(i64::MAX));
    set_times(issuer, &mut claims, seconds, token_request.now);
    let token = issuer.sign(&claims).map_err(Status::internal)?;
    Ok(with_status(token_request, seconds, &token))
}

fn read(body: &Tree) -> Result<RequestObject, Status> {
    from_tree(body).map_err(|error| Status::bad_request(error.to_string()))
}

/// Checks that the request's metadata matches the service account.
fn check_identity(meta: &Meta, account: &Stored) -> Result<(), Status> {
    let (namespace, name) = (account.key().namespace(), account.key().name());
    let errors = Errors::default();
    if !meta.name.is_empty() && meta.name != name {
        let detail = "must match the service account name if specified";
        errors
            .at("metadata")
            .at("name")
            .invalid(meta.name.as_str(), detail);
    } else if !meta.namespace.is_empty() && meta.namespace != namespace {
        let detail = "must match the service account namespace if specified";
        errors
            .at("metadata")
            .at("namespace")
            .invalid(meta.namespace.as_str(), detail);
    }
    if !errors.is_empty() {
        return Err(Status::invalid(&kind(), name, &errors.into_vec()));
    }
    if !meta.uid.is_empty() && meta.uid != account.uid() {
        let why = format!(
            "the UID in the token request ({}) does not match the UID of the service account ({})",
            meta.uid,
            account.uid()
        );
        let resource = GroupResource::new("authentication.k8s.io", "TokenRequest");
        return Err(Status::conflict(&resource, name, &why));
    }
    Ok(())
}

fn check_seconds(seconds: i64) -> Result<(), Status> {
    let errors = Errors::default();
    let (spec, field) = (errors.at("spec"), "expirationSeconds");
    if seconds < MIN_SECONDS {
        spec.at(field)
            .invalid(seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > MAX_SECONDS {
        spec.at(field)
            .invalid(seconds, "may not specify a duration larger than 2^32 seconds");
    }
    drop(spec);
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid(&kind(), "", &errors.into_vec())),
    }
}

fn kind() -> Gvk {
    Gvk::new("authentication.k8s.io", "v1", "TokenRequest")
}

fn claims_of(issuer: &Issuer, token_request: &TokenRequest<'_>, audiences: &[String]) -> Claims {
    let key = token_request.account.key();
    Claims {
        audiences: audiences.to_vec(),
        issuer: issuer.url.clone(),
        id: uuid::Uuid::new_v4().to_string(),
        subject: service_account::user_name(key.namespace(), key.name()),
        kubernetes: Kubernetes {
            namespace: key.namespace().to_owned(),
            service_account: reference(token_request.account),
            ..Kubernetes::default()
        },
        ..Claims::default()
    }
}

/// Binds the token to an object, which must exist.
fn bind(claims: &mut Kubernetes, bound: &BoundRef, token_request: &TokenRequest<'_>) -> Result<(), Status> {
    let namespace = token_request.account.key().namespace();
    let (group, version) = bound
        .api_version
        .split_once('/')
        .unwrap_or(("", &bound.api_version));
    let object = match (group, bound.kind.as_str()) {
        ("", "Pod") => {
            let object = find(token_request.caches, "pods", namespace, &bound.name)?;
            bind_pod(claims, &object, token_request)?;
            object
        }
        ("", "Node") => {
            let object = find(token_request.caches, "nodes", "", &bound.name)?;
            claims.node = Some(reference(&object));
            object
        }
        ("", "Secret") => {
            let object = find(token_request.caches, "secrets", namespace, &bound.name)?;
            claims.secret = Some(reference(&object));
            object
        }
        (group, kind) => {
            let version = match group {
                "" => format!("/{version}"),
                group => format!("{group}/{version}"),
            };
            let message = format!("cannot bind token to object of type {version}, Kind={kind}");
            return Err(Status::bad_request(message));
        }
    };
    check_uid(bound, group, &object)
}

fn bind_pod(
    claims: &mut Kubernetes,
    object: &Stored,
    token_request: &TokenRequest<'_>,
) -> Result<(), Status> {
    let pod: Pod = object.decode().map_err(Status::internal)?;
    let account = token_request.account.key().name();
    if pod.spec.service_account_name != account {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
        )));
    }
    claims.pod = Some(reference(object));
    if !pod.spec.node_name.is_empty() {
        let node = find(token_request.caches, "nodes", "", &pod.spec.node_name);
        claims.node = Some(node.map_or_else(
            |_| Ref {
                name: pod.spec.node_name.clone(),
                uid: String::new(),
            },
            |node| reference(&node),
        ));
    }
    Ok(())
}

fn check_uid(bound: &BoundRef, group: &str, object: &Stored) -> Result<(), Status> {
    if bound.uid.is_empty() || bound.uid == object.uid() {
        return Ok(());
    }
    let why = format!(
        "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
         deleted and then recreated",
        bound.uid
    );
    let resource = GroupResource::new(group, &bound.kind);
    Err(Status::conflict(&resource, &bound.name, &why))
}

fn find(caches: &dyn Caches, resource: &str, namespace: &str, name: &str) -> Result<Arc<Stored>, Status> {
    let resource = GroupResource::new("", resource);
    caches
        .cache(&resource)
        .and_then(|cache| cache.find(&Key::new(namespace, name)))
        .ok_or_else(|| Status::not_found(&resource, name))
}

fn reference(object: &Stored) -> Ref {
    Ref {
        name: object.key().name().to_owned(),
        uid: object.uid().to_owned(),
    }
}

fn set_times(issuer: &Issuer, claims: &mut Claims, seconds: i64, now: Timestamp) {
    let now = now.as_second();
    let for_server = claims
        .audiences
        .iter()
        .all(|audience| issuer.audiences.contains(audience));
    let is_projected = claims.kubernetes.pod.is_some() && seconds == PROJECTED_SECONDS && for_server;
    let lifetime = if issuer.extend_expiration && is_projected {
        claims.kubernetes.warn_after = Some(now + seconds);
        EXTENDED_SECONDS
    } else {
        seconds
    };
    claims.issued = Some(now);
    claims.not_before = Some(now);
    claims.expires = Some(now + lifetime);
}

fn with_status(token_request: TokenRequest<'_>, seconds: i64, token: &str) -> Tree {
    let mut body = token_request.body;
    let now = token_request.now.as_second();
    body.set(&["spec", "expirationSeconds"], seconds);
    body.set(&["status", "token"], token);
    body.set(&["status", "expirationTimestamp"], time(now + seconds));
    body
}

fn time(seconds: i64) -> Tree {
    let time = from_unix(seconds, 0, Precision::Seconds);
    time.unwrap_or_default().into()
}

#[cfg(test)]
mod tests;
