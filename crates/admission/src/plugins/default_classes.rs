//! DefaultStorageClass and DefaultIngressClass: an object without a class gets the one annotated as default; of several,
//! the newest.

use std::cmp::Reverse;

use serde::Deserialize;

use setpoint_api::Status;
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};
use setpoint_strategy::meta;

use crate::chain::Plugin;
use crate::review;

const STORAGE_CLASS_ANNOTATIONS: &[&str] = &[
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
const INGRESS_CLASS_ANNOTATIONS: &[&str] = &["ingressclass.kubernetes.io/is-default-class"];

/// Sets the class of PersistentVolumeClaims without one.
#[derive(Debug)]
pub(crate) struct DefaultStorageClass;

/// Sets the class of Ingresses without one.
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
            review::has(claim, &["spec", "storageClassName"])
                || meta::entry(claim, "annotations", "volume.beta.kubernetes.io/storage-class").is_some()
        };
        if !creates_without_class(review, ("", "persistentvolumeclaims"), named) {
            return Ok(());
        }
        let class = default_class(
            review,
            ("storage.k8s.io", "storageclasses"),
            STORAGE_CLASS_ANNOTATIONS,
        );
        if let (Some(class), Some(claim)) = (class, review.object.as_deref_mut()) {
            claim.set(&[fields::SPEC, fields::STORAGE_CLASS_NAME], class);
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
            review::has(ingress, &["spec", "ingressClassName"])
                || meta::entry(ingress, "annotations", "kubernetes.io/ingress.class").is_some()
        };
        if !creates_without_class(review, ("networking.k8s.io", "ingresses"), named) {
            return Ok(());
        }
        let class = default_class(
            review,
            ("networking.k8s.io", "ingressclasses"),
            INGRESS_CLASS_ANNOTATIONS,
        );
        if let (Some(class), Some(ingress)) = (class, review.object.as_deref_mut()) {
            ingress.set(&[fields::SPEC, fields::INGRESS_CLASS_NAME], class);
        }
        Ok(())
    }
}

/// Whether an object of the resource is created without a class.
fn creates_without_class(
    review: &Review<'_>,
    (group, resource): (&str, &str),
    named: impl Fn(&Tree) -> bool,
) -> bool {
    let created = review.operation == Operation::Create && review::is_resource(review, group, resource);
    created && review.object.as_deref().is_some_and(|object| !named(object))
}

fn default_class(
    review: &Review<'_>,
    (group, resource): (&str, &str),
    annotation_keys: &[&str],
) -> Option<String> {
    let classes = review::list(review, group, resource, "");
    let newest = classes
        .iter()
        .map(|class| (review::view::<Class>(class), class.key().name().to_owned()))
        .filter(|(class, _)| {
            let annotations = &class.metadata.annotations;
            annotation_keys
                .iter()
                .any(|key| annotations.get(*key).is_some_and(|value| value == "true"))
        })
        .max_by_key(|(class, name)| (class.metadata.creation_timestamp.clone(), Reverse(name.clone())));
    newest.map(|(_, name)| name)
}
