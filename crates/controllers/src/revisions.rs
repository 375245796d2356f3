//! ControllerRevisions: the history of a template, one for each template that a DaemonSet or StatefulSet has had.
//!
//! Equal templates share one revision, whose number is raised when the template comes back. Its name is the hash of the
//! template and of the number of name collisions.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};
use setpoint_api::Status;
use setpoint_api::options::DeleteOptions;
use setpoint_api::selector::LabelSelector;
use setpoint_runtime::{Api, Client, Error, Lister, Object, Patch, TypedObject, owner};

use crate::{controller_ref, hash};

/// The label of a pod that names its revision.
pub(crate) const HASH_LABEL: &str = "controller-revision-hash";
const MAX_NAME_PREFIX: usize = 223;

/// The owner of the history, and its current template.
#[derive(Debug)]
pub(crate) struct RevisionOwner<'a, T> {
    pub(crate) owner: &'a TypedObject<T>,
    pub(crate) metadata: &'a ObjectMeta,
    pub(crate) selector: &'a LabelSelector,
    pub(crate) template: &'a PodTemplateSpec,
    pub(crate) collisions: Option<i32>,
    /// The label of a revision that holds its hash.
    pub(crate) label: &'static str,
}

/// All revisions, oldest first, and the one of the current template.
#[derive(Debug, Clone)]
pub(crate) struct History {
    pub(crate) all: Vec<ControllerRevision>,
    pub(crate) update: ControllerRevision,
}

/// Makes sure that the template has a revision, and that it is the last. If another object has the name of a new
/// revision, the collision is recorded for the next try and an error returned.
pub(crate) async fn sync<T: Object>(
    client: &Client,
    revisions: &Lister<ControllerRevision>,
    revision_owner: &RevisionOwner<'_, T>,
) -> Result<Box<History>, Error> {
    let claimed =
        controller_ref::claim(client, revisions, revision_owner.owner, revision_owner.selector).await?;
    let all: Result<Vec<ControllerRevision>, Status> = claimed
        .into_iter()
        .map(|one| TypedObject::new(one).to_owned())
        .collect();
    let mut all = all?;
    all.sort_by_key(age);
    let last = all.last().map_or(0, number);
    let handle = client.namespaced::<ControllerRevision>(revision_owner.owner.key().namespace());
    let equal = all
        .iter()
        .rposition(|one| template(one).as_ref() == Some(revision_owner.template));
    let update = match equal {
        Some(at) if at + 1 == all.len() => all[at].clone(),
        Some(at) => {
            let mut again = all.remove(at);
            again.revision = Some(last + 1);
            let again = handle.update(&again).await?.to_owned()?;
            all.push(again.clone());
            again
        }
        None => match create(&handle, revision_owner, last + 1).await? {
            Some(created) => {
                all.push(created.clone());
                created
            }
            None => return Err(note_collision(client, revision_owner).await?),
        },
    };
    Ok(Box::new(History { all, update }))
}

/// Deletes the oldest revisions that are not in use, beyond the history limit.
pub(crate) async fn trim(
    handle: &Api<ControllerRevision>,
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

/// The template of a revision, if it can be decoded.
pub(crate) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.0.get("spec")?.get("template")?.clone();
    template.as_object_mut()?.remove("$patch");
    // Through text: decoding a template from a `Value` would compile all types of a pod a second time.
    setpoint_api::json::from_slice(&setpoint_api::json::to_vec(&template).ok()?).ok()
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

/// Creates the revision of the template; `None` if another object has its name.
async fn create<T: Object>(
    handle: &Api<ControllerRevision>,
    revision_owner: &RevisionOwner<'_, T>,
    number: i64,
) -> Result<Option<ControllerRevision>, Error> {
    let revision = new_revision(revision_owner, number)?;
    match handle.create(&revision).await {
        Ok(created) => Ok(Some(created.to_owned()?)),
        Err(status) if status.is_already_exists() => {
            let there = handle.get(name(&revision)).await?;
            let is_ours = owner::controls(revision_owner.owner, &there);
            let there = there.to_owned()?;
            let is_same = is_ours && template(&there).as_ref() == Some(revision_owner.template);
            Ok(is_same.then_some(there))
        }
        Err(status) => Err(status.into()),
    }
}

/// Counts a name collision, so that the next try gets another name.
async fn note_collision<T: Object>(
    client: &Client,
    revision_owner: &RevisionOwner<'_, T>,
) -> Result<Error, Error> {
    let key = revision_owner.owner.key();
    let patch = json!({
        "metadata": {"resourceVersion": revision_owner.owner.resource_version().to_string()},
        "status": {"collisionCount": revision_owner.collisions.unwrap_or(0) + 1},
    });
    let handle = client.namespaced::<T>(key.namespace());
    handle.patch_status(key.name(), &Patch::merge(&patch)?).await?;
    let kind = T::gvk().kind;
    Ok(Error::failed(format!(
        "name collision of a controller revision of {kind} {key}"
    )))
}

fn new_revision<T: Object>(
    revision_owner: &RevisionOwner<'_, T>,
    number: i64,
) -> Result<ControllerRevision, Error> {
    let template = setpoint_api::json::to_vec(revision_owner.template)?;
    let hash = hash::compute_hash(&template, revision_owner.collisions);
    let labels = revision_owner
        .template
        .metadata
        .as_ref()
        .and_then(|metadata| metadata.labels.clone());
    let mut labels = labels.unwrap_or_default();
    labels.insert(revision_owner.label.to_owned(), hash.clone());
    let owner = revision_owner.owner.key().name();
    let prefix = owner.get(..MAX_NAME_PREFIX).unwrap_or(owner);
    let metadata = ObjectMeta {
        name: Some(format!("{prefix}-{hash}")),
        namespace: Some(revision_owner.owner.key().namespace().to_owned()),
        labels: Some(labels),
        annotations: revision_owner.metadata.annotations.clone(),
        owner_references: Some(vec![owner::controller_reference(revision_owner.owner)]),
        ..ObjectMeta::default()
    };
    Ok(ControllerRevision {
        metadata,
        data: RawExtension(template_patch(&template)?),
        revision: Some(number),
    })
}

/// The patch that restores a template, with sorted keys: `kubectl rollout undo` compares its bytes with those of a patch
/// that it makes itself.
fn template_patch(template: &[u8]) -> Result<Value, Error> {
    let mut template: Value = setpoint_api::json::from_slice(template)?;
    template["$patch"] = json!("replace");
    template.sort_all_objects();
    Ok(json!({"spec": {"template": template}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_patch_are_sorted() {
        let template =
            r#"{"metadata":{"labels":{"b":"1","a":"2"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
        let patch = template_patch(template.as_bytes()).unwrap().to_string();
        assert_eq!(
            patch,
            r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"a":"2","b":"1"}},"spec":{"containers":[{"image":"i","name":"c"}]}}}}"#
        );
    }
}
