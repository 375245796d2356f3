//! [`NodeHealth`]: what the container runtime of a node contributes to the node's status.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ContainerImage;
use setpoint_container_runtime::{Image, Runtime};

use crate::eviction::{NodePressure, Pressure};

/// A node reports at most this many images, and this many names of each.
const MAX_IMAGES: usize = 50;
const MAX_NAMES: usize = 5;

/// The state of a node's runtime.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeHealth {
    /// Why the node is not ready.
    pub(crate) not_ready: Option<String>,
    /// What the node runs out of.
    pub(crate) pressures: BTreeSet<Pressure>,
    /// The images on the node, largest first.
    pub(crate) images: Option<Vec<ContainerImage>>,
    /// The name and version of the runtime.
    pub(crate) runtime_version: Option<String>,
}

impl NodeHealth {
    pub(crate) async fn read(runtime: &dyn Runtime, pressure: &NodePressure) -> Self {
        let not_ready = match runtime.status().await {
            Ok(status) => {
                let runtime = status
                    .runtime_not_ready
                    .map(|why| format!("container runtime not ready: {why}"));
                let network = status
                    .network_not_ready
                    .map(|why| format!("container runtime network not ready: {why}"));
                let reasons: Vec<String> = runtime.into_iter().chain(network).collect();
                match reasons.as_slice() {
                    [] => None,
                    [one] => Some(one.clone()),
                    all => Some(format!("[{}]", all.join(", "))),
                }
            }
            Err(error) => Some(format!("container runtime is down: {error}")),
        };
        Self {
            not_ready,
            pressures: pressure.current(),
            images: runtime.list_images().await.ok().map(images),
            runtime_version: runtime.version().await.ok().map(|version| version.to_string()),
        }
    }
}

fn images(mut images: Vec<Image>) -> Vec<ContainerImage> {
    images.sort_by(|a, b| (b.size, &a.id).cmp(&(a.size, &b.id)));
    images.truncate(MAX_IMAGES);
    let image = |image: Image| {
        let names = image.digests.into_iter().chain(image.tags).take(MAX_NAMES);
        ContainerImage {
            names: Some(names.collect()),
            size_bytes: i64::try_from(image.size).ok(),
        }
    };
    images.into_iter().map(image).collect()
}
