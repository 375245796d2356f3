//! Where webhooks join: someone far away has a say in every write, by a stand-in that answers over a channel.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::sync::Arc;

use cluster::{Cluster, config_map, parse, value};
use setpoint_api::Status;
use setpoint_registry::{Admit, Review, Verdict};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// What is asked: what is done to which object, and where to answer.
type Question = (String, oneshot::Sender<Result<String, String>>);

/// Asks someone far away, and does as told: marks the object, or refuses it.
struct Webhook {
    far_away: mpsc::Sender<Question>,
}

impl Webhook {
    async fn ask(&self, what: String) -> Result<String, Status> {
        let (answer, answered) = oneshot::channel();
        self.far_away.send((what, answer)).await.unwrap();
        let said = answered.await.unwrap();
        said.map_err(|why| Status::bad_request(format!("denied the request: {why}")))
    }
}

impl Admit for Webhook {
    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> Verdict<'a> {
        Box::pin(async move {
            let mark = self
                .ask(format!("mutate {:?} {}", review.operation, review.name))
                .await?;
            if let Some(object) = review.object.as_deref_mut() {
                object.set(&["metadata", "annotations", "mark"], mark);
            }
            Ok(())
        })
    }

    fn validate<'a>(&'a self, review: &'a mut Review<'_>) -> Verdict<'a> {
        Box::pin(async move {
            let object = review.object.as_deref();
            let size = object
                .and_then(|object| object.str_at(&["data", "size"]))
                .unwrap_or("-");
            let question = format!("validate {:?} {} {size}", review.operation, review.name);
            self.ask(question).await?;
            review.warnings.push("looked at".to_owned());
            Ok(())
        })
    }
}

/// A server, and what it asks far away; nothing of size nine is let pass.
async fn start() -> (Cluster, mpsc::Receiver<String>, JoinSet<()>) {
    let (far_away, mut questions) = mpsc::channel::<Question>(8);
    let (heard, hears) = mpsc::channel(8);
    let cluster = Cluster::judged_by(Arc::new(Webhook { far_away })).await;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Some((question, answer)) = questions.recv().await {
            let said = match question.ends_with(" 9") {
                true => Err("nine is too big".to_owned()),
                false => Ok("seen".to_owned()),
            };
            heard.send(question).await.unwrap();
            let _ = answer.send(said);
        }
    });
    (cluster, hears, tasks)
}

#[tokio::test]
async fn someone_far_away_may_change_and_refuse_what_is_written() {
    let (cluster, mut hears, _tasks) = start().await;
    let mut asked = parse(&config_map("a"));
    asked["data"] = serde_json::json!({"size": "3"});
    let made = value(&cluster.create(&asked.to_string()).await.unwrap());
    assert_eq!(made["metadata"]["annotations"]["mark"], "seen");
    assert_eq!(hears.recv().await.unwrap(), "mutate Create a");
    assert_eq!(hears.recv().await.unwrap(), "validate Create a 3");
    let mut wanted = made.clone();
    wanted["data"]["size"] = "9".into();
    let refused = cluster.update(&wanted, "").await.unwrap_err();
    assert_eq!(refused.message, "denied the request: nine is too big");
    let kept = value(&cluster.get("configmaps", "default/a").await.unwrap());
    assert_eq!(kept, made);
}
