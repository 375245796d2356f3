//! Deletes finished Jobs after their `ttlSecondsAfterFinished`.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use serde::Deserialize;
use setpoint_api::Stored;
use setpoint_api::options::{DeleteOptions, DeletionPropagation};
use setpoint_runtime::{Context, Controller, Error};
use tokio_util::sync::CancellationToken;

use crate::expiry::Expiry;
use crate::{Config, api_time};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "ttl-after-finished-controller";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let expiry = Expiry::<Job>::new(&context, |job| Ok(expires(job)))?.with_options(|job| DeleteOptions {
        propagation_policy: Some(DeletionPropagation::Foreground),
        // A user may just have extended the TTL.
        resource_version: Some(job.resource_version().to_string()),
        ..DeleteOptions::with_uid(job.uid())
    });
    Controller::new(NAME, expiry)
        .reconciles::<Job>()
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The fields of a Job that its expiration depends on.
#[derive(Debug, Deserialize)]
struct JobView {
    spec: JobViewSpec,
    #[serde(default)]
    status: JobViewStatus,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobViewSpec {
    ttl_seconds_after_finished: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobViewStatus {
    conditions: Vec<JobViewCondition>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JobViewCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    last_transition_time: Option<Timestamp>,
}

/// When the Job expires; `None` if it is not finished or has no TTL.
fn expires(job: &Stored) -> Option<Timestamp> {
    let view = job.view::<JobView>().ok()?;
    let ttl = view.spec.ttl_seconds_after_finished?;
    let is_end =
        |one: &&JobViewCondition| matches!(one.type_.as_str(), "Complete" | "Failed") && one.status == "True";
    let finished = view.status.conditions.iter().find(is_end)?.last_transition_time?;
    Some(api_time::add_seconds(finished, ttl))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_api::{Header, Key};

    use super::*;

    #[track_caller]
    fn check(ttl: Option<i64>, condition: &str, expected: Option<i64>) {
        let finished = Timestamp::from_second(1000).unwrap().to_string();
        let body = json!({
            "spec": {"ttlSecondsAfterFinished": ttl},
            "status": {"conditions": [{"type": condition, "status": "True", "lastTransitionTime": finished}]},
        });
        let job = Stored::new(Header::new(Key::new("a", "b")), body.to_string().into(), 1);
        assert_eq!(expires(&job).map(Timestamp::as_second), expected);
    }

    #[test]
    fn a_finished_job_is_deleted_after_its_ttl() {
        check(Some(60), "Complete", Some(1060));
        check(Some(0), "Failed", Some(1000));
        check(None, "Complete", None);
        check(Some(60), "Suspended", None);
    }
}
