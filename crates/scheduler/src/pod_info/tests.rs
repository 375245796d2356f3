//! Rows for the requests of a pod.

use serde_json::{Value, json};

use super::*;

fn read(object: &Value) -> PodInfo {
    crate::fixtures::pod_from(object.clone())
}

fn container(cpu: &str, memory: &str) -> Value {
    json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}})
}

#[track_caller]
fn check(spec: Value, milli_cpu: i64, memory: i64) {
    let pod = read(&json!({"spec": spec}));
    assert_eq!(
        (pod.spec.requests.milli_cpu, pod.spec.requests.memory),
        (milli_cpu, memory)
    );
}

#[test]
fn containers_add_up() {
    check(
        json!({"containers": [container("100m", "1Ki"), container("1", "24")]}),
        1100,
        1048,
    );
}

#[test]
fn an_init_container_counts_where_it_requests_more() {
    let containers = json!([container("100m", "10")]);
    check(
        json!({"containers": containers, "initContainers": [container("2", "5"), container("1", "7")]}),
        2000,
        10,
    );
}

#[test]
fn a_sidecar_counts_with_the_containers_and_with_later_init_containers() {
    let mut sidecar = container("200m", "1");
    sidecar["restartPolicy"] = json!("Always");
    check(
        json!({"containers": [container("100m", "1")], "initContainers": [sidecar, container("250m", "1")]}),
        450,
        2,
    );
}

#[test]
fn the_overhead_is_added_and_the_pods_own_request_goes_before_the_sum() {
    let containers = json!([container("100m", "10")]);
    check(
        json!({"containers": containers, "overhead": {"cpu": "5m"}, "resources": {"requests": {"cpu": "1"}}}),
        1005,
        10,
    );
}

#[test]
fn a_container_without_requests_still_counts_with_defaults() {
    let pod = read(&json!({"spec": {"containers": [{}]}}));
    assert_eq!(pod.spec.requests, crate::resources::Resources::default());
    assert_eq!(
        (
            pod.spec.non_zero_requests.milli_cpu,
            pod.spec.non_zero_requests.memory
        ),
        (100, 200 * 1024 * 1024)
    );
}

#[track_caller]
fn check_state(object: Value, expected: SchedulingState) {
    assert_eq!(read(&object).state, expected);
}

#[test]
fn a_finished_pod_takes_no_part() {
    check_state(json!({"spec": {}}), SchedulingState::Active);
    check_state(
        json!({"spec": {}, "status": {"phase": "Failed"}}),
        SchedulingState::Finished,
    );
}
