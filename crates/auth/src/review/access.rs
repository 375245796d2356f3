//! May somebody do something: the three access reviews.

use setpoint_api::field::Errors;
use setpoint_api::{Gvk, Status, User};
use setpoint_registry::Question;
use setpoint_schema::tree::from_tree;
use setpoint_schema::{Map, Tree};

use super::Reviews;
use super::spec::{Ask, Spec};
use crate::authorize::Decision;

/// About anyone, anywhere.
pub(super) fn of_subject(reviews: &Reviews, question: Question<'_>) -> Result<Tree, Status> {
    let spec = read(&question.document)?;
    let errors = Errors::default();
    spec.validate(&errors);
    spec.validate_subject(&errors);
    spec.validate_selectors(&errors);
    check_metadata(&question.document, &["managedFields"], "must be empty", &errors);
    finish(&question, errors)?;
    Ok(decided(reviews, question, &spec.subject(), &spec))
}

/// About anyone, in the namespace of the review.
pub(super) fn of_subject_locally(reviews: &Reviews, mut question: Question<'_>) -> Result<Tree, Status> {
    let asked = question.target.namespace.clone().unwrap_or_default();
    let namespace = match question.document.str_at(&["metadata", "namespace"]) {
        None | Some("") => asked.clone(),
        Some(own) => own.into(),
    };
    if namespace != asked {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(message));
    }
    question
        .document
        .set(&["metadata", "namespace"], namespace.clone());
    let spec = read(&question.document)?;
    let errors = Errors::default();
    spec.validate(&errors);
    spec.validate_subject(&errors);
    spec.validate_selectors(&errors);
    let allowed = ["managedFields", "namespace"];
    check_metadata(
        &question.document,
        &allowed,
        "must be empty except for namespace",
        &errors,
    );
    spec.validate_namespace(&namespace, &errors);
    finish(&question, errors)?;
    Ok(decided(reviews, question, &spec.subject(), &spec))
}

/// About the caller.
pub(super) fn of_self(reviews: &Reviews, question: Question<'_>) -> Result<Tree, Status> {
    let spec = read(&question.document)?;
    let errors = Errors::default();
    spec.validate(&errors);
    spec.validate_selectors(&errors);
    check_metadata(&question.document, &["managedFields"], "must be empty", &errors);
    finish(&question, errors)?;
    let user = question.user.clone();
    Ok(decided(reviews, question, &user, &spec))
}

fn read(document: &Tree) -> Result<Spec, Status> {
    let none = Tree::Map(Map::default());
    let spec = document.get("spec").unwrap_or(&none);
    from_tree(spec).map_err(|error| Status::bad_request(error.to_string()))
}

/// A review is not stored, so metadata would promise what is not kept.
fn check_metadata(document: &Tree, allowed: &[&str], detail: &str, errors: &Errors) {
    let metadata = document.get("metadata").and_then(Tree::as_map);
    let set = |(key, value): (&str, &Tree)| !allowed.contains(&key) && !is_empty(value);
    if let Some(metadata) = metadata.filter(|metadata| metadata.iter().any(set)) {
        let mut json = Vec::new();
        setpoint_schema::write::write_tree(&Tree::Map(metadata.clone()), &mut json);
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap_or_default();
        errors.at("metadata").invalid(value, detail);
    }
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

fn finish(question: &Question<'_>, errors: Errors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    // Kubernetes leaves the kind out here.
    let kind = Gvk::new(&question.gvk.group, &question.gvk.version, "");
    Err(Status::invalid(&kind, "", &errors.into_vec()))
}

fn decided(reviews: &Reviews, question: Question<'_>, user: &User, spec: &Spec) -> Tree {
    let ask = Ask::of(spec);
    let decision = reviews.authorizer.authorize(user, &ask.attributes());
    let mut status = Tree::default();
    status.set(&["allowed"], decision.is_allowed());
    if let Decision::Denied(_) = decision {
        status.set(&["denied"], true);
    }
    if !decision.reason().is_none() {
        status.set(&["reason"], decision.reason().to_string());
    }
    if !ask.problems.is_empty() {
        status.set(&["evaluationError"], ask.problems.join("; "));
    }
    let mut document = question.document;
    document.set(&["status"], status);
    document
}
