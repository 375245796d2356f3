//! The trees that the expressions of all policies read in one review, each computed once.

use std::sync::Arc;

use setpoint_api::{Gvk, Status};
use setpoint_registry_api::Review;
use setpoint_schema::Tree;

use crate::chain::AccessChecker;
use crate::expressions::{Inputs, RequestAuthorizer};
use crate::matching::{MatchedResource, find_namespace};
use crate::object_form::VersionedObjects;

use super::params::Param;

/// The trees of one review.
#[derive(Debug)]
pub(super) struct ReviewObjects {
    authorizer: RequestAuthorizer,
    namespace: Option<Arc<Tree>>,
    /// By the kind that the rules of policies name.
    versions: Vec<(Gvk, VersionedObjects<Tree>)>,
}

impl ReviewObjects {
    /// The objects of a review. A namespace that does not exist is an error; requests for Namespaces have none.
    pub(super) fn new(review: &Review<'_>, access: Option<Arc<dyn AccessChecker>>) -> Result<Self, Status> {
        let namespace = match review.namespace {
            "" => None,
            name => Some(find_namespace(review, name)?.view().map_err(Status::internal)?),
        };
        Ok(Self {
            authorizer: RequestAuthorizer::new(review, access),
            namespace,
            versions: Vec::new(),
        })
    }

    /// Reads the objects of the review in a version, if that has not been done.
    pub(super) async fn add_version(
        &mut self,
        review: &Review<'_>,
        matched: &MatchedResource,
    ) -> Result<(), Status> {
        if !self.versions.iter().any(|(own, _)| *own == matched.kind) {
            let objects = VersionedObjects::trees(review, matched).await?;
            self.versions.push((matched.kind.clone(), objects));
        }
        Ok(())
    }

    /// The object changed: it is to be read again.
    pub(super) fn clear(&mut self) {
        self.versions.clear();
    }

    /// The objects in a version that has been added.
    pub(super) fn version(&self, kind: &Gvk) -> Option<&VersionedObjects<Tree>> {
        self.versions
            .iter()
            .find(|(own, _)| own == kind)
            .map(|(_, objects)| objects)
    }

    /// The inputs of expressions in a version that has been added.
    pub(super) fn inputs<'a>(
        &'a self,
        kind: &Gvk,
        request: &'a Tree,
        param: Option<&'a Param>,
    ) -> Inputs<'a> {
        let objects = self.version(kind);
        Inputs {
            object: objects.and_then(|objects| objects.object.as_ref()),
            old_object: objects.and_then(|objects| objects.old_object.as_ref()),
            request,
            namespace: self.namespace.as_deref(),
            params: param.map(|param| &*param.tree),
            authorizer: &self.authorizer,
        }
    }
}
