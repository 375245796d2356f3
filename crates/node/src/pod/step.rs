//! [`PodStep`]: one step of a pod: observe, plan, carry out, report.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use setpoint_api::options::DeleteOptions;
use setpoint_runtime::{Client, Error, EventType, Next, TypedObject};
use tokio_util::sync::CancellationToken;

use super::bound_pod::BoundPod;
use super::observed::ObservedPod;
use super::plan::{Plan, PlanInput, plan};
use super::reconciler::PodReconciler;
use super::record::{PodFailure, SharedRecord, Work};
use super::status::{StatusInput, pod_status};
use super::work::SyncWork;
use crate::config::Machine;
use crate::probes::ProbeResults;
use crate::shutdown::Shutdown;
use crate::simulated::readiness;
use crate::status_update::with_status;

/// A plan has fewer steps than this that follow at once from each other; each starts at least one container.
const MAX_STEPS: usize = 64;

/// How long a pod waits after its work panicked.
const PANIC_RETRY: Duration = Duration::from_secs(5);

/// How long a pod that waits for a time waits at most until its status is reported again, after that failed.
const REPORT_RETRY: Duration = Duration::from_secs(1);

/// One step of a pod.
pub(super) struct PodStep<'a> {
    pub(super) reconciler: &'a PodReconciler,
    pub(super) client: &'a Client,
    pub(super) machine: &'a Machine,
    pub(super) record: SharedRecord,
    pub(super) pod: Arc<BoundPod>,
    /// The pod in the API; `None` if a static pod has no mirror there.
    pub(super) object: Option<&'a TypedObject<v1::Pod>>,
}

impl PodStep<'_> {
    pub(super) async fn run(self) -> Result<Next, Error> {
        let changes = self.record.lock().changes;
        self.admit();
        self.check_deadline();
        let is_ending =
            self.pod.is_deleted() || self.pod.is_terminal() || self.record.lock().failure.is_some();
        let next = match is_ending {
            true => {
                self.end().await?;
                None
            }
            false => self.start().await?,
        };
        if self.pod.is_deleted() && self.is_removed().await? {
            return self.delete().await;
        }
        let reported = self.report(is_ending).await;
        let now = self.reconciler.clock.now();
        let mut record = self.record.lock();
        let retries = record.retries.values().copied().filter(|at| *at > now);
        let deadline = self.pod.deadline().filter(|_| !is_ending);
        let next = retries.chain(next).chain(deadline).min();
        let version = match (reported, next) {
            (Ok(version), _) => version,
            // The pod goes on while the API server is down: the back-off of errors would delay its containers.
            (Err(error), Some(next)) => {
                tracing::warn!(pod = %self.pod.key, %error, "cannot report the status of a pod");
                return Ok(Next::After(until(now, next).min(REPORT_RETRY)));
            }
            (Err(error), None) => return Err(error),
        };
        // The first status sets the start time, from which the deadline follows.
        let has_deadline = self.pod.spec().active_deadline_seconds.is_some() && !is_ending;
        let is_settled = record.work.is_idle() && record.changes == changes;
        if next.is_none() && is_settled && !has_deadline {
            record.settled_version = Some(version);
        }
        Ok(next.map_or(Next::Done, |next| Next::After(until(now, next))))
    }

    /// A new pod fails if its node cannot run it. One that the node has started is not checked again.
    fn admit(&self) {
        let (admission, pod) = (&self.reconciler.admission, &*self.pod);
        if pod.is_deleted() || pod.is_terminal() || self.record.lock().failure.is_some() {
            return;
        }
        if pod.status().start_time.is_some() {
            self.reconciler.executor.setup.add_to_class(pod);
            return admission.add(pod, self.machine);
        }
        if let Err(rejection) = self
            .check_node()
            .and_then(|()| admission.admit(pod, self.machine))
        {
            let events = &self.reconciler.executor.events;
            let (reason, message) = (&rejection.reason, &rejection.message);
            events.pod(pod, EventType::Warning, reason, message.clone());
            self.record.lock().failure = Some(PodFailure {
                message: format!("Pod was rejected: {message}"),
                ..rejection
            });
        }
    }

    /// A node that runs out of something starts no pods that it would evict at once, and one that shuts down starts none.
    fn check_node(&self) -> Result<(), PodFailure> {
        let shutdown = self.reconciler.shutdown.as_ref();
        if let Some(rejection) = shutdown.and_then(Shutdown::rejection) {
            return Err(rejection);
        }
        let pressure = self.reconciler.pressure.as_ref();
        match pressure.and_then(|pressure| pressure.reject(&self.pod.object)) {
            None => Ok(()),
            Some(message) => Err(PodFailure {
                reason: "Evicted".to_owned(),
                message,
                termination: None,
            }),
        }
    }

    /// How long the containers may take to stop: less than the pod allows if the node terminates it.
    fn grace(&self) -> Duration {
        let termination = self
            .record
            .lock()
            .failure
            .as_ref()
            .and_then(|failure| failure.termination);
        let own = self.pod.grace();
        termination.map_or(own, |termination| own.min(termination))
    }

    /// Frees what the pod used of its node.
    fn release(&self) {
        self.reconciler
            .admission
            .remove(&self.machine.name, self.pod.uid());
    }

    /// A pod that is active for longer than its deadline fails.
    fn check_deadline(&self) {
        let deadline = self.pod.deadline();
        let is_over = deadline.is_some_and(|deadline| deadline <= self.reconciler.clock.now());
        let mut record = self.record.lock();
        if is_over && record.failure.is_none() && !self.pod.is_terminal() {
            let message = "Pod was active on the node longer than the specified deadline";
            record.failure = Some(PodFailure {
                reason: "DeadlineExceeded".to_owned(),
                message: message.to_owned(),
                termination: None,
            });
            let events = &self.reconciler.executor.events;
            events.pod(&self.pod, EventType::Normal, "DeadlineExceeded", message);
        }
    }

    /// Plans and carries out until nothing is left to do now. Returns when that may change by itself.
    async fn start(&self) -> Result<Option<Timestamp>, Error> {
        self.reconciler.executor.setup.update_volumes(&self.pod);
        for _ in 0..MAX_STEPS {
            if !self.record.lock().work.is_idle() {
                return Ok(None);
            }
            let (observed, retry) = self.resize(self.observe().await?).await?;
            let plan = self.plan(&observed);
            let next = plan.next.into_iter().chain(retry).min();
            if plan.is_empty() {
                return Ok(next);
            }
            let work = self.sync_work(observed, plan);
            if !self.run_work(work).await {
                return Ok(next);
            }
        }
        Ok(None)
    }

    fn plan(&self, observed: &ObservedPod) -> Plan {
        let probes = self.probe_results(observed);
        let mut record = self.record.lock();
        let plan = plan(PlanInput {
            pod: &self.pod,
            observed,
            probes: &probes,
            backoffs: &record.backoffs,
            retries: &record.retries,
            now: self.reconciler.clock.now(),
        });
        for (name, waiting) in &plan.waiting {
            if record.waiting.insert(name.clone(), waiting.clone()).as_ref() != Some(waiting) {
                let message = format!(
                    "Back-off restarting failed container {name} in pod {}",
                    super::plan::pod_text(&self.pod)
                );
                let events = &self.reconciler.executor.events;
                events.warning(&self.pod, name, "BackOff", message);
            }
        }
        plan
    }

    fn sync_work(&self, observed: ObservedPod, plan: Plan) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let cancel = CancellationToken::new();
        let work = SyncWork {
            pod: self.pod.clone(),
            record: self.record.clone(),
            observed,
            plan,
            cancel: cancel.clone(),
        };
        self.record.lock().work = Work::Sync { cancel };
        let executor = self.reconciler.executor.clone();
        Box::pin(async move { executor.sync(work).await })
    }

    /// Stops what still runs of the pod, and removes it if the pod is deleted.
    async fn end(&self) -> Result<(), Error> {
        let grace = self.grace();
        let observed = self.observe().await?;
        if !observed.is_stopped() {
            let (executor, pod) = (self.reconciler.executor.clone(), self.pod.clone());
            let stop = Box::pin(async move { executor.stop_pod(&pod, &observed, grace).await });
            if !self.begin_kill(grace.as_secs()) || !self.run_work(stop).await {
                return Ok(());
            }
        }
        let observed = self.observe().await?;
        if observed.is_stopped() {
            self.record.lock().has_stopped = true;
            let executor = &self.reconciler.executor;
            executor
                .setup
                .remove_cgroup(self.pod.uid(), &*executor.clock)
                .await;
        }
        let may_remove = self.record.lock().may_remove(self.reconciler.clock.now());
        let is_due = self.pod.is_deleted() && !observed.is_empty() && may_remove;
        if is_due && self.begin_kill(grace.as_secs()) {
            if let Err(error) = self.report_last_status().await {
                // No task runs, for whose end the next step would wait.
                self.record.lock().work = Work::Idle;
                return Err(error);
            }
            let (executor, record) = (self.reconciler.executor.clone(), self.record.clone());
            let remove = Box::pin(async move { executor.remove_all(&record).await });
            self.run_work(remove).await;
        }
        Ok(())
    }

    /// Whether the pod may be stopped now: other work is cancelled, and a slower kill is replaced.
    fn begin_kill(&self, grace: u64) -> bool {
        let mut record = self.record.lock();
        match &record.work {
            Work::Kill { grace: old, .. } if *old <= grace => return false,
            Work::Sync { cancel } => {
                // The task ends at its next step, and the pod is reconciled again.
                cancel.cancel();
                return false;
            }
            Work::Kill { cancel, .. } => cancel.cancel(),
            Work::Idle => {}
        }
        let cancel = CancellationToken::new();
        record.work = Work::Kill { grace, cancel };
        true
    }

    /// Runs the work that the record names. Returns whether it completed at once.
    async fn run_work(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) -> bool {
        let record = self.record.clone();
        let cancel = match &record.lock().work {
            Work::Idle => CancellationToken::new(),
            Work::Sync { .. } => CancellationToken::new(),
            Work::Kill { cancel, .. } => cancel.clone(),
        };
        let (clock, pod) = (self.reconciler.clock.clone(), self.pod.clone());
        let work = async move {
            let work = AssertUnwindSafe(work).catch_unwind();
            let work = async {
                if work.await.is_err() {
                    // What it left undone is planned again, after a while.
                    tracing::error!(pod = %pod.key, "the work for a pod panicked");
                    clock.sleep(PANIC_RETRY).await;
                }
            };
            let has_ended = cancel.run_until_cancelled(work).await.is_some();
            let mut record = record.lock();
            if has_ended {
                record.work = Work::Idle;
            }
            record.mark_changed();
        };
        let is_complete = self.reconciler.run_task(&self.pod.key, Box::pin(work)).await;
        if is_complete {
            // A change that this step made itself, and sees.
            self.record.lock().changes -= 1;
        }
        is_complete
    }

    /// The results of the pod's probes, of which those of new containers are registered.
    fn probe_results(&self, observed: &ObservedPod) -> ProbeResults {
        let Some(prober) = &self.reconciler.prober else {
            return readiness::probe_results(observed, self.reconciler.clock.now());
        };
        prober.update_pod(&self.pod, observed, self.machine.addresses.first().copied());
        prober.results(observed)
    }

    pub(super) async fn observe(&self) -> Result<ObservedPod, Error> {
        let (sandboxes, containers) = {
            let record = self.record.lock();
            (record.sandboxes.clone(), record.containers.clone())
        };
        let runtime = &*self.reconciler.executor.runtime;
        let observed = ObservedPod::read(runtime, &sandboxes, &containers).await;
        let mut observed = observed.map_err(Error::failed)?;
        let setup = &self.reconciler.executor.setup;
        setup.add_termination_messages(&self.pod, &mut observed);
        Ok(observed)
    }

    /// Whether a deleted pod has nothing left in the runtime.
    async fn is_removed(&self) -> Result<bool, Error> {
        if !self.record.lock().work.is_idle() {
            return Ok(false);
        }
        Ok(self.observe().await?.is_empty())
    }

    /// The resource version of the pod.
    fn version(&self) -> String {
        let version = self.object.map(|object| object.resource_version().to_string());
        version.unwrap_or_default()
    }

    /// Writes the status if it differs. Returns the resource version that has it.
    async fn report(&self, is_ending: bool) -> Result<String, Error> {
        let observed = self.observe().await?;
        if self.pod.is_terminal() && observed.is_empty() {
            // Nothing is known that the status does not have.
            return Ok(self.version());
        }
        let probes = self.probe_results(&observed);
        let status = {
            let record = self.record.lock();
            pod_status(StatusInput {
                pod: &self.pod,
                observed: &observed,
                probes: &probes,
                waiting: &record.waiting,
                failure: record.failure.as_ref(),
                actuated: &record.actuated,
                resize: record.resize.as_ref(),
                host_addresses: &self.machine.addresses,
                scheme: &self.reconciler.scheme,
                is_ended: is_ending && observed.is_stopped(),
                now: self.reconciler.clock.now(),
            })
        };
        if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
            self.release();
        }
        let version = self.version();
        let Some(object) = self.object.filter(|_| *self.pod.status() != status) else {
            return Ok(version);
        };
        let pods = self.client.namespaced::<v1::Pod>(self.pod.key.namespace());
        let body = with_status(object.stored(), &status)?;
        let name = self.pod.key.name();
        match pods.dynamic().update_subresource(name, "status", body).await {
            Err(status) if status.is_not_found() => Ok(version),
            updated => Ok(updated.map(|pod| pod.resource_version().to_string())?),
        }
    }

    /// Writes the status of a deleted pod before its containers are removed.
    async fn report_last_status(&self) -> Result<(), Error> {
        let has_finalizers = self
            .pod
            .object
            .metadata
            .finalizers
            .iter()
            .flatten()
            .next()
            .is_some();
        let is_due = self.reconciler.prober.is_some() || has_finalizers;
        if is_due && !self.record.lock().has_last_status {
            self.report(true).await?;
            self.record.lock().has_last_status = true;
        }
        Ok(())
    }

    /// Deletes the pod from the API, by uid so that a later pod of the same name stays.
    async fn delete(&self) -> Result<Next, Error> {
        self.report_last_status().await?;
        self.release();
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            uid: Some(self.pod.uid().to_owned()),
            ..DeleteOptions::default()
        };
        let pods = self.client.namespaced::<v1::Pod>(self.pod.key.namespace());
        match pods.delete(self.pod.key.name(), options).await {
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(Next::Done),
            deleted => Ok(deleted.map(|_| Next::Done)?),
        }
    }
}

fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}
