//! Table tests: a Deployment and its sets in, the next step out.

use k8s_openapi::api::apps::v1::{DeploymentStatus, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::*;

mod random;

/// A Deployment `web` from words: `replicas=4`, `surge=25%`, `unavailable=1`, `recreate`, `paused`, `history=2`,
/// `image=b`.
fn deployment(words: &str) -> Deployment {
    let (mut replicas, mut history, mut image) = (1, 10, "a");
    let (mut surge, mut unavailable) = (json!("25%"), json!("25%"));
    let (mut kind, mut paused) = ("RollingUpdate", false);
    let portion = |text: &str| text.parse::<i32>().map_or(json!(text), |count| json!(count));
    for word in words.split_whitespace() {
        match word.split_once('=') {
            Some(("replicas", value)) => replicas = value.parse().unwrap(),
            Some(("history", value)) => history = value.parse().unwrap(),
            Some(("surge", value)) => surge = portion(value),
            Some(("unavailable", value)) => unavailable = portion(value),
            Some(("image", value)) => image = value,
            None if word == "recreate" => kind = "Recreate",
            None if word == "paused" => paused = true,
            _ => panic!("no such word: {word}"),
        }
    }
    let mut body = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-web", "generation": 1},
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": history,
            "paused": paused,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": kind, "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    });
    if kind == "Recreate" {
        body["spec"]["strategy"]["rollingUpdate"] = json!(null);
    }
    serde_json::from_value(body).unwrap()
}

/// A set of this image, annotated as created for a Deployment of the same size: `a 3/2` wants 3 and has 2 available; a
/// third number is the desired-replicas annotation, a fourth the revision.
fn set(words: &str, age: i64) -> ReplicaSet {
    let (image, numbers) = words.split_once(' ').unwrap();
    let numbers: Vec<i32> = numbers.split('/').map(|number| number.parse().unwrap()).collect();
    let owner = deployment(&format!(
        "image={image} replicas={}",
        numbers.get(2).unwrap_or(&4)
    ));
    let revision = numbers.get(3).copied().unwrap_or(1);
    let mut set = sets::new_set(&owner, bounds(&owner), numbers[0], i64::from(revision));
    set.metadata.creation_timestamp = Some(Time(jiff::Timestamp::from_second(1_000_000 - age).unwrap()));
    set.status = Some(ReplicaSetStatus {
        replicas: numbers[0],
        available_replicas: Some(numbers[1]),
        ..ReplicaSetStatus::default()
    });
    set
}

fn shown(step: &Step) -> String {
    let image = |set: &ReplicaSet| {
        let spec = set.spec.template.clone().unwrap().spec.unwrap();
        spec.containers[0].image.clone().unwrap()
    };
    let list = |words: Vec<String>| words.join(", ");
    match step {
        Step::Nothing => "nothing".to_owned(),
        Step::Create(set) => format!("create {} {}", image(set), replicas(set)),
        Step::Amend(set) => format!("amend {} to revision {}", image(set), revision(set)),
        Step::Resize(resized) => list(
            resized
                .iter()
                .map(|(before, set)| format!("{} {before}->{}", image(set), replicas(set)))
                .collect(),
        ),
        Step::Clean(excess_sets) => list(
            excess_sets
                .iter()
                .map(|set| format!("clean {}", image(set)))
                .collect(),
        ),
    }
}

/// The step of a Deployment with these sets, given newest first.
#[track_caller]
fn check(words: &str, sets: &[&str], expected: &str) {
    let deployment = deployment(words);
    let sets: Vec<ReplicaSet> = sets.iter().zip(0..).map(|(words, age)| set(words, age)).collect();
    assert_eq!(shown(&plan(&deployment, &sets, || false).step), expected);
}

#[test]
fn fl1_a_new_deployment_gets_a_set_of_its_size() {
    check("replicas=4", &[], "create a 4");
    check("replicas=4 recreate", &[], "create a 4");
    check("replicas=4", &["a 4/4"], "nothing");
}

#[test]
fn a_new_template_gets_a_set_as_large_as_the_surge_allows() {
    check("replicas=4 image=b", &["a 4/4"], "create b 1");
    check(
        "replicas=4 image=b surge=0 unavailable=1",
        &["a 4/4"],
        "create b 0",
    );
    check("replicas=4 image=b surge=100%", &["a 4/4"], "create b 4");
}

#[test]
fn old_pods_are_removed_as_new_ones_become_available() {
    check("replicas=4 image=b", &["b 1/0/4/2", "a 4/4"], "a 4->3");
    check("replicas=4 image=b", &["b 1/0/4/2", "a 3/3"], "b 1->2");
    check("replicas=4 image=b", &["b 2/0/4/2", "a 3/3"], "nothing");
    check("replicas=4 image=b", &["b 2/2/4/2", "a 3/3"], "a 3->1");
    check("replicas=4 image=b", &["b 4/4/4/2", "a 1/1"], "a 1->0");
}

#[test]
fn with_no_surge_and_no_unavailable_one_may_be_unavailable() {
    check(
        "replicas=4 image=b surge=0 unavailable=0",
        &["b 0/0/4/2", "a 4/4"],
        "a 4->3",
    );
}

#[test]
fn a_rollout_over_a_rollout_removes_unavailable_pods_first() {
    check(
        "replicas=4 image=c",
        &["c 1/0/4/3", "b 2/0/4/2", "a 3/3"],
        "b 2->0",
    );
}

#[test]
fn a_rollback_gives_the_old_set_a_new_revision() {
    check(
        "replicas=4 image=a",
        &["b 4/4/4/2", "a 0/0/4/1"],
        "amend a to revision 3",
    );
    check("replicas=4 image=a", &["b 4/4/4/2", "a 0/0/4/3"], "a 0->1");
}

#[test]
fn a_paused_deployment_scales_and_does_not_roll() {
    check("replicas=4 image=b paused", &["a 4/4"], "nothing");
    check("replicas=6 image=b paused", &["a 4/4"], "a 4->6");
    check("replicas=4 image=b paused", &[], "nothing");
}

#[test]
fn scaling_in_the_middle_of_a_rollout_is_in_proportion() {
    check("replicas=8 image=b", &["b 2/2/4/2", "a 3/3"], "b 2->4, a 3->6");
    check("replicas=0 image=b", &["b 2/2/4/2", "a 3/3"], "b 2->0, a 3->0");
}

/// Otherwise the Deployment would count as scaled forever, and old sets would not be deleted.
#[test]
fn a_set_that_has_the_desired_size_by_chance_is_annotated() {
    check("replicas=3 image=b", &["b 3/3/4/2", "a 0/0/4/1"], "b 3->3");
}

#[test]
fn recreate_makes_no_new_pod_before_the_last_old_one_is_gone() {
    check("replicas=4 recreate image=b", &["a 4/4"], "a 4->0");
    check("replicas=4 recreate image=b", &["a 0/0"], "create b 4");
    let deployment = deployment("replicas=4 recreate image=b");
    let plan = plan(&deployment, &[set("a 0/0", 1)], || true);
    assert_eq!(plan.step, Step::Nothing);
}

#[test]
fn of_old_sets_the_last_revisions_are_kept() {
    let mut complete = deployment("replicas=4 history=1 image=d");
    complete.status = Some(DeploymentStatus {
        observed_generation: Some(1),
        replicas: Some(4),
        updated_replicas: Some(4),
        available_replicas: Some(4),
        ..DeploymentStatus::default()
    });
    let sets: Vec<_> = ["d 4/4/4/4", "c 0/0/4/1", "b 0/0/4/3", "a 0/0/4/2"]
        .iter()
        .zip(0..)
        .map(|(words, age)| set(words, age))
        .collect();
    assert_eq!(shown(&plan(&complete, &sets, || false).step), "clean c, clean a");
    complete.spec.revision_history_limit = Some(3);
    assert_eq!(plan(&complete, &sets, || false).step, Step::Nothing);
}
