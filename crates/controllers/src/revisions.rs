//! The history of a template: ControllerRevisions, one for each template that a DaemonSet or StatefulSet has had.
//!
//! Equal templates are one revision, whose number goes up when it comes back; names are made from the template, and from
//! how often such a name was taken by another.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};
use setpoint_api::Status;
use setpoint_api::options::DeleteOptions;
use setpoint_api::selector::LabelSelector;
use setpoint_runtime::{Client, Error, Handle, Lister, Object, Patch, Typed, owner};

use crate::{claims, hash};

/// The label of a pod that names the revision it was made of.
pub(crate) const HASH_LABEL: &str = "controller-revision-hash";
const LONGEST_PREFIX: usize = 223;

/// Whose history it is, and what its template is now.
#[derive(Debug)]
pub(crate) struct Subject<'a, T> {
    pub(crate) owner: &'a Typed<T>,
    pub(crate) metadata: &'a ObjectMeta,
    pub(crate) selector: &'a LabelSelector,
    pub(crate) template: &'a PodTemplateSpec,
    pub(crate) collisions: Option<i32>,
    /// The label under which a revision has its own hash.
    pub(crate) label: &'static str,
}

/// All revisions, oldest first, and the one of the template as it is now.
#[derive(Debug, Clone)]
pub(crate) struct History {
    pub(crate) all: Vec<ControllerRevision>,
    pub(crate) update: ControllerRevision,
}

/// Makes sure that the template has its revision, and that it is the last. It fails if the name of a new revision is taken
/// by another, which is noted for the next try.
pub(crate) async fn sync<T: Object>(
    client: &Client,
    revisions: &Lister<ControllerRevision>,
    subject: &Subject<'_, T>,
) -> Result<Box<History>, Error> {
    let claimed = claims::claim(client, revisions, subject.owner, subject.selector).await?;
    let all: Result<Vec<ControllerRevision>, Status> = claimed
        .into_iter()
        .map(|one| Typed::new(one).to_owned())
        .collect();
    let mut all = all?;
    all.sort_by_key(age);
    let last = all.last().map_or(0, number);
    let handle = client.namespaced::<ControllerRevision>(subject.owner.key().namespace());
    let equal = all
        .iter()
        .rposition(|one| template(one).as_ref() == Some(subject.template));
    let update = match equal {
        Some(at) if at + 1 == all.len() => all[at].clone(),
        Some(at) => {
            let mut again = all.remove(at);
            again.revision = Some(last + 1);
            let again = handle.update(&again).await?.to_owned()?;
            all.push(again.clone());
            again
        }
        None => match create(&handle, subject, last + 1).await? {
            Some(created) => {
                all.push(created.clone());
                created
            }
            None => return Err(note_collision(client, subject).await?),
        },
    };
    Ok(Box::new(History { all, update }))
}

/// Takes away the oldest revisions that nobody lives by, beyond so many.
pub(crate) async fn trim(
    handle: &Handle<ControllerRevision>,
    history: &History,
    live: &BTreeSet<String>,
    limit: Option<i32>,
) -> Result<(), Error> {
    let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(0);
    let dead: Vec<&ControllerRevision> = history
        .all
        .iter()
        .filter(|one| !live.contains(name(one)))
        .collect();
    for one in dead.iter().take(dead.len().saturating_sub(limit)) {
        match handle.delete(name(one), DeleteOptions::default()).await {
            Err(status) if status.is_not_found() => {}
            deleted => drop(deleted?),
        }
    }
    Ok(())
}

pub(crate) fn name(revision: &ControllerRevision) -> &str {
    revision.metadata.name.as_deref().unwrap_or_default()
}

/// The template of a revision, if it can be read.
pub(crate) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.0.get("spec")?.get("template")?.clone();
    template.as_object_mut()?.remove("$patch");
    // Through text: reading a template from a value would compile all of a pod's parts a second time.
    serde_json::from_slice(&serde_json::to_vec(&template).ok()?).ok()
}

/// The hash that a revision has under this label.
pub(crate) fn hash_of<'a>(revision: &'a ControllerRevision, label: &str) -> &'a str {
    let labels = revision.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get(label))
        .map_or("", String::as_str)
}

fn number(revision: &ControllerRevision) -> i64 {
    revision.revision.unwrap_or(0)
}

fn age(revision: &ControllerRevision) -> (i64, Option<jiff::Timestamp>, String) {
    let created = revision.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (number(revision), created, name(revision).to_owned())
}

/// Creates the revision of the template; nothing if its name is another's.
async fn create<T: Object>(
    handle: &Handle<ControllerRevision>,
    subject: &Subject<'_, T>,
    number: i64,
) -> Result<Option<ControllerRevision>, Error> {
    let revision = new_revision(subject, number)?;
    match handle.create(&revision).await {
        Ok(created) => Ok(Some(created.to_owned()?)),
        Err(status) if status.is_already_exists() => {
            let there = handle.get(name(&revision)).await?;
            let is_ours = owner::controls(subject.owner, &there);
            let there = there.to_owned()?;
            let is_same = is_ours && template(&there).as_ref() == Some(subject.template);
            Ok(is_same.then_some(there))
        }
        Err(status) => Err(status.into()),
    }
}

/// Counts one more name that was taken, so that the next try makes another.
async fn note_collision<T: Object>(client: &Client, subject: &Subject<'_, T>) -> Result<Error, Error> {
    let key = subject.owner.key();
    let patch = json!({
        "metadata": {"resourceVersion": subject.owner.resource_version().to_string()},
        "status": {"collisionCount": subject.collisions.unwrap_or(0) + 1},
    });
    let handle = client.namespaced::<T>(key.namespace());
    handle.patch_status(key.name(), &Patch::merge(&patch)?).await?;
    let kind = T::gvk().kind;
    Ok(Error::failed(format!(
        "the name of a revision of {kind} {key} is taken"
    )))
}

fn new_revision<T: Object>(subject: &Subject<'_, T>, number: i64) -> Result<ControllerRevision, Error> {
    let mut template: Value = serde_json::from_slice(&serde_json::to_vec(subject.template)?)?;
    let hash = hash::short(template.to_string().as_bytes(), subject.collisions);
    template["$patch"] = json!("replace");
    let labels = subject
        .template
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.labels.clone());
    let mut labels = labels.unwrap_or_default();
    labels.insert(subject.label.to_owned(), hash.clone());
    let owner = subject.owner.key().name();
    let prefix = owner.get(..LONGEST_PREFIX).unwrap_or(owner);
    let metadata = ObjectMeta {
        name: Some(format!("{prefix}-{hash}")),
        namespace: Some(subject.owner.key().namespace().to_owned()),
        labels: Some(labels),
        annotations: subject.metadata.annotations.clone(),
        owner_references: Some(vec![owner::controller_reference(subject.owner)]),
        ..ObjectMeta::default()
    };
    Ok(ControllerRevision {
        metadata,
        data: RawExtension(json!({"spec": {"template": template}})),
        revision: Some(number),
    })
}
