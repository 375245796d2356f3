//! Documents that are answered rather than stored: reviews, and requests for tokens.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;

use setpoint_api::{Gvk, Status, Stored, Target, User};
use setpoint_cache::Caches;
use setpoint_schema::Tree;

/// Answers questions that come as documents.
pub trait Answer: Send + Sync + Debug {
    /// The document to answer with: mostly the question with its status.
    fn answer<'a>(&'a self, question: Question<'a>) -> Answered<'a>;
}

/// An answer to come.
pub type Answered<'a> = Pin<Box<dyn Future<Output = Result<Tree, Status>> + Send + 'a>>;

/// A question: who asks, in which document, and about what.
#[derive(Clone)]
pub struct Question<'a> {
    pub user: &'a Arc<User>,
    /// The kind of the document.
    pub gvk: &'a Gvk,
    pub target: &'a Target,
    /// The object that a subresource belongs to.
    pub subject: Option<Arc<Stored>>,
    /// In normal form, with its defaults.
    pub document: Tree,
    pub caches: &'a dyn Caches,
    pub now: Timestamp,
}

/// Answers nothing: for tests, and for servers without anyone to ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnswerNone;

impl Answer for AnswerNone {
    fn answer<'a>(&'a self, _question: Question<'a>) -> Answered<'a> {
        Box::pin(async { Err(Status::method_not_allowed()) })
    }
}

impl Debug for Question<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question")
            .field("gvk", &self.gvk)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}
