//! Takes finished Jobs away once they have stayed for as long as they say.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use serde::Deserialize;
use setpoint_api::options::{DeleteOptions, Propagation};
use setpoint_api::{Clock, Key, Stored};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::{Config, moments};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "ttl-after-finished-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Expiry {
        jobs: context.lister()?,
        client: context.client.clone(),
        clock: context.clock.clone(),
    };
    Controller::new(NAME, reconciler)
        .reconciles::<Job>()
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler. Its keys are those of Jobs.
#[derive(Debug)]
struct Expiry {
    jobs: Lister<Job>,
    client: Client,
    clock: Arc<dyn Clock>,
}

/// What decides when a Job goes.
#[derive(Debug, Deserialize)]
struct Finish {
    spec: FinishSpec,
    #[serde(default)]
    status: FinishStatus,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FinishSpec {
    ttl_seconds_after_finished: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FinishStatus {
    conditions: Vec<FinishCondition>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FinishCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    last_transition_time: Option<Timestamp>,
}

/// When the Job is to go; nothing if it is not finished or stays for ever.
fn expires(job: &Stored) -> Option<Timestamp> {
    let view = job.view::<Finish>().ok()?;
    let ttl = view.spec.ttl_seconds_after_finished?;
    let is_end =
        |one: &&FinishCondition| matches!(one.type_.as_str(), "Complete" | "Failed") && one.status == "True";
    let finished = view.status.conditions.iter().find(is_end)?.last_transition_time?;
    Some(moments::later(finished, ttl))
}

/// How long the Job stays; nothing if its time is over.
fn left(now: Timestamp, expires: Timestamp) -> Option<Duration> {
    moments::until(now, expires)
}

impl Reconcile for Expiry {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(job) = self.jobs.find(key).filter(|job| !job.header().deleting) else {
            return Ok(Next::Done);
        };
        let Some(expires) = expires(&job) else {
            return Ok(Next::Done);
        };
        if let Some(left) = left(self.clock.now(), expires) {
            return Ok(Next::After(left));
        }
        let options = DeleteOptions {
            propagation: Some(Propagation::Foreground),
            uid: Some(job.uid().to_owned()),
            // Somebody may have prolonged its stay in this very moment.
            resource_version: Some(job.resource_version().to_string()),
            ..DeleteOptions::default()
        };
        match self
            .client
            .namespaced::<Job>(key.namespace())
            .delete(key.name(), options)
            .await
        {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            deleted => Ok(deleted.map(|_| Next::Done)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_api::Header;

    use super::*;

    #[track_caller]
    fn check(ttl: Option<i64>, condition: &str, expected: Option<i64>) {
        let finished = Timestamp::from_second(1000).unwrap().to_string();
        let document = json!({
            "spec": {"ttlSecondsAfterFinished": ttl},
            "status": {"conditions": [{"type": condition, "status": "True", "lastTransitionTime": finished}]},
        });
        let job = Stored::new(Header::new(Key::new("a", "b")), document.to_string().into(), 1);
        assert_eq!(expires(&job).map(Timestamp::as_second), expected);
    }

    #[test]
    fn a_job_goes_when_its_time_after_the_end_is_over() {
        check(Some(60), "Complete", Some(1060));
        check(Some(0), "Failed", Some(1000));
        check(None, "Complete", None);
        check(Some(60), "Suspended", None);
    }
}
