//! Takes finished Jobs away once they have stayed for as long as they say.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use serde::Deserialize;
use setpoint_api::Stored;
use setpoint_api::options::{DeleteOptions, Propagation};
use setpoint_runtime::{Context, Controller, Error};
use tokio_util::sync::CancellationToken;

use crate::expiry::Expiry;
use crate::{Config, moments};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "ttl-after-finished-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let expiry = Expiry::<Job>::new(&context, |job| Ok(expires(job)))?.with_options(|job| DeleteOptions {
        propagation: Some(Propagation::Foreground),
        // Somebody may have prolonged its stay in this very moment.
        resource_version: Some(job.resource_version().to_string()),
        ..DeleteOptions::of_uid(job.uid())
    });
    Controller::new(NAME, expiry)
        .reconciles::<Job>()
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_api::{Header, Key};

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
