//! DefaultStorageClass and DefaultIngressClass: what names no class gets the one that is marked as the default; of
//! several, the newest.

use std::cmp::Reverse;

use serde::Deserialize;

use setpoint_api::Status;
use setpoint_kinds::meta;
use setpoint_registry::{Operation, Review};
use setpoint_schema::Tree;

use crate::about;
use crate::chain::Plugin;

const STORAGE_MARKS: &[&str] = &[
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
const INGRESS_MARKS: &[&str] = &["ingressclass.kubernetes.io/is-default-class"];

/// The rule of volumes that do not say where they come from.
#[derive(Debug)]
pub(crate) struct DefaultStorageClass;

/// The rule of ingresses that do not say who serves them.
#[derive(Debug)]
pub(crate) struct DefaultIngressClass;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Class {
    metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    annotations: std::collections::BTreeMap<String, String>,
    creation_timestamp: String,
}

impl Plugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let named = |claim: &Tree| {
            about::has(claim, &["spec", "storageClassName"])
                || meta::entry(claim, "annotations", "volume.beta.kubernetes.io/storage-class").is_some()
        };
        if !lacks(review, ("", "persistentvolumeclaims"), named) {
            return Ok(());
        }
        let class = marked(review, ("storage.k8s.io", "storageclasses"), STORAGE_MARKS);
        if let (Some(class), Some(claim)) = (class, review.object.as_deref_mut()) {
            claim.set(&["spec", "storageClassName"], class);
        }
        Ok(())
    }
}

impl Plugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        let named = |ingress: &Tree| {
            about::has(ingress, &["spec", "ingressClassName"])
                || meta::entry(ingress, "annotations", "kubernetes.io/ingress.class").is_some()
        };
        if !lacks(review, ("networking.k8s.io", "ingresses"), named) {
            return Ok(());
        }
        let class = marked(review, ("networking.k8s.io", "ingressclasses"), INGRESS_MARKS);
        if let (Some(class), Some(ingress)) = (class, review.object.as_deref_mut()) {
            ingress.set(&["spec", "ingressClassName"], class);
        }
        Ok(())
    }
}

/// Whether an object of the resource is created without a class.
fn lacks(review: &Review<'_>, (group, resource): (&str, &str), named: impl Fn(&Tree) -> bool) -> bool {
    let created = review.operation == Operation::Create && about::is(review, group, resource);
    created && review.object.as_deref().is_some_and(|object| !named(object))
}

fn marked(review: &Review<'_>, (group, resource): (&str, &str), marks: &[&str]) -> Option<String> {
    let classes = about::all(review, group, resource, "");
    let newest = classes
        .iter()
        .map(|class| (about::view::<Class>(class), class.key().name().to_owned()))
        .filter(|(class, _)| {
            let annotations = &class.metadata.annotations;
            marks
                .iter()
                .any(|mark| annotations.get(*mark).is_some_and(|value| value == "true"))
        })
        .max_by_key(|(class, name)| (class.metadata.creation_timestamp.clone(), Reverse(name.clone())));
    newest.map(|(_, name)| name)
}
