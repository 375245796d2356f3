//! AlwaysPullImages: the image of every container of a pod is pulled at each start, so that only pods with the
//! credentials for a private image can use it, also on a node where the image already is.

use setpoint_api::Status;
use setpoint_api::field::Errors;
use setpoint_registry_api::{Operation, Review};
use setpoint_schema::{Tree, fields};

use crate::chain::Plugin;
use crate::review;

const ALWAYS: &str = "Always";
const CONTAINER_LISTS: [&str; 3] = [
    fields::INIT_CONTAINERS,
    fields::CONTAINERS,
    fields::EPHEMERAL_CONTAINERS,
];

/// Sets the pull policy of images, and rejects pods with another one.
#[derive(Debug)]
pub(crate) struct AlwaysPullImages;

impl Plugin for AlwaysPullImages {
    fn name(&self) -> &'static str {
        "AlwaysPullImages"
    }

    fn mutate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !adds_images(review) {
            return Ok(());
        }
        if let Some(pod) = review.object.as_deref_mut() {
            let spec = pod.child(fields::SPEC);
            for list in CONTAINER_LISTS {
                for container in spec.items_mut(list) {
                    container.set(&[fields::IMAGE_PULL_POLICY], ALWAYS);
                }
            }
            for volume in spec.items_mut(fields::VOLUMES) {
                if volume.at(&[fields::IMAGE]).is_some() {
                    volume.set(&[fields::IMAGE, fields::PULL_POLICY], ALWAYS);
                }
            }
        }
        Ok(())
    }

    /// A plugin that runs later may have changed the policy again.
    fn validate(&self, review: &mut Review<'_>) -> Result<(), Status> {
        if !adds_images(review) {
            return Ok(());
        }
        let errors = Errors::default();
        if let Some(spec) = review.object.as_deref().and_then(|pod| pod.get(fields::SPEC)) {
            check_policies(spec, &errors);
        }
        match errors.into_vec().first() {
            None => Ok(()),
            Some(error) => Err(review::forbidden(review, &error.to_string())),
        }
    }
}

fn check_policies(spec: &Tree, errors: &Errors) {
    let check = |policy: &str, field: Errors| {
        if policy != ALWAYS {
            field.not_supported(policy, &[ALWAYS]);
        }
    };
    for list in CONTAINER_LISTS {
        for (index, container) in spec.items(list).iter().enumerate() {
            let policy = container.str_at(&[fields::IMAGE_PULL_POLICY]).unwrap_or_default();
            let container = errors.at(fields::SPEC).at(list).index(index);
            check(policy, container.at(fields::IMAGE_PULL_POLICY));
        }
    }
    for (index, volume) in spec.items(fields::VOLUMES).iter().enumerate() {
        if let Some(image) = volume.get(fields::IMAGE) {
            let policy = image.str_at(&[fields::PULL_POLICY]).unwrap_or_default();
            let image = errors
                .at(fields::SPEC)
                .at(fields::VOLUMES)
                .index(index)
                .at(fields::IMAGE);
            check(policy, image.at(fields::PULL_POLICY));
        }
    }
}

/// Whether the write adds an image to a pod: a create, or an update with an image that no container of the old pod has.
fn adds_images(review: &Review<'_>) -> bool {
    if !review::is_resource(review, "", "pods") {
        return false;
    }
    match review.operation {
        Operation::Create => true,
        Operation::Update => {
            let old = review.decode_old().unwrap_or_default();
            let old: Vec<&str> = images(&old).collect();
            let new = review.object.as_deref();
            new.is_some_and(|pod| images(pod).any(|image| !old.contains(&image)))
        }
        Operation::Delete | Operation::Connect => false,
    }
}

fn images(pod: &Tree) -> impl Iterator<Item = &str> {
    let spec = pod.get(fields::SPEC);
    let containers = spec
        .into_iter()
        .flat_map(|spec| CONTAINER_LISTS.map(|list| spec.items(list)));
    containers
        .flatten()
        .map(|container| container.str_at(&[fields::IMAGE]).unwrap_or_default())
}
