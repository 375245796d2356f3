//! Rows for the choice of a node and the message without one.

use super::*;
use crate::fixtures::{cluster, pod_requesting};
use crate::framework::Handle;
use crate::plugins::default_profile;

#[track_caller]
fn check(nodes: &str, milli_cpu: i64, expected: Result<&str, &str>) {
    let cluster = cluster(nodes);
    let pod = pod_requesting("p", "", milli_cpu);
    let found = match plan(
        &default_profile(&Handle::default()),
        &pod,
        &cluster,
        Rotation::default(),
    ) {
        Ok(plan) => Ok(cluster.node(plan.node).name().to_owned()),
        Err(PlanError::Unfit(unfit)) => Err(unfit.diagnosis.to_string()),
        Err(error) => Err(format!("{error:?}")),
    };
    assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned));
}

/// FL5
#[test]
fn the_pod_goes_where_it_fits_and_most_is_left() {
    check("a=1000", 500, Ok("a"));
    check("a=1000-800 b=1000-400", 500, Ok("b"));
    check("a=1000-100 b=1000", 500, Ok("b"));
}

/// FL5
#[test]
fn without_a_fitting_node_the_reasons_are_counted() {
    check("", 1, Err("NoNodes"));
    check("a=100", 500, Err("0/1 nodes are available: 1 Insufficient cpu."));
    check(
        "a=100 b=400",
        500,
        Err("0/2 nodes are available: 2 Insufficient cpu."),
    );
}

#[test]
fn equal_nodes_take_turns() {
    let cluster = cluster("a=1000 b=1000 c=1000");
    let names: Vec<&str> = (0..3)
        .map(|turn| {
            let rotation = Rotation { start: 0, turn };
            let plan = plan(
                &default_profile(&Handle::default()),
                &pod_requesting("p", "", 1),
                &cluster,
                rotation,
            );
            cluster.node(plan.unwrap().node).name()
        })
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn in_a_large_cluster_a_share_of_the_nodes_is_enough() {
    assert_eq!(nodes_to_find(3, 0), 3);
    assert_eq!(nodes_to_find(100, 0), 100);
    assert_eq!(nodes_to_find(1000, 0), 420);
    assert_eq!(nodes_to_find(5000, 0), 500);
    assert_eq!(nodes_to_find(20_000, 0), 1000);
    assert_eq!(nodes_to_find(1000, 70), 700);
}

/// With cached results, equal pods are planned as without, whatever changes between them.
#[test]
fn cached_results_lead_to_the_same_plans() {
    let mut cluster = cluster("a=1000 b=1000-300 c=800 d=400-400");
    let profile = default_profile(&Handle::default());
    let mut cache = SignatureCache::default();
    let first = pod_requesting("p0", "", 200);
    for turn in 0..12 {
        let mut pod = first.clone();
        pod.key = setpoint_api::Key::new("default", &format!("p{turn}"));
        pod.uid = pod.key.name().into();
        let rotation = Rotation { start: turn, turn };
        let fresh = plan(&profile, &pod, &cluster, rotation);
        let cached = plan_cached(&profile, &pod, &cluster, rotation, &mut cache);
        let (fresh, cached) = match (fresh, cached) {
            (Ok(fresh), Ok(cached)) => (fresh, cached),
            (Err(PlanError::Unfit(fresh)), Err(PlanError::Unfit(cached))) => {
                assert_eq!(fresh.diagnosis.to_string(), cached.diagnosis.to_string());
                break;
            }
            other => panic!("{other:?}"),
        };
        assert_eq!((fresh.node, fresh.scores), (cached.node, cached.scores));
        let name = cluster.node(fresh.node).name().to_owned();
        cluster.assume(std::sync::Arc::new(pod.assigned_to(&name)));
        if turn == 3 {
            cluster.set_node(&crate::fixtures::node("d", 900));
        }
    }
    assert!(cluster.pod_count() > 12, "the nodes were filled");
}
