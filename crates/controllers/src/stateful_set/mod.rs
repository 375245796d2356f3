//! Keeps the pods of each StatefulSet, with stable ordinals and storage of their own, in order.
//!
//! A reconcile syncs the ControllerRevisions, decides in [`mod@plan`] (pure), creates claims and pods, and writes the
//! status. A pod is never replaced before the previous one of its ordinal is gone, since both have the same name.
//!
//! Start reading at [`StatefulSets::reconcile`], then [`mod@plan`].

mod plan;
mod pod;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{self, PersistentVolumeClaim};
use setpoint_api::options::DeleteOptions;
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Clock, Key, Status};
use setpoint_runtime::batches::slow_start;
use setpoint_runtime::label_selector;
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Reconcile, Recorder, TypedObject,
};
use tokio_util::sync::CancellationToken;

use crate::pod_control::is_namespace_terminating;
use crate::pods::Pod;
use crate::revisions::{self, HASH_LABEL, History, RevisionOwner};
use crate::stateful_set::plan::{Action, Member, Plan, Revisions, plan};
use crate::{Config, controller_ref};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "statefulset-controller";

/// The label of a revision that holds its hash.
const REVISION_LABEL: &str = "controller.kubernetes.io/hash";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = StatefulSets::new(&context)?;
    let sets = reconciler.sets.clone();
    Controller::new(NAME, reconciler)
        .reconciles::<StatefulSet>()
        .watches(v1::Pod::resource().group_resource(), move |change| {
            controller_ref::owners_to_enqueue(&sets, change, |set| selector_of(set).ok())
        })
        .reads(ControllerRevision::resource().group_resource())
        .reads(PersistentVolumeClaim::resource().group_resource())
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
pub(crate) struct StatefulSets {
    sets: Lister<StatefulSet>,
    pods: Lister<v1::Pod>,
    claims: Lister<PersistentVolumeClaim>,
    revisions: Lister<ControllerRevision>,
    clock: Arc<dyn Clock>,
    events: Recorder,
}

/// What the pods of a set are made from.
struct PodSource<'a> {
    object: &'a TypedObject<StatefulSet>,
    set: &'a StatefulSet,
    /// The revision before the newest template.
    current: &'a ControllerRevision,
    /// The revision of the newest template.
    update: &'a ControllerRevision,
}

fn selector_of(set: &TypedObject<StatefulSet>) -> Result<LabelSelector, Error> {
    let set = set.shared()?;
    label_selector(&set.spec.selector).map_err(Error::terminal)
}

impl Reconcile for StatefulSets {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.sets.find(key) else {
            return Ok(Next::Done);
        };
        let set = object.to_owned()?;
        let selector = selector_of(&object)?;
        let history = self.history(client, &object, &set, &selector).await?;
        let members = self.members(client, &object, &selector).await?;
        let current = current(&set, &history);
        let revisions = Revisions {
            current: revisions::name(current),
            update: revisions::name(&history.update),
        };
        let plan = plan(self.clock.now(), &set, &members, revisions);
        let pod_source = PodSource {
            object: &object,
            set: &set,
            current,
            update: &history.update,
        };
        let done = self.carry_out(client, &pod_source, &plan).await;
        self.update_claim_owners(client, &object, &set, &members).await?;
        let in_use = members.iter().map(|member| member.revision.clone());
        let live = in_use.chain([revisions.current.to_owned(), revisions.update.to_owned()]);
        trim(client, &object, &set, &history, live.collect()).await?;
        report(client, &object, &set, &plan).await?;
        done?;
        Ok(plan.recheck.map_or(Next::Done, Next::After))
    }
}

/// The revision before the newest template; the newest itself if that one no longer exists.
fn current<'a>(set: &StatefulSet, history: &'a History) -> &'a ControllerRevision {
    let name = set
        .status
        .as_ref()
        .and_then(|status| status.current_revision.as_deref());
    let found = history.all.iter().find(|one| Some(revisions::name(one)) == name);
    found.unwrap_or(&history.update)
}

impl StatefulSets {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        let (pods, revisions) = (context.lister()?, context.lister()?);
        controller_ref::add_orphan_index(&pods);
        controller_ref::add_orphan_index(&revisions);
        Ok(Self {
            sets: context.lister()?,
            pods,
            claims: context.lister()?,
            revisions,
            clock: context.clock.clone(),
            events: context.events.for_component(NAME),
        })
    }

    /// The ControllerRevisions of the set's template.
    async fn history(
        &self,
        client: &Client,
        object: &TypedObject<StatefulSet>,
        set: &StatefulSet,
        selector: &LabelSelector,
    ) -> Result<Box<History>, Error> {
        let revision_owner = RevisionOwner {
            owner: object,
            metadata: &set.metadata,
            selector,
            template: &set.spec.template,
            collisions: set
                .status
                .as_ref()
                .and_then(|status| status.collision_count)
                .filter(|count| *count > 0),
            label: REVISION_LABEL,
        };
        revisions::sync(client, &self.revisions, &revision_owner).await
    }

    /// The pods of the set, with their ordinals.
    async fn members(
        &self,
        client: &Client,
        object: &TypedObject<StatefulSet>,
        selector: &LabelSelector,
    ) -> Result<Vec<Member>, Error> {
        let claimed = controller_ref::claim(client, &self.pods, object, selector).await?;
        let member = |pod: Arc<setpoint_api::Stored>| {
            let ordinal = pod::ordinal(object.key().name(), pod.key().name())?;
            let revision = pod.label(HASH_LABEL).unwrap_or_default().to_owned();
            let pod = Pod::read(pod);
            Some(Member {
                ordinal,
                pod,
                revision,
            })
        };
        let mut members: Vec<Member> = claimed.into_iter().filter_map(member).collect();
        members.sort_by_key(|member| member.ordinal);
        Ok(members)
    }

    /// Carries out the plan. If the order matters, the plan has one action at a time.
    async fn carry_out(
        &self,
        client: &Client,
        pod_source: &PodSource<'_>,
        plan: &Plan<'_>,
    ) -> Result<(), Error> {
        let PodSource { object, set, .. } = *pod_source;
        let outcome = slow_start(plan.actions.iter().collect(), |action| async move {
            match action {
                Action::Create { ordinal, is_new } => {
                    self.ensure_claims(client, object, set, *ordinal).await?;
                    let pod = pod_source.new_pod(*ordinal, *is_new);
                    self.create(client, object, &pod).await
                }
                Action::EnsureClaims(member) => self.ensure_claims(client, object, set, member.ordinal).await,
                Action::Delete(member) => self.delete(client, object, &member.pod).await,
            }
        })
        .await;
        outcome.into_result().map(drop)
    }

    async fn create(
        &self,
        client: &Client,
        object: &TypedObject<StatefulSet>,
        pod: &v1::Pod,
    ) -> Result<(), Error> {
        let created = client
            .namespaced::<v1::Pod>(object.key().namespace())
            .create(pod)
            .await;
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        match created {
            // The previous pod still exists; its deletion enqueues the set.
            Err(status) if status.is_already_exists() || is_namespace_terminating(&status) => Ok(()),
            created => self.record_event(object, ("create", "Create"), name, created.map(drop)),
        }
    }

    async fn delete(
        &self,
        client: &Client,
        object: &TypedObject<StatefulSet>,
        victim: &Pod,
    ) -> Result<(), Error> {
        let options = DeleteOptions::with_uid(victim.object().uid());
        let name = victim.object().key().name();
        let pods = client.namespaced::<v1::Pod>(object.key().namespace());
        match pods.delete(name, options).await {
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            deleted => self.record_event(object, ("delete", "Delete"), name, deleted.map(drop)),
        }
    }

    fn record_event(
        &self,
        object: &TypedObject<StatefulSet>,
        verb: (&str, &str),
        pod: &str,
        done: Result<(), Status>,
    ) -> Result<(), Error> {
        let set = object.key().name();
        let (verb, word) = verb;
        match &done {
            Ok(()) => {
                let message = format!("{verb} Pod {pod} in StatefulSet {set} successful");
                self.events.normal(object, &format!("Successful{word}"), message);
            }
            Err(status) => {
                let message = format!("{verb} Pod {pod} in StatefulSet {set} failed error: {status}");
                self.events.warning(object, &format!("Failed{word}"), message);
            }
        }
        Ok(done?)
    }

    /// Creates the missing claims of the pod of this ordinal.
    async fn ensure_claims(
        &self,
        client: &Client,
        object: &TypedObject<StatefulSet>,
        set: &StatefulSet,
        ordinal: i32,
    ) -> Result<(), Error> {
        let (namespace, name) = (object.key().namespace(), object.key().name());
        for (_, mut claim) in pod::claims(object, set, ordinal) {
            let claim_name = claim.metadata.name.clone().unwrap_or_default();
            if let Some(there) = self.claims.find(&Key::new(namespace, &claim_name)) {
                if there.header().deleting {
                    return Err(Error::failed(format!("pvc {claim_name} is being deleted")));
                }
                continue;
            }
            let owners = pod::owners(object, set, &[], None);
            claim.metadata.owner_references = (!owners.is_empty()).then_some(owners);
            let created = client
                .namespaced::<PersistentVolumeClaim>(namespace)
                .create(&claim)
                .await;
            match created {
                Ok(_) => {
                    let message = format!(
                        "create Claim {claim_name} Pod {name}-{ordinal} in StatefulSet {name} success"
                    );
                    self.events.normal(object, "SuccessfulCreate", message);
                }
                Err(status) if status.is_already_exists() => {}
                Err(status) => {
                    let message = format!(
                        "create Claim {claim_name} for Pod {name}-{ordinal} in StatefulSet {name} failed error: {status}"
                    );
                    self.events.warning(object, "FailedCreate", message);
                    return Err(status.into());
                }
            }
        }
        Ok(())
    }

    /// Sets the owners of all pods' claims by the set's retention policy.
    async fn update_claim_owners(
        &self,
        client: &Client,
        object: &TypedObject<StatefulSet>,
        set: &StatefulSet,
        members: &[Member],
    ) -> Result<(), Error> {
        let spec = set.spec.clone();
        let start = spec.ordinals.and_then(|own| own.start).unwrap_or(0);
        let desired_ordinals = start..start + spec.replicas.unwrap_or(1);
        let namespace = object.key().namespace();
        for member in members {
            for (_, claim) in pod::claims(object, set, member.ordinal) {
                let key = Key::new(namespace, claim.metadata.name.as_deref().unwrap_or_default());
                let Some(there) = self.claims.find(&key) else {
                    continue;
                };
                let mut there = there.to_owned()?;
                let current = there.metadata.owner_references.clone().unwrap_or_default();
                let condemned = (!desired_ordinals.contains(&member.ordinal)).then(|| &**member.pod.object());
                let owners = pod::owners(object, set, &current, condemned);
                if owners != current {
                    there.metadata.owner_references = (!owners.is_empty()).then_some(owners);
                    client
                        .namespaced::<PersistentVolumeClaim>(namespace)
                        .update(&there)
                        .await?;
                }
            }
        }
        Ok(())
    }
}

impl PodSource<'_> {
    /// A pod of the newest revision or of the current one.
    fn new_pod(&self, ordinal: i32, is_new: bool) -> v1::Pod {
        let revision = if is_new { self.update } else { self.current };
        let template = revisions::template(revision).unwrap_or_default();
        pod::new_pod(
            self.object,
            self.set,
            ordinal,
            template,
            revisions::name(revision),
        )
    }
}

async fn trim(
    client: &Client,
    object: &TypedObject<StatefulSet>,
    set: &StatefulSet,
    history: &History,
    live: BTreeSet<String>,
) -> Result<(), Error> {
    let handle = client.namespaced(object.key().namespace());
    revisions::trim(&handle, history, &live, set.spec.revision_history_limit).await
}

/// Writes the status if it changed.
async fn report(
    client: &Client,
    object: &TypedObject<StatefulSet>,
    set: &StatefulSet,
    plan: &Plan<'_>,
) -> Result<(), Error> {
    if set.status.as_ref() == Some(&plan.status) {
        return Ok(());
    }
    let mut updated = set.clone();
    updated.status = Some(plan.status.clone());
    let handle = client.namespaced::<StatefulSet>(object.key().namespace());
    match handle.update_status(&updated).await {
        Err(status) if status.is_not_found() => Ok(()),
        written => Ok(written.map(drop)?),
    }
}

#[cfg(test)]
mod tests;
