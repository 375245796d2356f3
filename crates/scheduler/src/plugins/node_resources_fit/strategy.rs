//! [`Strategy`]: how NodeResourcesFit ranks nodes: the emptiest, the fullest, or by a shape of utilization and score.

use serde::Deserialize;

use crate::framework::MAX_SCORE;
use crate::plugins::PluginError;
use crate::plugins::resource_allocation::{RequestKind, ResourceSpec, allocation, default_resources};
use crate::pod_info::PodInfo;
use crate::state::NodeRef;

/// The highest score in a shape (upstream: `MaxCustomPriorityScore`).
const MAX_SHAPE_SCORE: i64 = 10;

/// The argument `scoringStrategy`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ScoringStrategy {
    r#type: String,
    resources: Vec<ResourceSpec>,
    requested_to_capacity_ratio: RequestedToCapacityRatio,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RequestedToCapacityRatio {
    shape: Vec<ShapePoint>,
}

/// A point of the shape; the score is linear between points.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct ShapePoint {
    utilization: i64,
    score: i64,
}

/// A checked strategy.
#[derive(Debug)]
pub(super) struct Strategy {
    resources: Vec<ResourceSpec>,
    function: ScoreFunction,
}

#[derive(Debug)]
enum ScoreFunction {
    LeastAllocated,
    MostAllocated,
    /// Points in order of utilization, with scores up to [`MAX_SCORE`].
    Shape(Vec<ShapePoint>),
}

impl Strategy {
    pub(super) fn new(args: ScoringStrategy) -> Result<Self, PluginError> {
        let function = match args.r#type.as_str() {
            "" | "LeastAllocated" => ScoreFunction::LeastAllocated,
            "MostAllocated" => ScoreFunction::MostAllocated,
            "RequestedToCapacityRatio" => {
                ScoreFunction::Shape(scale(args.requested_to_capacity_ratio.shape)?)
            }
            other => {
                let message = format!("scoring strategy {other} is not supported");
                return Err(PluginError(message));
            }
        };
        let resources = match args.resources.is_empty() {
            true => default_resources(),
            false => args.resources,
        };
        Ok(Self { resources, function })
    }

    pub(super) fn score(&self, pod: &PodInfo, node: NodeRef<'_>) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for resource in &self.resources {
            let Some(amounts) = allocation(pod, node, &resource.name, RequestKind::NonZero) else {
                continue;
            };
            let score = self.function.score(amounts.requested, amounts.allocatable);
            if score > 0 || !matches!(self.function, ScoreFunction::Shape(_)) {
                sum += score * resource.weight;
                weights += resource.weight;
            }
        }
        match (&self.function, weights) {
            (_, 0) => 0,
            (ScoreFunction::Shape(_), weights) => (sum as f64 / weights as f64).round() as i64,
            (_, weights) => sum / weights,
        }
    }
}

impl ScoreFunction {
    fn score(&self, requested: i64, capacity: i64) -> i64 {
        match self {
            Self::LeastAllocated if requested > capacity => 0,
            Self::LeastAllocated => share(capacity - requested, capacity),
            Self::MostAllocated => share(requested.min(capacity), capacity),
            Self::Shape(points) => interpolate(points, share(requested.min(capacity), capacity)),
        }
    }
}

/// The share in percent, which is also the range of scores.
fn share(amount: i64, whole: i64) -> i64 {
    match whole {
        0 => 0,
        _ => i64::try_from(i128::from(amount) * i128::from(MAX_SCORE) / i128::from(whole)).unwrap_or(0),
    }
}

fn scale(mut shape: Vec<ShapePoint>) -> Result<Vec<ShapePoint>, PluginError> {
    if shape.is_empty() {
        let message = "at least one point must be specified".to_owned();
        return Err(PluginError(message));
    }
    for point in &mut shape {
        point.score *= MAX_SCORE / MAX_SHAPE_SCORE;
    }
    Ok(shape)
}

fn interpolate(points: &[ShapePoint], utilization: i64) -> i64 {
    let Some(next) = points.iter().position(|point| utilization <= point.utilization) else {
        return points.last().map_or(0, |point| point.score);
    };
    let Some(before) = next.checked_sub(1).map(|at| points[at]) else {
        return points[0].score;
    };
    let after = points[next];
    before.score
        + (after.score - before.score) * (utilization - before.utilization)
            / (after.utilization - before.utilization)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(function: &ScoreFunction, requested: i64, capacity: i64, expected: i64) {
        assert_eq!(function.score(requested, capacity), expected);
    }

    #[test]
    fn the_emptier_node_scores_higher() {
        check(&ScoreFunction::LeastAllocated, 25, 100, 75);
        check(&ScoreFunction::LeastAllocated, 100, 100, 0);
        check(&ScoreFunction::LeastAllocated, 101, 100, 0);
        check(&ScoreFunction::LeastAllocated, 0, i64::MAX, MAX_SCORE);
    }

    #[test]
    fn the_fuller_node_scores_higher() {
        check(&ScoreFunction::MostAllocated, 25, 100, 25);
        check(&ScoreFunction::MostAllocated, 200, 100, 100);
    }

    #[test]
    fn a_shape_is_linear_between_its_points() {
        let point = |utilization, score| ShapePoint { utilization, score };
        let shape = ScoreFunction::Shape(scale(vec![point(0, 0), point(50, 10), point(100, 5)]).unwrap());
        check(&shape, 0, 100, 0);
        check(&shape, 25, 100, 50);
        check(&shape, 50, 100, 100);
        check(&shape, 75, 100, 75);
        check(&shape, 300, 100, 50);
    }
}
