//! Starts Jobs on a schedule.
//!
//! A reconcile finds the last scheduled time that has passed without a Job, decides in [`mod@plan`] (pure), and
//! requeues itself for the next one. The name of a Job contains its scheduled time, so that no time starts two.

mod plan;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use setpoint_api::options::{DeleteOptions, DeletionPropagation};
use setpoint_api::{Clock, Key, Status};
use setpoint_runtime::{
    Api, Client, Context, Controller, Error, Lister, Next, Reconcile, Recorder, TypedObject, events, owner,
};
use setpoint_values::cron;
use tokio_util::sync::CancellationToken;

use crate::cron_job::plan::{Plan, job_name, plan};
use crate::{Config, api_time};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "cronjob-controller";

const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Added to the requeue delay, so that the scheduled time has passed for sure.
const SLACK: Duration = Duration::from_millis(100);

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    Controller::new(NAME, CronJobs::new(&context)?)
        .reconciles::<CronJob>()
        .owns::<CronJob, Job>()
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct CronJobs {
    crons: Lister<CronJob>,
    jobs: Lister<Job>,
    clock: Arc<dyn Clock>,
    events: Recorder,
}

impl Reconcile for CronJobs {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.crons.find(key) else {
            return Ok(Next::Done);
        };
        let cron = object.to_owned()?;
        let jobs = self.jobs(client, &object, &cron).await?;
        let mut plan = plan(self.clock.now(), &cron, &jobs);
        for (severity, reason, message) in std::mem::take(&mut plan.events) {
            self.events
                .record(events::reference(&object), severity, reason, message);
        }
        self.delete(client, &object, &plan).await?;
        let started = self.start(client, &object, &cron, &mut plan).await;
        report(client, &object, cron, plan.status).await?;
        started?;
        Ok(plan.next.map_or(Next::Done, |next| Next::After(next + SLACK)))
    }
}

impl CronJobs {
    fn new(context: &Context) -> Result<Self, Error> {
        Ok(Self {
            crons: context.lister()?,
            jobs: context.lister()?,
            clock: context.clock.clone(),
            events: context.events.for_component(NAME),
        })
    }

    /// The Jobs of the CronJob. An active one that is not in the cache may be too new for it, so the API
    /// server decides.
    async fn jobs(
        &self,
        client: &Client,
        object: &TypedObject<CronJob>,
        cron: &CronJob,
    ) -> Result<Vec<Job>, Error> {
        let jobs = self.jobs.owned_by(object.uid());
        let jobs: Result<Vec<Job>, Status> = jobs.iter().map(TypedObject::to_owned).collect();
        let mut jobs = jobs?;
        for noted in cron
            .status
            .iter()
            .flat_map(|status| status.active.iter().flatten())
        {
            if jobs.iter().any(|job| job.metadata.uid == noted.uid) {
                continue;
            }
            let name = noted.name.as_deref().unwrap_or_default();
            match jobs_of(client, object).get(name).await {
                Ok(job) if Some(job.uid()) == noted.uid.as_deref() => jobs.push(job.to_owned()?),
                Err(status) if !status.is_not_found() => return Err(status.into()),
                _ => {}
            }
        }
        Ok(jobs)
    }

    async fn delete(&self, client: &Client, object: &TypedObject<CronJob>, plan: &Plan) -> Result<(), Error> {
        let jobs = jobs_of(client, object);
        for job in &plan.delete {
            let options = DeleteOptions {
                propagation_policy: Some(DeletionPropagation::Background),
                uid: job.metadata.uid.clone(),
                ..DeleteOptions::default()
            };
            let name = job.metadata.name.as_deref().unwrap_or_default();
            match jobs.delete(name, options).await {
                Err(status) if status.is_not_found() => {}
                Err(status) => {
                    self.events
                        .warning(object, "FailedDelete", format!("Deleted job: {status}"));
                    return Err(status.into());
                }
                Ok(_) => self
                    .events
                    .normal(object, "SuccessfulDelete", format!("Deleted job {name}")),
            }
        }
        Ok(())
    }

    /// Creates the Job that is due, if there is one, and adds it to the active list.
    async fn start(
        &self,
        client: &Client,
        object: &TypedObject<CronJob>,
        cron: &CronJob,
        plan: &mut Plan,
    ) -> Result<(), Error> {
        let Some(time) = plan.start else { return Ok(()) };
        let job = new_job(object, cron, time);
        let jobs = jobs_of(client, object);
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let created = match jobs.create(&job).await {
            Ok(created) => {
                self.events
                    .normal(object, "SuccessfulCreate", format!("Created job {name}"));
                created
            }
            Err(status) if status.is_already_exists() => {
                let there = jobs.get(name).await?;
                if !owner::controls(object, &there) {
                    return Ok(());
                }
                there
            }
            Err(status) => {
                self.events
                    .warning(object, "FailedCreate", format!("Error creating job: {status}"));
                return Err(status.into());
            }
        };
        note_started(&mut plan.status, &created, time);
        Ok(())
    }
}

/// Writes the status if it changed.
async fn report(
    client: &Client,
    object: &TypedObject<CronJob>,
    mut cron: CronJob,
    status: CronJobStatus,
) -> Result<(), Error> {
    if cron.status.clone().unwrap_or_default() == status {
        return Ok(());
    }
    cron.status = Some(status);
    let handle = client.namespaced::<CronJob>(object.key().namespace());
    match handle.update_status(&cron).await {
        Err(status) if status.is_not_found() => Ok(()),
        written => Ok(written.map(drop)?),
    }
}

fn jobs_of(client: &Client, object: &TypedObject<CronJob>) -> Api<Job> {
    client.namespaced(object.key().namespace())
}

fn note_started(status: &mut CronJobStatus, job: &TypedObject<Job>, time: Timestamp) {
    let reference = ObjectReference {
        resource_version: Some(job.resource_version().to_string()),
        ..events::reference(job)
    };
    let active = status.active.get_or_insert_default();
    if !active.iter().any(|own| own.uid == reference.uid) {
        active.push(reference);
    }
    status.last_schedule_time = Some(api_time::from_timestamp(time));
}

/// The Job for this scheduled time.
fn new_job(object: &TypedObject<CronJob>, cron: &CronJob, time: Timestamp) -> Job {
    let spec = cron.spec.clone();
    let template = spec.job_template.metadata.unwrap_or_default();
    let mut annotations = template.annotations.unwrap_or_default();
    let zone = spec
        .time_zone
        .as_deref()
        .and_then(|name| cron::zone(name).ok())
        .unwrap_or(jiff::tz::TimeZone::UTC);
    let shown = match spec.time_zone {
        Some(_) => time.display_with_offset(zone.to_offset(time)).to_string(),
        None => time.to_string(),
    };
    annotations.insert(SCHEDULED_AT.to_owned(), shown);
    let metadata = ObjectMeta {
        name: Some(job_name(cron, time)),
        namespace: Some(object.key().namespace().to_owned()),
        labels: template.labels,
        annotations: Some(annotations),
        owner_references: Some(vec![owner::controller_reference(object)]),
        ..ObjectMeta::default()
    };
    Job {
        metadata,
        spec: spec.job_template.spec,
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_testkit::{Cluster, Component};

    use super::*;

    fn cron(schedule: &str) -> CronJob {
        let container = json!({"name": "main", "image": "example.com/app"});
        let pod = json!({"spec": {"containers": [container], "restartPolicy": "Never"}});
        let spec = json!({"schedule": schedule, "jobTemplate": {"spec": {"template": pod}}});
        serde_json::from_value(json!({"metadata": {"name": "tick"}, "spec": spec})).unwrap()
    }

    #[tokio::test]
    async fn a_job_starts_each_time_the_schedule_fires() {
        let (cluster, _components) = Cluster::with([Component::Controller("cronjob")]).await;
        cluster
            .client("test")
            .namespaced("default")
            .create(&cron("*/2 * * * *"))
            .await
            .unwrap();
        cluster
            .until("three jobs", |cluster| cluster.list::<Job>().len() == 3)
            .await;
        let jobs: Vec<Job> = cluster.list();
        let minutes: Vec<i64> = jobs
            .iter()
            .map(|job| {
                job.metadata
                    .name
                    .as_ref()
                    .unwrap()
                    .trim_start_matches("tick-")
                    .parse()
                    .unwrap()
            })
            .collect();
        assert!(
            minutes.windows(2).all(|pair| pair[1] - pair[0] == 2),
            "{minutes:?}"
        );
        let owner = &jobs[0].metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!((owner.kind.as_str(), owner.controller), ("CronJob", Some(true)));
        let active = |cluster: &Cluster| {
            let cron: CronJob = cluster.find("tick").unwrap();
            cron.status
                .and_then(|status| status.active)
                .map_or(0, |active| active.len())
        };
        cluster
            .until("three active", |cluster| active(cluster) == 3)
            .await;
    }

    /// TR9: the watch event of the new Job may be lost for a while.
    #[tokio::test]
    async fn tr9_a_job_that_the_cache_never_shows_stays_active() {
        let cluster = Cluster::start().await;
        let mirror = cluster.lagging_caches();
        let context = cluster.context_on(mirror.clone(), NAME);
        let crons = CronJobs::new(&context).unwrap();
        let handle = cluster.client("test").namespaced::<CronJob>("default");
        handle.create(&cron("* * * * *")).await.unwrap();
        cluster.advance(Duration::from_secs(61)).await;
        mirror.pause::<Job>();
        for _ in 0..3 {
            crons
                .reconcile(&Key::new("default", "tick"), &context.client)
                .await
                .unwrap();
            cluster.settle().await;
            let cron: CronJob = cluster.find("tick").unwrap();
            let active = cron.status.and_then(|status| status.active);
            assert_eq!(active.map(|active| active.len()), Some(1));
        }
        let jobs = cluster.client("test").namespaced::<Job>("default");
        let job: Job = cluster.list().remove(0);
        let name = job.metadata.name.unwrap();
        let options = DeleteOptions {
            propagation_policy: Some(DeletionPropagation::Background),
            ..DeleteOptions::default()
        };
        jobs.delete(&name, options).await.unwrap();
        crons
            .reconcile(&Key::new("default", "tick"), &context.client)
            .await
            .unwrap();
        cluster.settle().await;
        let cron: CronJob = cluster.find("tick").unwrap();
        assert_eq!(cron.status.and_then(|status| status.active), None);
    }
}
