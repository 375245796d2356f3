//! The loop: it reads what is there, asks the plan, does what the plan says and reports.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::json;
use setpoint_api::options::{DeleteOptions, Propagation};
use setpoint_api::{Change, Key, Status};
use setpoint_client::Object;
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Context, Lister, Manager, Patch, Recorder, Typed, finalizer, for_};

use crate::database::Database;
use crate::objects::{self, BACKUP_OF, MEMBER_OF, PRIMARY, REPLICA, ROLE, SKIP_LAST};
use crate::plan::{Outcome, Plan, Step, World, is_older, plan};
use crate::{observe, report};

/// The name in events and in the fields it manages.
pub const NAME: &str = "database-operator";
/// Keeps a database until its last backup is taken.
pub const FINALIZER: &str = "db.example.com/last-backup";

/// A clean-up is woken by its Job; this is for the case that nothing is heard of it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Adds the operator to a manager.
pub fn add(manager: &mut Manager) -> Result<(), Error> {
    let context = manager.context().clone();
    let operator = Operator {
        databases: context.lister()?,
        sets: context.lister()?,
        pods: context.lister()?,
        jobs: context.lister()?,
        events: context.events.of(NAME),
        context,
    };
    let controller = for_::<Database>()
        .named(NAME)
        .owns::<StatefulSet>()
        .owns::<Service>()
        .watches::<Pod>(|change| named_by(MEMBER_OF, change))
        .watches::<Job>(|change| named_by(BACKUP_OF, change))
        .may::<Pod>(&["patch", "delete"])
        .may::<Job>(&["create", "delete"])
        .reconciles_with(operator);
    manager.control(controller);
    Ok(())
}

/// The database that a label names.
fn named_by(label: &str, change: &Change) -> Vec<Key> {
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
    pub(crate) events: Recorder,
    pub(crate) context: Context,
}

impl Reconcile for Operator {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(database) = self.databases.find(key) else {
            return Ok(Next::Done);
        };
        let databases = self.context.client.namespaced(key.namespace());
        let step = async |step| match step {
            finalizer::Step::Apply(database) => self.keep(&database).await,
            finalizer::Step::CleanUp(database) => self.let_go(&database).await,
        };
        finalizer::guard(&databases, database, FINALIZER, step).await
    }
}

impl Operator {
    /// Brings a database closer to what its user asks for.
    async fn keep(&self, database: &Typed<Database>) -> Result<Next, Error> {
        let version = version(&*database.shared()?);
        self.install(database, &version).await?;
        let jobs = self.backups(database)?;
        let world = self.observe(database, &version, &jobs)?;
        let plan = plan(&world);
        for step in &plan.steps {
            self.carry_out(database, &world, step).await?;
        }
        self.prune(database, &jobs).await?;
        report::report(self, database, &world, &plan, &jobs).await?;
        Ok(next(&plan))
    }

    /// Says what there shall be. The server changes what is different, and nothing else.
    async fn install(&self, database: &Typed<Database>, version: &str) -> Result<(), Error> {
        let members = database.shared()?.spec.members;
        self.apply(&objects::members_service(database)).await?;
        self.apply(&objects::primary_service(database)).await?;
        self.apply(&objects::stateful_set(database, version, members))
            .await?;
        Ok(())
    }

    async fn apply<T: Object>(&self, object: &T) -> Result<(), Status> {
        let meta = object.meta();
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
        let objects = self.context.client.namespaced::<T>(namespace.unwrap_or_default());
        let patch = Patch::apply(object, NAME)?.force();
        objects.patch(name.unwrap_or_default(), &patch).await.map(drop)
    }

    fn observe(&self, database: &Typed<Database>, version: &str, jobs: &[Arc<Job>]) -> Result<World, Error> {
        let spec = &database.shared()?.spec;
        let pods = self
            .sets
            .find(database.key())
            .map(|set| self.pods.owned_by(set.uid()));
        let pods: Vec<Arc<Pod>> = pods
            .iter()
            .flatten()
            .map(Typed::shared)
            .collect::<Result<_, _>>()?;
        let before = before(database, version);
        let before = jobs
            .iter()
            .find(|job| job.metadata.name.as_ref() == Some(&before));
        Ok(World {
            now: self.context.clock.now(),
            version: version.to_owned(),
            count: usize::try_from(spec.members).unwrap_or(0),
            members: pods.iter().map(|pod| observe::member(pod)).collect(),
            backup_before: before.map(|job| observe::outcome(job)),
            schedule: observe::schedule(spec.backup.every_seconds, jobs.iter().map(AsRef::as_ref)),
        })
    }

    async fn carry_out(&self, database: &Typed<Database>, world: &World, step: &Step) -> Result<(), Error> {
        match step {
            Step::Demote(member) => self.cast(database, member, REPLICA).await,
            Step::Promote(member) => {
                self.cast(database, member, PRIMARY).await?;
                self.events
                    .normal(database, "Promoted", format!("{member} is the primary now"));
                Ok(())
            }
            Step::Restart(member) => {
                self.delete::<Pod>(database, member).await?;
                let message = format!("{member} is restarted with version {}", world.version);
                self.events.normal(database, "Upgrading", message);
                Ok(())
            }
            Step::BackUpBefore(version) => self.back_up(database, &before(database, version), version).await,
            Step::BackUp => {
                // The name tells which backup it follows: tried twice, it is the same Job.
                let after = world.schedule.last.map_or(0, |last| last.as_second());
                let name = format!("{}-after-{after}", database.key().name());
                self.back_up(database, &name, &world.version).await
            }
        }
    }

    /// Gives a member its role. One that has gone in between needs none.
    async fn cast(&self, database: &Typed<Database>, member: &str, role: &str) -> Result<(), Error> {
        let pods = self.context.client.namespaced::<Pod>(database.key().namespace());
        let patch = Patch::merge(&json!({"metadata": {"labels": {ROLE: role}}}))?;
        match pods.patch(member, &patch).await {
            Err(status) if !status.is_not_found() => Err(status.into()),
            _ => Ok(()),
        }
    }

    async fn back_up(&self, database: &Typed<Database>, name: &str, version: &str) -> Result<(), Error> {
        self.create(database, &objects::backup(database, name, version))
            .await
    }

    /// One that is there already is as good.
    async fn create(&self, database: &Typed<Database>, job: &Job) -> Result<(), Error> {
        let jobs = self.context.client.namespaced::<Job>(database.key().namespace());
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

    /// The backups that go with the database.
    fn backups(&self, database: &Typed<Database>) -> Result<Vec<Arc<Job>>, Status> {
        self.jobs
            .owned_by(database.uid())
            .iter()
            .map(Typed::shared)
            .collect()
    }

    /// Lets the oldest backups go, so that no more than wanted are left.
    async fn prune(&self, database: &Typed<Database>, jobs: &[Arc<Job>]) -> Result<(), Error> {
        let keep = usize::try_from(database.shared()?.spec.backup.keep).unwrap_or(1);
        let mut taken: Vec<_> = jobs
            .iter()
            .filter_map(|job| Some((observe::taken_at(job)?, job)))
            .collect();
        taken.sort_by_key(|(at, _)| *at);
        let surplus = taken.len().saturating_sub(keep);
        for (_, job) in &taken[..surplus] {
            self.delete::<Job>(database, job.metadata.name.as_deref().unwrap_or_default())
                .await?;
        }
        Ok(())
    }

    async fn delete<T: Object>(&self, database: &Typed<Database>, name: &str) -> Result<(), Error> {
        let objects = self.context.client.namespaced::<T>(database.key().namespace());
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        match objects.delete(name, options).await {
            Err(status) if !status.is_not_found() => Err(status.into()),
            _ => Ok(()),
        }
    }

    /// Takes the last backup. Once it is there, or nobody wants it, the database may go, and all it owns goes with it.
    async fn let_go(&self, database: &Typed<Database>) -> Result<Next, Error> {
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
                    "backup {} failed; the annotation {SKIP_LAST} lets go without it",
                    key.name()
                );
                self.events.warning(database, "LastBackupFailed", message);
            }
            None => {
                let job = objects::last_backup(database, &version(&own));
                self.create(database, &job).await?;
            }
        }
        Ok(Next::After(PATIENCE))
    }
}

/// The version to run: the one asked for, unless it is older than what runs.
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
fn before(database: &Typed<Database>, version: &str) -> String {
    format!("{}-before-{}", database.key().name(), version.replace('.', "-"))
}

fn next(plan: &Plan) -> Next {
    plan.again.map_or(Next::Done, Next::After)
}
