//! Runs pods until enough of them have succeeded, and counts each finished pod exactly once.
//!
//! A reconcile claims the pods, decides in [`mod@plan`] (pure), creates or deletes, records in the status which
//! finished pods it counts, and only then removes their finalizers. The backoff is computed from the pods, so it
//! survives a restart of the process.
//!
//! Start reading at [`Jobs::reconcile`], then [`mod@plan`].

mod conditions;
mod manage;
mod plan;
mod pod;
mod policy;
mod tracking;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1;
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector};
use serde_json::json;
use setpoint_api::options::DeleteOptions;
use setpoint_api::selector::{LabelSelector, ParseSelectorError};
use setpoint_api::{Change, Clock, Key, Status, Stored};
use setpoint_runtime::batches::run_concurrently;
use setpoint_runtime::label_selector;
use setpoint_runtime::{
    Api, Client, Context, Controller, Error, Expectations, Lister, Next, Object, Patch, Reconcile, Recorder,
    TypedObject,
};
use tokio_util::sync::CancellationToken;

use crate::job::conditions::COMPLETE;
use crate::job::plan::{Plan, SuspendChange, is_finished, plan};
use crate::job::pod::{FAILURES, IGNORED_FAILURES, INDEX, Pod, TRACKER};
use crate::job::policy::FailurePolicyAction;
use crate::job::tracking::{ReleasedPods, after_release};
use crate::pod_control::PodControl;
use crate::{Config, controller_ref, pods, template};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "job-controller";

/// The value of `managedBy` for Jobs of this controller, also the default.
const MANAGED_BY: &str = "kubernetes.io/job-controller";
/// How soon to check again for pods whose creation was not observed.
const EXPECTATIONS_RECHECK: Duration = Duration::from_secs(10);
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Jobs::new(&context)?;
    let (jobs, released_pods) = (reconciler.jobs.clone(), reconciler.released_pods.clone());
    let expected = reconciler.expected.clone();
    Controller::new(NAME, reconciler)
        .reconciles::<Job>()
        .watches(v1::Pod::resource().group_resource(), move |change| {
            released_pods.observe(change);
            observe_creation(&expected, change);
            jobs_to_enqueue(&jobs, change)
        })
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
pub(crate) struct Jobs {
    jobs: Lister<Job>,
    pods: Lister<v1::Pod>,
    clock: Arc<dyn Clock>,
    events: Recorder,
    pod_control: PodControl,
    released_pods: Arc<ReleasedPods>,
    /// The pods that were created but not observed in the cache yet. Without them the controller would create too many,
    /// or finish a Job whose pods still run.
    expected: Expectations,
}

/// The Jobs to enqueue after a change of a pod.
fn jobs_to_enqueue(jobs: &Lister<Job>, change: &Change) -> Vec<Key> {
    controller_ref::owners_to_enqueue(jobs, change, |job| {
        let job = job.shared().ok()?;
        selector_of(&job).ok().flatten()
    })
}

fn observe_creation(expected: &Expectations, change: &Change) {
    let Change::Added(pod) = change else { return };
    if let Some(owner) = pod.controller().filter(|owner| owner.kind == "Job") {
        expected.creation_observed(&Key::new(pod.key().namespace(), &owner.name));
    }
}

fn selector_of(job: &Job) -> Result<Option<LabelSelector>, ParseSelectorError> {
    let selector = job.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.map(label_selector).transpose()
}

impl Reconcile for Jobs {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.jobs.find(key) else {
            self.expected.forget(key);
            self.release_orphans(client, key, None).await?;
            return Ok(Next::Done);
        };
        let job = object.to_owned()?;
        let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
        if manager.is_some_and(|manager| manager != MANAGED_BY) {
            return Ok(Next::Done);
        }
        if is_finished(&job) {
            self.release_orphans(client, key, Some(object.uid())).await?;
            self.delete_late(client, &object).await?;
            return Ok(Next::Done);
        }
        if !self.expected.are_satisfied(key) {
            return Ok(Next::After(EXPECTATIONS_RECHECK));
        }
        let selector = selector_of(&job).map_err(Error::terminal)?;
        let selector = selector.ok_or_else(|| Error::terminal(format!("job {key} has no selector")))?;
        let pods = controller_ref::claim(client, &self.pods, &object, &selector).await?;
        let pods = pods
            .into_iter()
            .map(|pod| self.released_pods.without_released(Pod::read(pod)));
        let pods: Vec<Pod> = pods.collect();
        let Some(plan) = plan(self.clock.now(), &job, &pods) else {
            return Ok(Next::Done);
        };
        self.carry_out(client, &object, &job, plan).await
    }
}

impl Jobs {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        let pods = context.lister()?;
        controller_ref::add_orphan_index(&pods);
        let events = context.events.for_component(NAME);
        Ok(Self {
            jobs: context.lister()?,
            pods,
            clock: context.clock.clone(),
            pod_control: PodControl::new(events.clone()),
            events,
            released_pods: Arc::default(),
            expected: Expectations::new(context.clock.clone()),
        })
    }

    async fn carry_out(
        &self,
        client: &Client,
        object: &TypedObject<Job>,
        job: &Job,
        mut plan: Plan<'_>,
    ) -> Result<Next, Error> {
        let deleted = self.delete(client, object, &plan).await;
        let (created, error) = self.create(client, object, job, &plan).await;
        let lacking = i32::try_from(plan.create.len() - created).unwrap_or(0);
        let active = plan.status.active.unwrap_or(0) - lacking;
        plan.status.active = (active > 0).then_some(active);
        match plan.suspend_change {
            Some(SuspendChange::Suspended) => self.events.normal(object, "Suspended", "Job suspended"),
            Some(SuspendChange::Resumed) => self.events.normal(object, "Resumed", "Job resumed"),
            None => {}
        }
        let written = write(client, object, job.clone(), &plan.status).await?;
        self.release(client, object.key().namespace(), &plan.release)
            .await?;
        let (status, is_over) = after_release(&plan, &plan.still_tracked);
        write(client, object, written, &status).await?;
        if is_over {
            self.record_end(object, job, &plan, &status);
        }
        deleted?;
        match error {
            Some(error) => Err(error.into()),
            None => Ok(plan.recheck.map_or(Next::Done, Next::After)),
        }
    }

    fn record_end(&self, object: &TypedObject<Job>, job: &Job, plan: &Plan<'_>, status: &JobStatus) {
        let Some(end) = &plan.end else { return };
        if end.type_ == COMPLETE {
            let completions = job.spec.as_ref().and_then(|spec| spec.completions);
            if completions.is_some_and(|completions| status.succeeded.unwrap_or(0) > completions) {
                let message = "Too many succeeded pods running after completion count reached";
                self.events.warning(object, "TooManySucceededPods", message);
            }
            self.events.normal(object, "Completed", "Job completed");
        } else {
            let (reason, message) = (
                end.reason.clone().unwrap_or_default(),
                end.message.clone().unwrap_or_default(),
            );
            self.events.warning(object, &reason, message);
        }
    }

    /// Deletes the planned pods. Those that must not be counted lose their finalizers first.
    async fn delete(&self, client: &Client, object: &TypedObject<Job>, plan: &Plan<'_>) -> Result<(), Error> {
        if plan.delete_uncounted {
            self.release(client, object.key().namespace(), &plan.delete)
                .await?;
        }
        let victims = plan.delete.iter().map(|victim| &victim.pod);
        Ok(self.pod_control.delete(client, object, victims).await?)
    }

    /// Creates the planned pods: how many were created, and the first error.
    async fn create(
        &self,
        client: &Client,
        object: &TypedObject<Job>,
        job: &Job,
        plan: &Plan<'_>,
    ) -> (usize, Option<Status>) {
        if plan.create.is_empty() {
            return (0, None);
        }
        let new_pod = |(index, replaced): &(_, _)| new_pod(object, job, *index, *replaced);
        let new_pods: Vec<v1::Pod> = plan.create.iter().map(new_pod).collect();
        self.expected
            .expect_creations(object.key(), new_pods.len() as u64);
        let (created, error) = match self.pod_control.create(client, object, &new_pods).await {
            Ok(outcome) => (outcome.succeeded.len(), outcome.first_error),
            Err(error) => (0, Some(error)),
        };
        let lacking = new_pods.len() - created;
        self.expected.lower_creations(object.key(), lacking as u64);
        (created, error)
    }

    /// Removes the tracking finalizer of these pods; a deleted pod has none.
    async fn release(&self, client: &Client, namespace: &str, pods: &[&Pod]) -> Result<(), Error> {
        let tracked = pods.iter().filter(|pod| pod.view.is_tracked);
        let objects: Vec<_> = tracked.map(|pod| pod.pod.object().clone()).collect();
        self.release_all(client, namespace, &objects).await
    }

    async fn release_all(&self, client: &Client, namespace: &str, pods: &[Arc<Stored>]) -> Result<(), Error> {
        let handle = pods_of(client, namespace);
        let release = |pod: &Arc<Stored>| {
            let (handle, pod) = (handle.clone(), pod.clone());
            async move {
                let patch = json!({"metadata": {
                    "uid": pod.uid(),
                    "$deleteFromPrimitiveList/finalizers": [TRACKER],
                }});
                self.released_pods.note(pod.uid());
                match handle.patch(pod.key().name(), &Patch::strategic(&patch)?).await {
                    Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
                    released => released
                        .map(drop)
                        .inspect_err(|_| self.released_pods.forget(pod.uid())),
                }
            }
        };
        let outcome = run_concurrently(pods.iter().map(release)).await;
        outcome.into_result().map(drop).map_err(Error::from)
    }

    /// Removes the finalizers of pods that will not be counted: their Job is deleted or finished.
    async fn release_orphans(&self, client: &Client, key: &Key, finished: Option<&str>) -> Result<(), Error> {
        let candidates = match finished {
            Some(uid) => self.pods.owned_by(uid),
            None => self.pods.in_namespace(key.namespace()),
        };
        let is_orphan = |pod: &TypedObject<v1::Pod>| {
            let is_of_this = pod
                .controller()
                .is_none_or(|owner| owner.kind == "Job" && owner.name == key.name());
            pod.header().has_finalizers && is_of_this && Pod::read(pod.stored().clone()).view.is_tracked
        };
        let orphans = candidates
            .into_iter()
            .filter(is_orphan)
            .map(TypedObject::into_stored);
        let orphans: Vec<_> = orphans.collect();
        self.release_all(client, key.namespace(), &orphans).await
    }

    /// Deletes pods that run though their Job is finished: they were created before the end of the Job was observed.
    async fn delete_late(&self, client: &Client, object: &TypedObject<Job>) -> Result<(), Error> {
        let pods = pods_of(client, object.key().namespace());
        for late in self.pods.owned_by(object.uid()) {
            if late.header().deleting || pods::Pod::read(late.stored().clone()).is_finished() {
                continue;
            }
            let name = late.key().name();
            match pods.delete(name, DeleteOptions::with_uid(late.uid())).await {
                Err(status) if status.is_not_found() || status.is_conflict() => continue,
                deleted => drop(deleted?),
            }
            let message = format!("Deleted pod: {name}");
            self.events.normal(object, "SuccessfulDelete", message);
        }
        Ok(())
    }
}

/// Writes the status if it changed, and returns the updated Job.
async fn write(
    client: &Client,
    object: &TypedObject<Job>,
    mut job: Job,
    status: &JobStatus,
) -> Result<Job, Error> {
    if job.status.as_ref() == Some(status) {
        return Ok(job);
    }
    job.status = Some(status.clone());
    let handle = client.namespaced::<Job>(object.key().namespace());
    Ok(handle.update_status(&job).await?.to_owned()?)
}

fn pods_of(client: &Client, namespace: &str) -> Api<v1::Pod> {
    client.namespaced(namespace)
}

/// A new pod of the Job, for this index if it is indexed, replacing a failed one.
fn new_pod(object: &TypedObject<Job>, job: &Job, index: Option<u32>, replaced: Option<&Pod>) -> v1::Pod {
    let spec = job.spec.clone().unwrap_or_default();
    let mut pod = template::new_pod(object, spec.template);
    let finalizers = pod.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|own| own == TRACKER) {
        finalizers.push(TRACKER.to_owned());
    }
    let Some(index) = index else { return pod };
    let name = object.key().name();
    pod.metadata.generate_name = Some(format!("{name}-{index}-"));
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(INDEX.to_owned(), index.to_string());
    if spec.backoff_limit_per_index.is_some() {
        let (failures, ignored) = failures(job, replaced);
        annotations.insert(FAILURES.to_owned(), failures.to_string());
        if ignored > 0 {
            annotations.insert(IGNORED_FAILURES.to_owned(), ignored.to_string());
        }
    }
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(INDEX.to_owned(), index.to_string());
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.hostname = Some(format!("{name}-{index}"));
    let containers = pod_spec
        .init_containers
        .iter_mut()
        .flatten()
        .chain(&mut pod_spec.containers);
    containers.for_each(add_index_variable);
    pod
}

/// How often the pods of an index have failed, counted and ignored, when this one is replaced.
fn failures(job: &Job, replaced: Option<&Pod>) -> (i32, i32) {
    let Some(pod) = replaced else { return (0, 0) };
    match policy::failure_policy_action(job, pod) {
        FailurePolicyAction::Ignore => (pod.view.failures, pod.view.ignored_failures + 1),
        _ => (pod.view.failures + 1, pod.view.ignored_failures),
    }
}

/// Sets the index as an environment variable of the container.
fn add_index_variable(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|own| own.name == INDEX_VARIABLE) {
        return;
    }
    variables.push(EnvVar {
        name: INDEX_VARIABLE.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: None,
                field_path: format!("metadata.labels['{INDEX}']"),
            }),
            ..EnvVarSource::default()
        }),
    });
}

#[cfg(test)]
mod tests;
