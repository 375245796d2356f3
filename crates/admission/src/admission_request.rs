//! The AdmissionRequest of a review and its objects, as JSON shows them: for expressions and webhooks.

use setpoint_api::options::{DeleteOptions, DeletionPropagation, FieldValidation, WriteOptions};
use setpoint_api::{Gvk, Gvr, Status, User};
use setpoint_registry_api::{Operation, OperationOptions, Review};
use setpoint_schema::{Pack, Shape, Tree, fields, write_into};
use setpoint_strategy::Kind;

use crate::matching::{MatchedResource, namespace_of, operation_name};

/// The objects of a review in the version of one of its kinds, with the fields that JSON always has, such as `status: {}`
/// (upstream: `VersionedAttributes`).
#[derive(Debug)]
pub(crate) struct VersionedObjects {
    pub(crate) object: Option<Tree>,
    pub(crate) old_object: Option<Tree>,
}

impl VersionedObjects {
    /// The objects of the review in the version that the matching rule names.
    pub(crate) fn new(review: &Review<'_>, kind: &Gvk) -> Result<Self, Status> {
        let form = ObjectForm::find(review, kind);
        let object = review.object.as_deref().map(|object| form.to_json(object));
        Ok(Self {
            object: object.transpose()?,
            old_object: old_object(review, &form)?,
        })
    }
}

fn old_object(review: &Review<'_>, form: &ObjectForm) -> Result<Option<Tree>, Status> {
    if let Some(body) = review.old_body {
        return form.to_json(body).map(Some);
    }
    let Some(old) = review.old else { return Ok(None) };
    match form {
        ObjectForm::Kind(kind) if kind.info().is_storage_version() && !kind.info().is_custom => {
            old.decode().map(Some).map_err(Status::internal)
        }
        form => review.decode_old().map(|old| form.to_json(&old)).transpose(),
    }
}

/// How objects of a kind are written.
pub(crate) enum ObjectForm {
    /// A version of the reviewed resource.
    Kind(std::sync::Arc<dyn Kind>),
    /// The body of a subresource.
    Body(&'static Shape),
    /// A kind without a known shape: it is written as it is.
    Unknown,
}

impl ObjectForm {
    pub(crate) fn find(review: &Review<'_>, kind: &Gvk) -> Self {
        let served = review.find_kind(&kind.api_version(), &kind.kind);
        match served.filter(|served| served.info().storage == review.kind.storage) {
            Some(served) => Self::Kind(served),
            None => Pack::builtin()
                .shape_of(&kind.group, &kind.version, &kind.kind)
                .map_or(Self::Unknown, Self::Body),
        }
    }

    /// An object under review, which is in normal form and in the storage version, as JSON shows it.
    pub(crate) fn to_json(&self, object: &Tree) -> Result<Tree, Status> {
        match self {
            Self::Kind(kind) => {
                let converted = kind.tree_to_request_version(object);
                let object = converted.as_ref().unwrap_or(object);
                match kind.info().is_custom {
                    true => Ok(object.clone()),
                    false => rewrite(kind.shape(), object),
                }
            }
            Self::Body(shape) => rewrite(shape, object),
            Self::Unknown => Ok(object.clone()),
        }
    }
}

fn rewrite(shape: &Shape, object: &Tree) -> Result<Tree, Status> {
    let mut json = Vec::new();
    write_into(shape, object, &mut json);
    serde_json::from_slice(&json).map_err(Status::internal)
}

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
    if let Some(policy) = options.propagation_policy {
        let policy = match policy {
            DeletionPropagation::Orphan => "Orphan",
            DeletionPropagation::Background => "Background",
            DeletionPropagation::Foreground => "Foreground",
        };
        tree.set(&[fields::PROPAGATION_POLICY], policy);
    }
    tree
}
