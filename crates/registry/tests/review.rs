//! Admission that calls out, as webhooks do: a stand-in responds over a channel.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::sync::Arc;

use cluster::{Cluster, config_map, parse, value};
use setpoint_api::Status;
use setpoint_registry_api::{Admit, AdmitFuture, Review};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// What is reviewed, and the sender of the response.
type RemoteReview = (String, oneshot::Sender<Result<String, String>>);

/// Calls the remote reviewer, and marks the object or rejects it.
struct Webhook {
    remote: mpsc::Sender<RemoteReview>,
}

impl Webhook {
    async fn review(&self, what: String) -> Result<String, Status> {
        let (response, received) = oneshot::channel();
        self.remote.send((what, response)).await.unwrap();
        let result = received.await.unwrap();
        result.map_err(|why| Status::bad_request(format!("denied the request: {why}")))
    }
}

impl Admit for Webhook {
    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(async move {
            let mark = self
                .review(format!("mutate {:?} {}", review.operation, review.name))
                .await?;
            if let Some(object) = review.object.as_deref_mut() {
                object.set(&["metadata", "annotations", "mark"], mark);
            }
            Ok(())
        })
    }

    fn validate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(async move {
            let object = review.object.as_deref();
            let size = object
                .and_then(|object| object.str_at(&["data", "size"]))
                .unwrap_or("-");
            let what = format!("validate {:?} {} {size}", review.operation, review.name);
            self.review(what).await?;
            review.warnings.push("looked at".to_owned());
            Ok(())
        })
    }
}

/// A server, and the reviews it sends; an object of size nine is rejected.
async fn start() -> (Cluster, mpsc::Receiver<String>, JoinSet<()>) {
    let (remote, mut reviews) = mpsc::channel::<RemoteReview>(8);
    let (seen, sees) = mpsc::channel(8);
    let cluster = Cluster::with_admission(Arc::new(Webhook { remote })).await;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Some((what, response)) = reviews.recv().await {
            let result = match what.ends_with(" 9") {
                true => Err("nine is too big".to_owned()),
                false => Ok("seen".to_owned()),
            };
            seen.send(what).await.unwrap();
            let _ = response.send(result);
        }
    });
    (cluster, sees, tasks)
}

#[tokio::test]
async fn remote_admission_may_change_and_reject_a_write() {
    let (cluster, mut sees, _tasks) = start().await;
    let mut object = parse(&config_map("a"));
    object["data"] = serde_json::json!({"size": "3"});
    let made = value(&cluster.create(&object.to_string()).await.unwrap());
    assert_eq!(made["metadata"]["annotations"]["mark"], "seen");
    assert_eq!(sees.recv().await.unwrap(), "mutate Create a");
    assert_eq!(sees.recv().await.unwrap(), "validate Create a 3");
    let mut changed = made.clone();
    changed["data"]["size"] = "9".into();
    let rejected = cluster.update(&changed, "").await.unwrap_err();
    assert_eq!(rejected.message, "denied the request: nine is too big");
    let stored = value(&cluster.get("configmaps", "default/a").await.unwrap());
    assert_eq!(stored, made);
}
