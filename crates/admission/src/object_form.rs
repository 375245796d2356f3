//! [`ObjectForm`]: how the objects of a review are written and read in the version that a rule names, for webhooks and for
//! the expressions of policies.

use std::borrow::Cow;
use std::sync::Arc;

use setpoint_api::{Status, Stored};
use setpoint_codec::json;
use setpoint_registry_api::Review;
use setpoint_schema::{Pack, Shape, Tree, fields, write_into};
use setpoint_strategy::Kind;

use crate::matching::MatchedResource;

/// The new and the old state of the object in one version (upstream: `VersionedAttributes`), with the fields that JSON
/// always has, such as `status: {}`.
#[derive(Debug)]
pub(crate) struct VersionedObjects<T> {
    pub(crate) object: Option<T>,
    pub(crate) old_object: Option<T>,
}

/// How the object under review is written and read.
#[derive(Debug)]
pub(crate) enum ObjectForm {
    /// By the kind of the resource, in one of its versions.
    Kind(Arc<dyn Kind>),
    /// By the shape of a subresource's own kind, such as Scale, which has one version.
    Body(&'static Shape),
}

impl VersionedObjects<Tree> {
    /// Both states as trees, for expressions.
    pub(crate) async fn trees(review: &Review<'_>, matched: &MatchedResource) -> Result<Self, Status> {
        let form = ObjectForm::of(review, matched)?;
        let object = match review.object.as_deref() {
            Some(object) => Some(form.tree(&*form.convert(review, object).await?)?),
            None => None,
        };
        let old_object = match form.old_object(review).await? {
            Some(OldObject::Json(json)) => Some(parse(json)?),
            Some(OldObject::Tree(tree)) => Some(form.tree(&tree)?),
            None => None,
        };
        Ok(Self { object, old_object })
    }
}

impl VersionedObjects<Vec<u8>> {
    /// Both states in JSON, for webhooks.
    pub(crate) async fn json(review: &Review<'_>, matched: &MatchedResource) -> Result<Self, Status> {
        let form = ObjectForm::of(review, matched)?;
        let object = match review.object.as_deref() {
            Some(object) => Some(form.write(&*form.convert(review, object).await?)?),
            None => None,
        };
        let old_object = match form.old_object(review).await? {
            Some(OldObject::Json(json)) => Some(json.to_vec()),
            Some(OldObject::Tree(tree)) => Some(form.write(&tree)?),
            None => None,
        };
        Ok(Self { object, old_object })
    }
}

/// The old state of the object.
enum OldObject<'a> {
    /// As it is stored, which is how it is written.
    Json(&'a [u8]),
    Tree(Cow<'a, Tree>),
}

impl ObjectForm {
    /// The form in the version of the matched resource.
    pub(crate) fn of(review: &Review<'_>, matched: &MatchedResource) -> Result<Self, Status> {
        let subresource = review
            .subresource
            .and_then(|name| review.kind.find_subresource(name));
        if let Some((group, version, kind)) = subresource
            .map(|subresource| subresource.body_kind)
            .filter(|(_, _, kind)| !kind.is_empty())
        {
            let shape = Pack::builtin().shape_of(group, version, kind);
            return Ok(Self::Body(shape.expect("the pack has every built-in kind")));
        }
        let kind = review.reader.served_kinds().find(&matched.resource).cloned();
        kind.map(Self::Kind)
            .ok_or_else(|| Status::internal(format!("no kind {:?} is served", matched.kind.kind)))
    }

    /// The shape of the objects in this form.
    pub(crate) fn shape(&self) -> &Shape {
        match self {
            Self::Kind(kind) => kind.shape(),
            Self::Body(shape) => shape,
        }
    }

    /// Converts an object of this form to the version of the request, which the registry goes on with.
    pub(crate) async fn to_request_version(&self, review: &Review<'_>, object: Tree) -> Result<Tree, Status> {
        match self {
            Self::Kind(kind) if kind.info().is_custom && kind.info().gvr != review.kind.gvr => {
                let requested = review.reader.served_kinds().find(&review.kind.gvr).cloned();
                let requested = requested.ok_or_else(Status::no_such_resource)?;
                review.reader.convert_object(&requested, &object).await
            }
            _ => Ok(object),
        }
    }

    /// An object of a custom kind in the version of this form. Built-in kinds convert when they write.
    async fn convert<'a>(&self, review: &Review<'_>, object: &'a Tree) -> Result<Cow<'a, Tree>, Status> {
        match self {
            Self::Kind(kind) if is_other_version(kind, object) => {
                review.reader.convert_object(kind, object).await.map(Cow::Owned)
            }
            _ => Ok(Cow::Borrowed(object)),
        }
    }

    async fn old_object<'a>(&self, review: &Review<'a>) -> Result<Option<OldObject<'a>>, Status> {
        if let Some(body) = review.old_body {
            return Ok(Some(OldObject::Tree(Cow::Borrowed(body))));
        }
        let (Self::Kind(kind), Some(old)) = (self, review.old) else {
            return Ok(None);
        };
        if !kind.converts() {
            return Ok(Some(OldObject::Json(old.json())));
        }
        let mut tree = decode_old(review, kind, old)?;
        if is_other_version(kind, &tree) {
            tree = review.reader.convert_object(kind, &tree).await?;
        }
        let version = old.resource_version().to_string();
        tree.set(&[fields::METADATA, fields::RESOURCE_VERSION], version);
        Ok(Some(OldObject::Tree(Cow::Owned(tree))))
    }

    /// The JSON of an object.
    fn write(&self, object: &Tree) -> Result<Vec<u8>, Status> {
        match self {
            Self::Kind(kind) => kind.write_in_version(object).map_err(Status::internal),
            Self::Body(shape) => {
                let mut json = Vec::new();
                write_into(shape, object, &mut json);
                Ok(json)
            }
        }
    }

    /// An object as JSON shows it. Custom objects are trees of JSON already.
    fn tree(&self, object: &Tree) -> Result<Tree, Status> {
        match self {
            Self::Kind(kind) if kind.info().is_custom => Ok(object.clone()),
            form => parse(&form.write(object)?),
        }
    }
}

/// The stored object: of a custom kind in the version that it has, of others in the storage version.
fn decode_old(review: &Review<'_>, kind: &Arc<dyn Kind>, old: &Stored) -> Result<Tree, Status> {
    match kind.info().is_custom {
        true => review
            .decode_old()
            .ok_or_else(|| Status::internal(format!("cannot decode {}", old.key()))),
        false => kind.decode_stored(old).map_err(Status::internal),
    }
}

fn is_other_version(kind: &Arc<dyn Kind>, object: &Tree) -> bool {
    let info = kind.info();
    info.is_custom && object.str_at(&[fields::API_VERSION]) != Some(&info.gvk.api_version())
}

fn parse(json: &[u8]) -> Result<Tree, Status> {
    json::parse(json).map_err(Status::internal)
}
