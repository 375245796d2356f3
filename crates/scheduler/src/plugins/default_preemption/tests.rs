//! Rows for victims and candidates.

use serde_json::json;
use setpoint_api::Key;

use super::*;
use crate::cycle::{PlanError, Rotation, plan};
use crate::fixtures::{node, pod_from};
use crate::plugins::default_profile;
use crate::state::ClusterState;

/// A pod as `name:priority:cpu`, with `:label` for `app=label`.
fn pod(text: &str, node: &str) -> PodInfo {
    let words: Vec<&str> = text.split(':').collect();
    let labels = words.get(3).map_or(json!({}), |label| json!({"app": label}));
    pod_from(json!({
        "metadata": {"name": words[0], "labels": labels},
        "spec": {
            "nodeName": node,
            "schedulerName": "default-scheduler",
            "priority": words[1].parse::<i32>().unwrap(),
            "containers": [{"resources": {"requests": {"cpu": format!("{}m", words[2])}}}],
        },
    }))
}

/// Nodes of 1000 milli-CPUs with pods, as `a=p:0:500,q:5:500 b=...`.
fn cluster(nodes: &str) -> ClusterState {
    let mut cluster = ClusterState::default();
    for words in nodes.split_whitespace() {
        let (name, pods) = words.split_once('=').unwrap();
        cluster.set_node(&node(name, 1000));
        for text in pods.split(',').filter(|text| !text.is_empty()) {
            cluster.set_pod(Arc::new(pod(text, name)));
        }
    }
    cluster
}

/// The chosen node and the victims as `node: victims`, or the message.
fn preempt(cluster: &ClusterState, preemptor: &PodInfo, budgets: &Budgets) -> String {
    let profile = default_profile(&Handle::default());
    let Err(PlanError::Unfit(unfit)) = plan(&profile, preemptor, cluster, Rotation::default()) else {
        panic!("the pod fits");
    };
    let preemptor = Arc::new(preemptor.clone());
    let input = PostFilterInput {
        profile: &profile,
        cycle: &unfit.cycle,
        pod: &preemptor,
        cluster,
        diagnosis: &unfit.diagnosis,
    };
    let plugin = DefaultPreemption {
        args: DefaultPreemptionArgs::default(),
        budgets: None,
        turn: AtomicUsize::new(0),
        preempting: Arc::default(),
        candidates: Mutex::default(),
    };
    match plugin.preempt_with(&input, budgets) {
        Err(failure) => failure.message,
        Ok(candidate) => {
            let victims: Vec<&str> = candidate.victims.iter().map(|pod| pod.key.name()).collect();
            format!("{}: {}", candidate.node, victims.join(" "))
        }
    }
}

#[track_caller]
fn check(nodes: &str, preemptor: &str, expected: &str) {
    let result = preempt(&cluster(nodes), &pod(preemptor, ""), &Budgets::default());
    assert_eq!(result, expected);
}

#[test]
fn as_few_and_as_unimportant_pods_as_possible_are_taken() {
    check("a=p:1:600,q:2:400", "x:5:500", "a: p");
    check("a=p:1:300,q:2:300,r:3:400", "x:5:500", "a: q p");
    check("a=p:1:500,q:2:500", "x:5:500", "a: p");
}

#[test]
fn the_node_with_the_least_important_victims_is_chosen() {
    check("a=p:3:1000 b=q:2:1000", "x:5:500", "b: q");
    check("a=p:2:500,q:2:500 b=r:2:1000", "x:5:1000", "b: r");
}

#[test]
fn pods_of_the_same_or_a_higher_priority_stay() {
    let message = "0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    check("a=p:5:1000", "x:5:500", message);
    check(
        "a=p:1:100,q:9:900",
        "x:5:500",
        "0/1 nodes are available: 1 Insufficient cpu.",
    );
}

#[test]
fn a_pod_that_is_larger_than_every_node_preempts_nothing() {
    let message = "0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    check("a=p:1:1000", "x:5:1500", message);
}

#[test]
fn budgets_are_violated_only_where_nothing_else_helps() {
    let budgets = Budgets::for_tests("app", "db", 0);
    let with_choice = cluster("a=p:1:1000:db b=q:2:1000");
    assert_eq!(preempt(&with_choice, &pod("x:5:500", ""), &budgets), "b: q");
    let on_one_node = cluster("a=p:1:500:db,q:2:500");
    assert_eq!(preempt(&on_one_node, &pod("x:5:500", ""), &budgets), "a: q");
    let without_choice = cluster("a=p:1:1000:db");
    assert_eq!(preempt(&without_choice, &pod("x:5:500", ""), &budgets), "a: p");
}

#[test]
fn a_pod_waits_while_its_victims_terminate() {
    let mut cluster = cluster("a=");
    let mut victim = pod("p:1:1000", "a");
    (victim.state, victim.is_preempted) = (crate::pod_info::SchedulingState::Terminating, true);
    cluster.set_pod(Arc::new(victim));
    let mut preemptor = pod("x:5:500", "");
    preemptor.nominated_node = "a".into();
    let message = "not eligible due to a terminating pod on the nominated node.";
    assert_eq!(preempt(&cluster, &preemptor, &Budgets::default()), message);
    cluster.remove_pod(&Key::new("default", "p"));
}

#[test]
fn a_pod_may_renounce_preemption() {
    let cluster = cluster("a=p:1:1000");
    let preemptor = crate::fixtures::with_spec(pod("x:5:500", ""), |spec| {
        spec.preemption_policy = PreemptionPolicy::Never
    });
    let message = "not eligible due to preemptionPolicy=Never.";
    assert_eq!(preempt(&cluster, &preemptor, &Budgets::default()), message);
}

#[test]
fn space_for_a_nominated_pod_is_not_given_away() {
    let mut cluster = cluster("a= b=p:0:1000");
    cluster.nominate(Arc::new(pod("important:9:800", "")), "a");
    let profile = default_profile(&Handle::default());
    let lower = pod("x:5:500", "");
    assert!(matches!(
        plan(&profile, &lower, &cluster, Rotation::default()),
        Err(PlanError::Unfit(_))
    ));
    let higher = pod("y:10:500", "");
    assert!(plan(&profile, &higher, &cluster, Rotation::default()).is_ok());
}

/// The candidates of one plugin for equal pods are those of a plugin that has evaluated nothing yet.
#[test]
fn candidates_that_equal_pods_share_follow_the_changes_of_their_nodes() {
    let mut state = cluster("a=p:0:900 b=q:3:900 c=r:5:900");
    let profile = default_profile(&Handle::default());
    let first = pod("x:10:500", "");
    let candidates = |plugin: &DefaultPreemption, state: &ClusterState, name: &str| {
        let mut preemptor = first.clone();
        preemptor.key = Key::new("default", name);
        let Err(PlanError::Unfit(unfit)) = plan(&profile, &preemptor, state, Rotation::default()) else {
            panic!("the pod fits");
        };
        let input = PostFilterInput {
            profile: &profile,
            cycle: &unfit.cycle,
            pod: &Arc::new(preemptor),
            cluster: state,
            diagnosis: &unfit.diagnosis,
        };
        let found = plugin.candidates(&input, &Budgets::default());
        let found = found.map_err(|failure| failure.message).unwrap();
        let mut shown: Vec<String> = found
            .iter()
            .map(|one| format!("{}:{}", one.node, one.victims[0].key.name()))
            .collect();
        shown.sort();
        shown.join(" ")
    };
    let new = || DefaultPreemption {
        args: DefaultPreemptionArgs::default(),
        budgets: None,
        turn: AtomicUsize::new(0),
        preempting: Arc::default(),
        candidates: Mutex::default(),
    };
    let plugin = new();
    assert_eq!(candidates(&plugin, &state, "x"), "a:p b:q c:r");
    state.set_pod(Arc::new(pod("s:1:50", "a")));
    state.set_pod(Arc::new(pod("q:20:900", "b")));
    state.nominate(Arc::new(pod("y:10:600", "")), "c");
    let expected = candidates(&new(), &state, "z");
    assert_eq!(candidates(&plugin, &state, "z"), expected);
    assert_eq!(expected, "a:p");
    assert_eq!(plugin.candidates.lock().nodes(), 3);
}
