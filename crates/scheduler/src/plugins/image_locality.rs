//! ImageLocality: nodes score higher that already have the images of the pod. An image that is on many nodes counts more,
//! so that a single node with it does not attract all pods.

use std::sync::Arc;

use super::{PluginArgs, PluginError};
use crate::framework::{
    CycleState, Dependency, Handle, MAX_SCORE, Plugin, PreScore, PreScoreResult, Registration, Rejection,
    Score, Sign,
};
use crate::pod_info::PodInfo;
use crate::state::{ClusterState, NodeIndex, NodeRef};

const MEBIBYTE: i64 = 1024 * 1024;
/// Less than this much does not count.
const MIN_BYTES: i64 = 23 * MEBIBYTE;
/// More than this much per container does not count.
const MAX_BYTES_PER_CONTAINER: i64 = 1000 * MEBIBYTE;

#[derive(Debug)]
pub(super) struct ImageLocality;

/// The share of nodes that have each image of the pod, in the order of its images.
#[derive(Debug, Clone)]
struct ImageShares(Vec<f64>);

pub(super) fn build(_: &PluginArgs, _: &Handle) -> Result<Registration, PluginError> {
    Ok(Registration {
        pre_score: Some(Arc::new(ImageLocality)),
        score: Some(Arc::new(ImageLocality)),
        sign: Some(Arc::new(ImageLocality)),
        ..Registration::new(ImageLocality.name())
    })
}

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }
}

impl PreScore for ImageLocality {
    fn pre_score(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        cluster: &ClusterState,
        _: &[NodeIndex],
    ) -> Result<PreScoreResult, Rejection> {
        let all = cluster.len() as f64;
        let images = pod.spec.images.iter();
        let shares: Vec<f64> = images
            .map(|image| cluster.images().nodes_with(image) as f64 / all)
            .collect();
        if shares.iter().all(|share| *share == 0.0) {
            return Ok(PreScoreResult::Skip);
        }
        cycle.write(ImageShares(shares));
        Ok(PreScoreResult::Score)
    }
}

impl Score for ImageLocality {
    fn score(&self, cycle: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> i64 {
        let Some(ImageShares(shares)) = cycle.read() else {
            return 0;
        };
        let local = &node.properties().images;
        let images = pod.spec.images.iter().zip(shares);
        let bytes = images.filter_map(|(image, share)| Some((*local.get(image)? as f64 * share) as i64));
        score_of(bytes.sum(), pod.spec.images.len())
    }
}

impl Sign for ImageLocality {
    fn dependency(&self, _: &PodInfo, _: &ClusterState) -> Dependency {
        Dependency::Node
    }
}

/// The score for so many bytes of images, between both limits.
fn score_of(bytes: i64, images: usize) -> i64 {
    let most = MAX_BYTES_PER_CONTAINER * i64::try_from(images.max(1)).unwrap_or(1);
    MAX_SCORE * (bytes.clamp(MIN_BYTES, most) - MIN_BYTES) / (most - MIN_BYTES)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{cluster_of, node_from, pod_from};

    #[test]
    fn scores_grow_with_the_bytes_between_the_limits() {
        assert_eq!(score_of(0, 1), 0);
        assert_eq!(score_of(23 * MEBIBYTE, 1), 0);
        assert_eq!(score_of(1000 * MEBIBYTE, 1), 100);
        assert_eq!(score_of(1000 * MEBIBYTE, 2), 49);
    }

    #[test]
    fn an_image_counts_by_the_share_of_nodes_that_have_it() {
        let image = json!({"names": ["app:1"], "sizeBytes": 1000 * MEBIBYTE});
        let mut cluster = cluster_of("a", json!({"status": {"images": [image]}}));
        cluster.set_node(&node_from("b", json!({})));
        let pod = pod_from(json!({"spec": {"containers": [{"image": "app:1"}]}}));
        let mut cycle = CycleState::default();
        ImageLocality.pre_score(&mut cycle, &pod, &cluster, &[]).unwrap();
        let score = |name: &str| ImageLocality.score(&cycle, &pod, cluster.find_node(name).unwrap());
        assert_eq!((score("a"), score("b")), (48, 0));
    }
}
