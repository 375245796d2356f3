//! The AdmissionRequest of a review, as JSON shows it: for expressions and webhooks.

use setpoint_api::options::{DeleteOptions, DeletionPropagation, FieldValidation, WriteOptions};
use setpoint_api::{Gvk, Gvr, User};
use setpoint_registry_api::{Operation, OperationOptions, Review};
use setpoint_schema::{Tree, fields};

use crate::matching::{MatchedResource, namespace_of, operation_name};

/// The AdmissionRequest without the objects and without a uid. Fields that are empty are absent, as in JSON.
pub(crate) fn request_tree(review: &Review<'_>, matched: &MatchedResource) -> Tree {
    let mut request = Tree::default();
    request.set(&[fields::KIND], kind_tree(&matched.kind));
    request.set(&[fields::RESOURCE], resource_tree(&matched.resource));
    request.set(&[fields::REQUEST_KIND], kind_tree(&review.object_kind()));
    request.set(&[fields::REQUEST_RESOURCE], resource_tree(&review.kind.gvr));
    let subresource = review.subresource.unwrap_or_default();
    for (field, text) in [
        ("subResource", subresource),
        ("requestSubResource", subresource),
        ("name", review.name),
        ("namespace", namespace_of(review)),
    ] {
        set_text(&mut request, field, text);
    }
    request.set(&[fields::OPERATION], operation_name(review.operation));
    request.set(&[fields::USER_INFO], user_tree(review.user));
    request.set(&[fields::DRY_RUN], review.dry_run);
    if let Some(options) = options_tree(review) {
        request.set(&[fields::OPTIONS], options);
    }
    request
}

fn set_text(tree: &mut Tree, field: &str, text: &str) {
    if !text.is_empty() {
        tree.set(&[field], text);
    }
}

fn kind_tree(kind: &Gvk) -> Tree {
    let mut tree = Tree::default();
    tree.set(&[fields::GROUP], kind.group.clone());
    tree.set(&[fields::VERSION], kind.version.clone());
    tree.set(&[fields::KIND], kind.kind.clone());
    tree
}

fn resource_tree(resource: &Gvr) -> Tree {
    let mut tree = Tree::default();
    tree.set(&[fields::GROUP], resource.group.clone());
    tree.set(&[fields::VERSION], resource.version.clone());
    tree.set(&[fields::RESOURCE], resource.resource.clone());
    tree
}

fn texts(texts: &[String]) -> Tree {
    Tree::List(texts.iter().map(|text| Tree::from(text.as_str())).collect())
}

fn user_tree(user: &User) -> Tree {
    let mut tree = Tree::default();
    tree.map_or_default();
    set_text(&mut tree, "username", &user.name);
    set_text(&mut tree, "uid", &user.uid);
    if !user.groups.is_empty() {
        tree.set(&[fields::GROUPS], texts(&user.groups));
    }
    for (key, values) in &user.extra {
        tree.set(&[fields::EXTRA, key], texts(values));
    }
    tree
}

/// The options of the operation; none in a connect.
fn options_tree(review: &Review<'_>) -> Option<Tree> {
    let (kind, mut options) = match (review.options, review.operation) {
        (OperationOptions::None, _) => return None,
        (OperationOptions::Delete(options), _) => ("DeleteOptions", delete_options(options)),
        (OperationOptions::Write(options), Operation::Create) => ("CreateOptions", write_options(options)),
        (OperationOptions::Write(options), _) => ("UpdateOptions", write_options(options)),
    };
    options.set(&[fields::KIND], kind);
    options.set(&[fields::API_VERSION], "meta.k8s.io/v1");
    if review.dry_run {
        options.set(&[fields::DRY_RUN], vec![Tree::from("All")]);
    }
    Some(options)
}

/// What the caller has set of the options of a create or an update.
fn write_options(options: &WriteOptions) -> Tree {
    let mut tree = Tree::default();
    if let Some(manager) = options
        .field_manager
        .as_deref()
        .filter(|_| !options.is_derived_manager)
    {
        set_text(&mut tree, "fieldManager", manager);
    }
    if options.is_explicit_validation {
        let validation = match options.field_validation {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        };
        tree.set(&[fields::FIELD_VALIDATION], validation);
    }
    tree
}

fn delete_options(options: &DeleteOptions) -> Tree {
    let mut tree = Tree::default();
    if let Some(seconds) = options.grace_period_seconds {
        tree.set(&[fields::GRACE_PERIOD_SECONDS], seconds);
    }
    if let Some(uid) = &options.uid {
        tree.set(&[fields::PRECONDITIONS, fields::UID], uid.as_str());
    }
    if let Some(version) = &options.resource_version {
        tree.set(
            &[fields::PRECONDITIONS, fields::RESOURCE_VERSION],
            version.as_str(),
        );
    }
    if let Some(orphan) = options.orphan_dependents {
        tree.set(&[fields::ORPHAN_DEPENDENTS], orphan);
    } else if let Some(policy) = options.propagation_policy {
        let policy = match policy {
            DeletionPropagation::Orphan => "Orphan",
            DeletionPropagation::Background => "Background",
            DeletionPropagation::Foreground => "Foreground",
        };
        tree.set(&[fields::PROPAGATION_POLICY], policy);
    }
    tree
}
