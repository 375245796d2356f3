//! Reviews: documents that ask who somebody is or what they may do, and come back with the answer.
//!
//! Nothing here is stored. Each sort of review is a function of the question; [`Reviews`] knows whom to ask.
//!
//! The rules and the words are those of `pkg/registry/authorization` and `pkg/registry/authentication` in Kubernetes.

use std::fmt;
use std::sync::Arc;

use setpoint_api::{Status, User};
use setpoint_registry::{Answer, Answered, Question};
use setpoint_schema::{Map, Tree};

mod access;
mod identity;
mod rules;
mod spec;

use crate::authenticate::TokenChain;
use crate::authorize::{Authorize, Rbac};
use crate::token::{Issuer, request};

/// Answers reviews and token requests.
pub struct Reviews {
    pub authorizer: Arc<dyn Authorize>,
    pub rbac: Arc<Rbac>,
    pub tokens: Arc<TokenChain>,
    pub issuer: Arc<Issuer>,
}

impl Reviews {
    /// The document with its answer.
    pub fn review(&self, question: Question<'_>) -> Result<Tree, Status> {
        match question.gvk.kind.as_str() {
            "SubjectAccessReview" => access::of_subject(self, question),
            "LocalSubjectAccessReview" => access::of_subject_locally(self, question),
            "SelfSubjectAccessReview" => access::of_self(self, question),
            "SelfSubjectRulesReview" => rules::answer(self, &question),
            "SelfSubjectReview" => Ok(identity::of_self(&question)),
            "TokenReview" => identity::of_token(self, question),
            "TokenRequest" => self.token(question),
            _ => Err(Status::no_such_resource()),
        }
    }

    fn token(&self, question: Question<'_>) -> Result<Tree, Status> {
        let Some(account) = &question.subject else {
            return Err(Status::no_such_resource());
        };
        let asking = request::Asking {
            account,
            document: question.document,
            caches: question.caches,
            now: question.now,
        };
        request::answer(&self.issuer, asking)
    }
}

impl Answer for Reviews {
    fn answer<'a>(&'a self, question: Question<'a>) -> Answered<'a> {
        Box::pin(async move { self.review(question) })
    }
}

/// An answer that takes nothing over from the question but its kind.
fn fresh(question: &Question<'_>) -> Tree {
    let mut tree = Tree::default();
    tree.set(&["kind"], question.gvk.kind.clone());
    tree.set(&["apiVersion"], question.gvk.api_version());
    tree.set(&["metadata"], Map::default());
    tree
}

/// A user as documents show it.
fn shown(user: &User) -> Tree {
    let mut tree = Tree::Map(Map::default());
    let mut tell = |field: &str, text: &str| {
        if !text.is_empty() {
            tree.set(&[field], text);
        }
    };
    tell("username", &user.name);
    tell("uid", &user.uid);
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
