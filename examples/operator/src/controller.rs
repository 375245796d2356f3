//! The reconciler: it observes the state, makes a plan, executes its steps and reports the status.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::json;
use setpoint_api::options::{DeleteOptions, DeletionPropagation};
use setpoint_api::{ApiVerb, Change, Clock, Key, Status};
use setpoint_client::Object;
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Client, Lister, Manager, Patch, Recorder, TypedObject, finalizer, for_};

use crate::database::Database;
use crate::objects::{self, BACKUP_OF, MEMBER_OF, PRIMARY, REPLICA, ROLE, SKIP_LAST};
use crate::plan::{ObservedState, Outcome, Plan, Step, is_older, plan};
use crate::{observe, report};

/// The component name in events and the field manager.
pub const NAME: &str = "database-operator";
/// Keeps a database until its last backup is taken.
pub const FINALIZER: &str = "db.example.com/last-backup";

/// A finalizing database is enqueued by its backup Job; this is the fallback if no event arrives.
const FINALIZE_RECHECK: Duration = Duration::from_secs(60);

/// Adds the operator to a manager.
pub fn add(manager: &mut Manager) -> Result<(), Error> {
    let context = manager.context();
    let operator = Operator {
        databases: context.lister()?,
        sets: context.lister()?,
        pods: context.lister()?,
        jobs: context.lister()?,
        clock: context.clock.clone(),
        events: context.events.for_component(NAME),
    };
    let controller = for_::<Database>()
        .named(NAME)
        .owns::<StatefulSet>()
        .owns::<Service>()
        .watches::<Pod>(|change| database_by_label(MEMBER_OF, change))
        .watches::<Job>(|change| database_by_label(BACKUP_OF, change))
        .rbac::<Pod>([ApiVerb::Patch, ApiVerb::Delete])
        .rbac::<Job>([ApiVerb::Create, ApiVerb::Delete])
        .reconciles_with(operator);
    manager.add_controller(controller);
    Ok(())
}

/// The database that a label names.
fn database_by_label(label: &str, change: &Change) -> Vec<Key> {
    let object = change.object();
    let name = object.label(label);
    name.map(|name| Key::new(object.key().namespace(), name))
        .into_iter()
        .collect()
}

pub(crate) struct Operator {
    databases: Lister<Database>,
    sets: Lister<StatefulSet>,
    pods: Lister<Pod>,
    jobs: Lister<Job>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: Recorder,
}

impl Reconcile for Operator {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(database) = self.databases.find(key) else {
            return Ok(Next::Done);
        };
        let databases = client.namespaced(key.namespace());
        let step = async |step| match step {
            finalizer::Step::Apply(database) => self.sync(client, &database).await,
            finalizer::Step::CleanUp(database) => self.finalize(client, &database).await,
        };
        finalizer::guard(&databases, database, FINALIZER, step).await
    }
}

impl Operator {
    /// Brings a database closer to its desired state.
    async fn sync(&self, client: &Client, database: &TypedObject<Database>) -> Result<Next, Error> {
        let version = version(&*database.shared()?);
        install(client, database, &version).await?;
        let jobs = self.backups(database)?;
        let observed = self.observe(database, &version, &jobs)?;
        let plan = plan(&observed);
        for step in &plan.steps {
            self.carry_out(client, database, &observed, step).await?;
        }
        prune(client, database, &jobs).await?;
        if let Some(updated) = report::new_status(self, database, &observed, &plan, &jobs)? {
            let databases = client.namespaced::<Database>(database.key().namespace());
            databases.update_status(&updated).await?;
        }
        Ok(next(&plan))
    }

    fn observe(
        &self,
        database: &TypedObject<Database>,
        version: &str,
        jobs: &[Arc<Job>],
    ) -> Result<ObservedState, Error> {
        let spec = &database.shared()?.spec;
        let pods = self
            .sets
            .find(database.key())
            .map(|set| self.pods.owned_by(set.uid()));
        let pods: Vec<Arc<Pod>> = pods
            .iter()
            .flatten()
            .map(TypedObject::shared)
            .collect::<Result<_, _>>()?;
        let before = before(database, version);
        let before = jobs
            .iter()
            .find(|job| job.metadata.name.as_ref() == Some(&before));
        Ok(ObservedState {
            now: self.clock.now(),
            version: version.to_owned(),
            count: usize::try_from(spec.members).unwrap_or(0),
            members: pods.iter().map(|pod| observe::member(pod)).collect(),
            backup_before: before.map(|job| observe::outcome(job)),
            schedule: observe::schedule(spec.backup.every_seconds, jobs.iter().map(AsRef::as_ref)),
        })
    }

    async fn carry_out(
        &self,
        client: &Client,
        database: &TypedObject<Database>,
        observed: &ObservedState,
        step: &Step,
    ) -> Result<(), Error> {
        match step {
            Step::Demote(member) => set_role(client, database, member, REPLICA).await,
            Step::Promote(member) => {
                set_role(client, database, member, PRIMARY).await?;
                self.events
                    .normal(database, "Promoted", format!("{member} is the primary now"));
                Ok(())
            }
            Step::Restart(member) => {
                delete::<Pod>(client, database, member).await?;
                let message = format!("{member} is restarted with version {}", observed.version);
                self.events.normal(database, "Upgrading", message);
                Ok(())
            }
            Step::BackUpBefore(version) => {
                self.back_up(client, database, &before(database, version), version)
                    .await
            }
            Step::BackUp => {
                // The name refers to the previous backup: a retry creates the same Job.
                let after = observed.schedule.last.map_or(0, |last| last.as_second());
                let name = format!("{}-after-{after}", database.key().name());
                self.back_up(client, database, &name, &observed.version).await
            }
        }
    }

    async fn back_up(
        &self,
        client: &Client,
        database: &TypedObject<Database>,
        name: &str,
        version: &str,
    ) -> Result<(), Error> {
        self.create(client, database, &objects::backup(database, name, version))
            .await
    }

    /// Creates a backup Job, unless it exists already.
    async fn create(
        &self,
        client: &Client,
        database: &TypedObject<Database>,
        job: &Job,
    ) -> Result<(), Error> {
        let jobs = client.namespaced::<Job>(database.key().namespace());
        match jobs.create(job).await {
            Err(status) if status.is_already_exists() => Ok(()),
            Err(status) => Err(status.into()),
            Ok(job) => {
                let message = format!("backup {} is under way", job.key().name());
                self.events.normal(database, "BackingUp", message);
                Ok(())
            }
        }
    }

    /// The backup Jobs that the database owns.
    fn backups(&self, database: &TypedObject<Database>) -> Result<Vec<Arc<Job>>, Status> {
        self.jobs
            .owned_by(database.uid())
            .iter()
            .map(TypedObject::shared)
            .collect()
    }

    /// Takes the last backup. Once it is done, or skipped, the finalizer is removed, and the garbage collector deletes
    /// what the database owns.
    async fn finalize(&self, client: &Client, database: &TypedObject<Database>) -> Result<Next, Error> {
        let own = database.shared()?;
        let skipped = own
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|all| all.contains_key(SKIP_LAST));
        let has_run = own.status.as_ref().is_some_and(|status| status.version.is_some());
        if skipped || !has_run {
            return Ok(Next::Done);
        }
        let key = Key::new(database.key().namespace(), &objects::last_backup_name(database));
        let job = self.jobs.find(&key).map(|job| job.shared()).transpose()?;
        match job.map(|job| observe::outcome(&job)) {
            Some(Outcome::Done) => return Ok(Next::Done),
            Some(Outcome::Running) => {}
            Some(Outcome::Failed) => {
                let message = format!(
                    "backup {} failed; the annotation {SKIP_LAST} skips it",
                    key.name()
                );
                self.events.warning(database, "LastBackupFailed", message);
            }
            None => {
                let job = objects::last_backup(database, &version(&own));
                self.create(client, database, &job).await?;
            }
        }
        Ok(Next::After(FINALIZE_RECHECK))
    }
}

/// Applies the desired objects. The server changes only what differs.
async fn install(client: &Client, database: &TypedObject<Database>, version: &str) -> Result<(), Error> {
    let members = database.shared()?.spec.members;
    apply(client, &objects::members_service(database)).await?;
    apply(client, &objects::primary_service(database)).await?;
    apply(client, &objects::stateful_set(database, version, members)).await?;
    Ok(())
}

/// Deletes the oldest backups beyond the number to keep.
async fn prune(client: &Client, database: &TypedObject<Database>, jobs: &[Arc<Job>]) -> Result<(), Error> {
    let keep = usize::try_from(database.shared()?.spec.backup.keep).unwrap_or(1);
    let mut taken: Vec<_> = jobs
        .iter()
        .filter_map(|job| Some((observe::taken_at(job)?, job)))
        .collect();
    taken.sort_by_key(|(at, _)| *at);
    let surplus = taken.len().saturating_sub(keep);
    for (_, job) in &taken[..surplus] {
        delete::<Job>(client, database, job.metadata.name.as_deref().unwrap_or_default()).await?;
    }
    Ok(())
}

async fn apply<T: Object>(client: &Client, object: &T) -> Result<(), Status> {
    let meta = object.meta();
    let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
    let objects = client.namespaced::<T>(namespace.unwrap_or_default());
    let patch = Patch::apply(object, NAME)?.force();
    objects.patch(name.unwrap_or_default(), &patch).await.map(drop)
}

/// Sets the role of a member. One that was deleted meanwhile needs none.
async fn set_role(
    client: &Client,
    database: &TypedObject<Database>,
    member: &str,
    role: &str,
) -> Result<(), Error> {
    let pods = client.namespaced::<Pod>(database.key().namespace());
    let patch = Patch::merge(&json!({"metadata": {"labels": {ROLE: role}}}))?;
    match pods.patch(member, &patch).await {
        Err(status) if !status.is_not_found() => Err(status.into()),
        _ => Ok(()),
    }
}

async fn delete<T: Object>(
    client: &Client,
    database: &TypedObject<Database>,
    name: &str,
) -> Result<(), Error> {
    let objects = client.namespaced::<T>(database.key().namespace());
    let options = DeleteOptions {
        propagation_policy: Some(DeletionPropagation::Background),
        ..DeleteOptions::default()
    };
    match objects.delete(name, options).await {
        Err(status) if !status.is_not_found() => Err(status.into()),
        _ => Ok(()),
    }
}

/// The version to run: that of the spec, unless it is older than the running one.
pub(crate) fn version(database: &Database) -> String {
    let running = database
        .status
        .as_ref()
        .and_then(|status| status.version.as_ref());
    match running {
        Some(running) if is_older(&database.spec.version, running) => running.clone(),
        _ => database.spec.version.clone(),
    }
}

/// The name of the backup before an upgrade to this version.
fn before(database: &TypedObject<Database>, version: &str) -> String {
    format!("{}-before-{}", database.key().name(), version.replace('.', "-"))
}

fn next(plan: &Plan) -> Next {
    plan.requeue_after.map_or(Next::Done, Next::After)
}
