//! The three access reviews: SubjectAccessReview, LocalSubjectAccessReview, SelfSubjectAccessReview.

use setpoint_api::field::Errors;
use setpoint_api::{Gvk, Status, User};
use setpoint_registry_api::ReviewRequest;
use setpoint_schema::tree::from_tree;
use setpoint_schema::{Map, Pack, Shape, Tree};

use super::Reviews;
use super::spec::{ParsedSpec, Spec};
use crate::authorize::{Decision, Reason};

/// SubjectAccessReview: any user, any namespace.
pub(super) async fn of_subject(reviews: &Reviews, request: ReviewRequest<'_>) -> Result<Tree, Status> {
    let spec = validated_spec(&request, None)?;
    Ok(decide(reviews, request, &spec.subject(), &spec).await)
}

/// LocalSubjectAccessReview: any user, in the namespace of the review.
pub(super) async fn of_subject_locally(
    reviews: &Reviews,
    mut request: ReviewRequest<'_>,
) -> Result<Tree, Status> {
    let target = request.target.namespace.clone().unwrap_or_default();
    let namespace = match request.body.str_at(&["metadata", "namespace"]) {
        None | Some("") => target.clone(),
        Some(own) => own.into(),
    };
    if namespace != target {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(message));
    }
    request.body.set(&["metadata", "namespace"], namespace.clone());
    let spec = validated_spec(&request, Some(&namespace))?;
    Ok(decide(reviews, request, &spec.subject(), &spec).await)
}

/// SelfSubjectAccessReview: the caller.
pub(super) async fn of_self(reviews: &Reviews, request: ReviewRequest<'_>) -> Result<Tree, Status> {
    let spec = validated_self_spec(&request)?;
    let user = request.user.clone();
    Ok(decide(reviews, request, &user, &spec).await)
}

/// The spec of a review of any user; `namespace` is that of a local one.
fn validated_spec(request: &ReviewRequest<'_>, namespace: Option<&str>) -> Result<Spec, Status> {
    let spec = read(&request.body)?;
    let errors = Errors::default();
    spec.validate(&errors);
    spec.validate_subject(&errors);
    spec.validate_selectors(&errors);
    match namespace {
        None => check_metadata(&request.body, &["managedFields"], "must be empty", &errors),
        Some(namespace) => {
            let (allowed, detail) = (
                ["managedFields", "namespace"],
                "must be empty except for namespace",
            );
            check_metadata(&request.body, &allowed, detail, &errors);
            spec.validate_namespace(namespace, &errors);
        }
    }
    finish(request, errors)?;
    Ok(spec)
}

/// The spec of a review of the caller.
fn validated_self_spec(request: &ReviewRequest<'_>) -> Result<Spec, Status> {
    let spec = read(&request.body)?;
    let errors = Errors::default();
    spec.validate(&errors);
    spec.validate_selectors(&errors);
    check_metadata(&request.body, &["managedFields"], "must be empty", &errors);
    finish(request, errors)?;
    Ok(spec)
}

fn read(body: &Tree) -> Result<Spec, Status> {
    let none = Tree::Map(Map::default());
    let spec = body.get("spec").unwrap_or(&none);
    from_tree(spec).map_err(|error| Status::bad_request(error.to_string()))
}

/// A review is not stored, so its metadata must be empty.
fn check_metadata(body: &Tree, allowed: &[&str], detail: &str, errors: &Errors) {
    let metadata = body.get("metadata").and_then(Tree::as_map);
    let set = |(key, value): (&str, &Tree)| !allowed.contains(&key) && !is_empty(value);
    if let Some(metadata) = metadata.filter(|metadata| metadata.iter().any(set)) {
        let mut json = Vec::new();
        setpoint_schema::write_into(metadata_shape(), &Tree::Map(metadata.clone()), &mut json);
        let value: serde_json::Value = setpoint_api::json::from_slice(&json).unwrap_or_default();
        errors.at("metadata").invalid(value, detail);
    }
}

/// The shape of every object's metadata, which has the order of its fields.
fn metadata_shape() -> &'static Shape {
    let any = Pack::builtin().shape_of("", "v1", "ConfigMap");
    let metadata = any.and_then(|shape| shape.at(&["metadata"]));
    metadata.expect("the pack has config maps, and they have metadata")
}

fn is_empty(value: &Tree) -> bool {
    match value {
        Tree::Null => true,
        Tree::Str(text) => text.is_empty(),
        Tree::Map(map) => map.is_empty(),
        Tree::List(list) => list.is_empty(),
        _ => false,
    }
}

fn finish(request: &ReviewRequest<'_>, errors: Errors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    // Kubernetes leaves the kind out here.
    let kind = Gvk::new(&request.gvk.group, &request.gvk.version, "");
    Err(Status::invalid(&kind, "", &errors.into_vec()))
}

async fn decide(reviews: &Reviews, request: ReviewRequest<'_>, user: &User, spec: &Spec) -> Tree {
    let parsed = ParsedSpec::of(spec);
    let attributes = parsed.attributes();
    let decision = reviews.authorizer.authorize(user, &attributes).resolve().await;
    let mut status = Tree::default();
    status.set(&["allowed"], decision.is_allowed());
    if let Decision::Denied(_) = decision {
        status.set(&["denied"], true);
    }
    let mut problems: Vec<&str> = parsed.problems.clone();
    match decision.reason() {
        Reason::None => {}
        Reason::Failed(error) => problems.push(error),
        reason => status.set(&["reason"], reason.to_string()),
    }
    if !problems.is_empty() {
        status.set(&["evaluationError"], problems.join("; "));
    }
    let mut body = request.body;
    body.set(&["status"], status);
    body
}
