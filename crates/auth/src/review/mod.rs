//! Reviews: virtual resources that return whether a user may make a request, or which user a token is of.
//!
//! Nothing here is stored. Each kind of review is a function of the request; [`Reviews`] dispatches by kind.
//!
//! The rules and messages are those of `pkg/registry/authorization` and `pkg/registry/authentication` in Kubernetes.

use std::fmt;
use std::sync::Arc;

use setpoint_api::{Status, User};
use setpoint_registry_api::{ReviewFuture, ReviewRequest, VirtualResource};
use setpoint_schema::{Map, Tree};

mod access;
mod identity;
mod rules;
mod spec;

use crate::authenticate::TokenChain;
use crate::authorize::Authorize;
use crate::token::{self, Issuer};

/// Handler of reviews and token requests.
pub struct Reviews {
    pub authorizer: Arc<dyn Authorize>,
    pub tokens: Arc<TokenChain>,
    pub issuer: Arc<Issuer>,
}

impl Reviews {
    /// Handles a review, and returns its object with the status set.
    pub async fn review(&self, request: ReviewRequest<'_>) -> Result<Tree, Status> {
        match request.gvk.kind.as_str() {
            "SubjectAccessReview" => access::of_subject(self, request).await,
            "LocalSubjectAccessReview" => access::of_subject_locally(self, request).await,
            "SelfSubjectAccessReview" => access::of_self(self, request).await,
            "SelfSubjectRulesReview" => rules::review(self, &request),
            "SelfSubjectReview" => Ok(identity::of_self(&request)),
            "TokenReview" => identity::of_token(self, request).await,
            "TokenRequest" => self.token(request),
            _ => Err(Status::no_such_resource()),
        }
    }

    fn token(&self, request: ReviewRequest<'_>) -> Result<Tree, Status> {
        let Some(account) = &request.parent else {
            return Err(Status::no_such_resource());
        };
        let token_request = token::request::TokenRequest {
            account,
            body: request.body,
            caches: request.caches,
            now: request.now,
        };
        token::request::issue(&self.issuer, token_request)
    }
}

impl VirtualResource for Reviews {
    fn prepare(&self, request: &mut ReviewRequest<'_>) -> Result<(), Status> {
        match (&request.parent, request.gvk.kind.as_str()) {
            (Some(account), "TokenRequest") => {
                token::request::prepare(&self.issuer, account, &mut request.body, request.now)
            }
            _ => Ok(()),
        }
    }

    fn create<'a>(&'a self, request: ReviewRequest<'a>) -> ReviewFuture<'a> {
        Box::pin(self.review(request))
    }
}

/// A review of the request's kind without any of its fields.
fn empty_review(request: &ReviewRequest<'_>) -> Tree {
    let mut tree = Tree::default();
    tree.set(&["kind"], request.gvk.kind.clone());
    tree.set(&["apiVersion"], request.gvk.api_version());
    tree.set(&["metadata"], Map::default());
    tree
}

/// A user as `UserInfo`.
fn user_info(user: &User) -> Tree {
    let mut tree = Tree::Map(Map::default());
    let mut set = |field: &str, text: &str| {
        if !text.is_empty() {
            tree.set(&[field], text);
        }
    };
    set("username", &user.name);
    set("uid", &user.uid);
    if !user.groups.is_empty() {
        tree.set(&["groups"], texts(&user.groups));
    }
    for (key, values) in &user.extra {
        tree.set(&["extra", key], texts(values));
    }
    tree
}

fn texts(list: &[String]) -> Vec<Tree> {
    list.iter().map(|text| Tree::from(text.as_str())).collect()
}

impl fmt::Debug for Reviews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reviews").finish_non_exhaustive()
    }
}
