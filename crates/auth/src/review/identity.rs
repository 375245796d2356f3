//! Who is it: the bearer of a token, or the caller itself.

use setpoint_api::Status;
use setpoint_registry::Question;
use setpoint_schema::time::{Precision, from_unix};
use setpoint_schema::{Map, Tree};

use super::{Reviews, fresh, shown, texts};

/// Whom a token names.
pub(super) fn of_token(reviews: &Reviews, question: Question<'_>) -> Result<Tree, Status> {
    let mut document = question.document;
    let token = document.str_at(&["spec", "token"]).unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let asked = audiences(&document);
    let audiences = match asked.is_empty() {
        true => reviews.tokens.audiences(),
        false => &asked,
    };
    let mut status = Tree::default();
    match reviews.tokens.know(token, audiences) {
        Ok(known) => {
            status.set(&["authenticated"], true);
            status.set(&["user"], shown(&known.user));
            if !known.audiences.is_empty() {
                status.set(&["audiences"], texts(&known.audiences));
            }
        }
        Err(refused) => {
            status.set(&["user"], Map::default());
            status.set(&["error"], refused.0);
        }
    }
    // A review of the whole cluster is in no namespace, whatever it says.
    document.take(&["metadata", "namespace"]);
    document.set(&["status"], status);
    Ok(document)
}

fn audiences(document: &Tree) -> Vec<String> {
    let list = document.at(&["spec", "audiences"]).and_then(Tree::as_list);
    let texts = list.unwrap_or_default().iter().filter_map(Tree::as_str);
    texts.map(str::to_owned).collect()
}

/// Who the caller is.
pub(super) fn of_self(question: &Question<'_>) -> Tree {
    let mut tree = fresh(question);
    let now = from_unix(question.now.as_second(), 0, Precision::Seconds);
    tree.set(&["metadata", "creationTimestamp"], now.unwrap_or_default());
    tree.set(&["status", "userInfo"], shown(question.user));
    tree
}
