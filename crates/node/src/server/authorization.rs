//! [`Access`]: who may send requests to the agent.
//!
//! Clients over the network are authenticated by a certificate of the cluster's client CA or by a token, which the API
//! server reviews, and authorized by the API server for a subresource of the node. There is no anonymous access.

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use setpoint_api::options::WriteOptions;
use setpoint_api::{ApiVerb, Body as ResponseBody, Gvr, Payload, Target, User, Verb};
use setpoint_client::Client;

use super::body::{Body, text};

/// How the requests of a connection are checked.
#[derive(Debug, Clone)]
pub enum Access {
    /// The API server in this process, which has authorized its own client.
    ApiServer,
    /// A client over the network.
    Remote {
        /// The user of the client's certificate, if it presented one.
        certificate: Option<User>,
        /// Reviews tokens and access.
        reviews: Client,
    },
}

#[derive(Debug, Deserialize)]
struct Review<S> {
    #[serde(default)]
    status: S,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenStatus {
    authenticated: bool,
    user: TokenUser,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenUser {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: std::collections::BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AccessStatus {
    allowed: bool,
}

impl Access {
    /// Checks a request; returns the response to one that is rejected.
    pub(super) async fn check(
        &self,
        node: &str,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<(), Response<Body>> {
        let Self::Remote { certificate, reviews } = self else {
            return Ok(());
        };
        let user = match certificate {
            Some(user) => Some(user.clone()),
            None => review_token(reviews, headers).await,
        };
        let Some(user) = user else {
            return Err(text(StatusCode::UNAUTHORIZED, "Unauthorized"));
        };
        authorize(reviews, &user, node, (verb(method), path)).await
    }
}

/// The user of the request's bearer token, if the API server knows it.
async fn review_token(reviews: &Client, headers: &HeaderMap) -> Option<User> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let token = value.strip_prefix("Bearer ")?.trim();
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    });
    let resource = Gvr::new("authentication.k8s.io", "v1", "tokenreviews");
    let status: TokenStatus = create(reviews, resource, &review).await?;
    status.authenticated.then_some(User {
        name: status.user.username,
        uid: status.user.uid,
        groups: status.user.groups,
        extra: status.user.extra,
    })
}

/// The status of a created review; `None` if it failed.
async fn create<S: Default + serde::de::DeserializeOwned>(
    reviews: &Client,
    resource: Gvr,
    review: &Value,
) -> Option<S> {
    let verb = Verb::Create(Payload::json(review.to_string()), WriteOptions::default());
    let created = reviews.call(Target::all(resource), verb).await;
    let review: Option<Review<S>> = match created {
        Ok(response) => match &response.body {
            ResponseBody::Json(bytes) => setpoint_api::json::from_slice(bytes).ok(),
            ResponseBody::Object(object) => object.decode().ok(),
            _ => None,
        },
        Err(error) => {
            tracing::warn!(%error, "cannot review a client of the node's port");
            None
        }
    };
    review.map(|review| review.status)
}

/// Authorizes the user for one of the node's subresources that stand for the path.
async fn authorize(
    reviews: &Client,
    user: &User,
    node: &str,
    (verb, path): (&str, &str),
) -> Result<(), Response<Body>> {
    let subresources = subresources(path);
    for subresource in &subresources {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra,
                "resourceAttributes": {
                    "verb": verb, "version": "v1", "resource": "nodes", "subresource": subresource, "name": node,
                },
            },
        });
        let resource = Gvr::new("authorization.k8s.io", "v1", "subjectaccessreviews");
        let Some(status) = create::<AccessStatus>(reviews, resource, &review).await else {
            let message = format!(
                "Authorization error (user={}, verb={verb}, resource=nodes, subresource={subresource})",
                user.name
            );
            return Err(text(StatusCode::INTERNAL_SERVER_ERROR, message));
        };
        if status.allowed {
            return Ok(());
        }
    }
    let message = format!(
        "Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)=[{}])\n",
        user.name,
        subresources.join(" ")
    );
    Err(text(StatusCode::FORBIDDEN, message))
}

/// The verb of a method; empty for one that no path has.
fn verb(method: &Method) -> &'static str {
    let verb = match *method {
        Method::POST => ApiVerb::Create,
        Method::GET => ApiVerb::Get,
        Method::PUT => ApiVerb::Update,
        Method::PATCH => ApiVerb::Patch,
        Method::DELETE => ApiVerb::Delete,
        _ => return "",
    };
    verb.as_str()
}

/// The subresources of a node of which a user needs one for the path (upstream: `GetRequestAttributes`).
fn subresources(path: &str) -> Vec<&'static str> {
    let is_below = |parent: &str| {
        let rest = path.strip_prefix(parent);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let exact = [
        ("/stats", "stats"),
        ("/metrics", "metrics"),
        ("/logs", "log"),
        ("/checkpoint", "checkpoint"),
        ("/statusz", "statusz"),
        ("/flagz", "configz"),
    ];
    if let Some((_, subresource)) = exact.into_iter().find(|(parent, _)| is_below(parent)) {
        return vec![subresource];
    }
    let finer = [
        ("/pods", "pods"),
        ("/runningpods", "pods"),
        ("/healthz", "healthz"),
        ("/configz", "configz"),
    ];
    let finer = finer.into_iter().find(|(parent, _)| is_below(parent));
    finer
        .map(|(_, subresource)| subresource)
        .into_iter()
        .chain(["proxy"])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: &[&str]) {
        assert_eq!(subresources(path), expected, "{path}");
    }

    #[test]
    fn a_path_stands_for_subresources_of_the_node() {
        check("/exec/a/p/c", &["proxy"]);
        check("/containerLogs/a/p/c", &["proxy"]);
        check("/pods", &["pods", "proxy"]);
        check("/runningpods/", &["pods", "proxy"]);
        check("/podsecrets", &["proxy"]);
        check("/healthz/ping", &["healthz", "proxy"]);
        check("/configz", &["configz", "proxy"]);
        check("/stats/summary", &["stats"]);
        check("/metrics/resource", &["metrics"]);
        check("/logs/", &["log"]);
        check("/", &["proxy"]);
    }
}
