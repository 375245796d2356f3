//! The object under review in the version that a webhook gets, and back.

use std::sync::Arc;

use setpoint_api::Status;
use setpoint_api::options::FieldValidation;
use setpoint_codec::strict;
use setpoint_registry_api::Review;
use setpoint_schema::{Pack, Shape, Tree, fields};
use setpoint_strategy::{Kind, meta};

use crate::matching::MatchedResource;

const NULL: &[u8] = b"null";

/// The new and the old state of the object, in JSON; `null` if there is none.
#[derive(Debug)]
pub(super) struct ObjectVersions {
    pub(super) object: Vec<u8>,
    pub(super) old_object: Vec<u8>,
}

/// How the object under review is written and read.
enum Form {
    /// By the kind of the resource, in one of its versions.
    Kind(Arc<dyn Kind>),
    /// By the shape of a subresource's own kind, such as Scale, which has one version.
    Body(&'static Shape),
}

impl ObjectVersions {
    /// Both states, in the version of the matched resource.
    pub(super) fn write(review: &Review<'_>, matched: &MatchedResource) -> Result<Self, Status> {
        let form = Form::of(review, matched)?;
        let object = review.object.as_deref().map(|object| form.write(object));
        Ok(Self {
            object: object.transpose()?.unwrap_or_else(|| NULL.to_vec()),
            old_object: form.write_old(review)?.unwrap_or_else(|| NULL.to_vec()),
        })
    }
}

/// Replaces the object under review by a tree in the version of the matched resource: drops unknown fields, sets defaults
/// and converts it. Returns whether that changes the object.
pub(super) fn replace(
    review: &mut Review<'_>,
    matched: &MatchedResource,
    patched: Tree,
) -> Result<bool, Status> {
    let new = match Form::of(review, matched)? {
        Form::Body(shape) => {
            let conformed = strict::conform_tree(patched, shape, FieldValidation::Ignore);
            conformed.map_err(|error| Status::internal(error.cause()))?.tree
        }
        Form::Kind(kind) => {
            let conformed = kind.conform(patched, FieldValidation::Ignore);
            let mut tree = conformed.map_err(|error| Status::internal(error.cause()))?.tree;
            kind.prepare_input(&mut tree).map_err(Status::internal)?;
            kind.default_for_request(&mut tree, review.facts);
            if kind.info().gvr != review.kind.gvr {
                requested_kind(review)?
                    .adopt_prepared(&mut tree)
                    .map_err(Status::internal)?;
            }
            tree
        }
    };
    let Some(object) = review.object.as_deref_mut() else {
        return Ok(false);
    };
    // Where managed fields are tracked, every patch counts as a change: upstream compares their timestamps, which lose
    // their nanoseconds in the JSON that is patched.
    let changes = meta::find(object, "managedFields").is_some() || !object.semantic_eq(&new);
    *object = new;
    Ok(changes)
}

impl Form {
    fn of(review: &Review<'_>, matched: &MatchedResource) -> Result<Self, Status> {
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
        let kinds = review.reader.served_kinds();
        let kind = kinds.find(&matched.resource).cloned();
        kind.map(Self::Kind)
            .ok_or_else(|| Status::internal(format!("no kind {:?} is served", matched.kind.kind)))
    }

    fn write(&self, object: &Tree) -> Result<Vec<u8>, Status> {
        match self {
            Self::Kind(kind) => kind.write_in_version(object).map_err(Status::internal),
            Self::Body(shape) => {
                let mut json = Vec::new();
                setpoint_schema::write_into(shape, object, &mut json);
                Ok(json)
            }
        }
    }

    /// The stored object is JSON already, unless the webhook gets another version.
    fn write_old(&self, review: &Review<'_>) -> Result<Option<Vec<u8>>, Status> {
        if let Some(body) = review.old_body {
            return self.write(body).map(Some);
        }
        let (Self::Kind(kind), Some(old)) = (self, review.old) else {
            return Ok(None);
        };
        if !kind.converts() {
            return Ok(Some(old.json().to_vec()));
        }
        let mut tree = kind.decode_stored(old).map_err(Status::internal)?;
        let version = old.resource_version().to_string();
        tree.set(&[fields::METADATA, fields::RESOURCE_VERSION], version);
        self.write(&tree).map(Some)
    }
}

fn requested_kind(review: &Review<'_>) -> Result<Arc<dyn Kind>, Status> {
    let kinds = review.reader.served_kinds();
    let kind = kinds.find(&review.kind.gvr).cloned();
    kind.ok_or_else(Status::no_such_resource)
}
