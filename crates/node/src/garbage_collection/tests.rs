//! Rows: containers with their states, and those that are removed.

use jiff::Timestamp;
use setpoint_container_runtime::{ContainerId, ExitStatus, SandboxId};

use super::*;

fn container(name: &str, attempt: u32, is_dead: bool) -> ContainerRecord {
    let time = Timestamp::from_second(i64::from(attempt)).unwrap();
    let exit = ExitStatus {
        started_at: time,
        finished_at: time,
        exit_code: 1,
        reason: "Error".to_owned(),
        message: String::new(),
    };
    ContainerRecord {
        id: ContainerId(format!("{name}{attempt}")),
        sandbox: SandboxId("s".to_owned()),
        name: name.to_owned(),
        attempt,
        image: String::new(),
        image_id: String::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        created_at: time,
        state: match is_dead {
            true => ContainerState::Exited(exit),
            false => ContainerState::Running { started_at: time },
        },
        log_path: String::new(),
        resources: None,
        user: None,
    }
}

#[track_caller]
fn check(containers: &[ContainerRecord], ended: bool, expected: &[&str]) {
    let ended = HashSet::from_iter(ended.then(|| "u".to_owned()));
    let removed = superfluous(containers, |_| Some("u"), &ended);
    let removed: Vec<&str> = removed.iter().map(|one| one.id.0.as_str()).collect();
    assert_eq!(removed, expected);
}

#[test]
fn of_the_dead_containers_of_a_name_the_newest_stays() {
    let containers = [
        container("a", 0, true),
        container("a", 2, false),
        container("a", 1, true),
        container("b", 0, true),
    ];
    check(&containers, false, &["a0"]);
}

#[test]
fn none_of_a_pod_that_has_ended_stays_when_the_disk_is_low() {
    check(
        &[container("a", 0, true), container("a", 1, true)],
        true,
        &["a1", "a0"],
    );
}
