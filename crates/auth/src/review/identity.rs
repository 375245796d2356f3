//! TokenReview and SelfSubjectReview: the user of a token, or the caller.

use setpoint_api::Status;
use setpoint_registry_api::ReviewRequest;
use setpoint_schema::time::{Precision, from_unix};
use setpoint_schema::{Map, Tree};

use super::{Reviews, empty_review, texts, user_info};

/// TokenReview: the user of a token.
pub(super) async fn of_token(reviews: &Reviews, request: ReviewRequest<'_>) -> Result<Tree, Status> {
    let mut body = request.body;
    let token = body.str_at(&["spec", "token"]).unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let requested = audiences(&body);
    let audiences = match requested.is_empty() {
        true => reviews.tokens.audiences(),
        false => &requested,
    };
    let mut status = Tree::default();
    match reviews
        .tokens
        .authenticate_token(token, audiences)
        .resolve()
        .await
    {
        Ok(identity) => {
            status.set(&["authenticated"], true);
            status.set(&["user"], user_info(&identity.user));
            if !identity.audiences.is_empty() {
                status.set(&["audiences"], texts(&identity.audiences));
            }
        }
        Err(error) => {
            status.set(&["user"], Map::default());
            status.set(&["error"], error.0);
        }
    }
    // A TokenReview is cluster-scoped: a namespace in the request is dropped.
    body.take(&["metadata", "namespace"]);
    body.set(&["status"], status);
    Ok(body)
}

fn audiences(body: &Tree) -> Vec<String> {
    let list = body.at(&["spec", "audiences"]).and_then(Tree::as_list);
    let texts = list.unwrap_or_default().iter().filter_map(Tree::as_str);
    texts.map(str::to_owned).collect()
}

/// SelfSubjectReview: the caller.
pub(super) fn of_self(request: &ReviewRequest<'_>) -> Tree {
    let mut tree = empty_review(request);
    let now = from_unix(request.now.as_second(), 0, Precision::Seconds);
    tree.set(&["metadata", "creationTimestamp"], now.unwrap_or_default());
    tree.set(&["status", "userInfo"], user_info(request.user));
    tree
}
