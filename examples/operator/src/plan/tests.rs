//! The rules, a row each.

use super::*;

/// Parses members: `0:P:2` is member 0, the primary, at version 2; `R` is a replica, `-` has no role. `!` behind it
/// is not ready, `x` is terminating, and a number behind `@` is its position.
fn members(text: &str) -> Vec<Member> {
    text.split_whitespace().map(member).collect()
}

fn member(text: &str) -> Member {
    let (text, position) = text.split_once('@').unwrap_or((text, "0"));
    let plain = text.trim_end_matches(['!', 'x']);
    let fields: Vec<&str> = plain.split(':').collect();
    Member {
        name: format!("db-{}", fields[0]),
        ordinal: fields[0].parse().unwrap(),
        version: fields[2].to_owned(),
        ready: !text.contains('!'),
        terminating: text.contains('x'),
        role: match fields[1] {
            "P" => Role::Primary,
            "R" => Role::Replica,
            _ => Role::None,
        },
        position: position.parse().unwrap(),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn observed(text: &str) -> ObservedState {
    ObservedState {
        now: at(1000),
        version: "2".to_owned(),
        count: 3,
        members: members(text),
        backup_before: None,
        schedule: Schedule::default(),
    }
}

fn describe(plan: &Plan) -> String {
    let step = |step: &Step| match step {
        Step::Demote(name) => format!("demote {name}"),
        Step::Promote(name) => format!("promote {name}"),
        Step::Restart(name) => format!("restart {name}"),
        Step::BackUpBefore(version) => format!("back up before {version}"),
        Step::BackUp => "back up".to_owned(),
    };
    let steps: Vec<String> = plan.steps.iter().map(step).collect();
    format!("{:?}: {}", plan.phase, steps.join(", "))
        .trim_end_matches([':', ' '])
        .to_owned()
}

#[track_caller]
fn check(observed: &ObservedState, expected: &str) {
    assert_eq!(describe(&plan(observed)), expected);
}

/// TO2: install
#[test]
fn to2_the_first_member_that_is_up_becomes_the_primary() {
    check(&observed(""), "Starting");
    check(&observed("0:-:2! 1:-:2!"), "Starting");
    check(&observed("0:-:2! 1:-:2"), "Starting: promote db-1");
    check(&observed("0:-:2 1:P:2 2:-:2"), "Running");
    check(&observed("0:-:2 1:P:2"), "Starting");
}

/// TO2: failover
#[test]
fn to2_a_failed_primary_gives_way_to_the_member_that_has_followed_the_farthest() {
    check(
        &observed("0:P:2! 1:R:2@7 2:R:2@9"),
        "Starting: demote db-0, promote db-2",
    );
    check(
        &observed("0:P:2x 1:R:2 2:R:2"),
        "Starting: demote db-0, promote db-1",
    );
    check(&observed("1:R:2 2:R:2"), "Starting: promote db-1");
}

#[test]
fn without_anyone_to_take_over_the_primary_stays_what_it_is() {
    check(&observed("0:P:2! 1:R:2! 2:R:2x"), "Starting");
}

#[test]
fn of_two_primaries_one_is_demoted() {
    check(&observed("0:P:2@1 1:P:2@5 2:R:2@9"), "Starting: demote db-0");
}

/// TO2: upgrade
#[test]
fn to2_an_upgrade_begins_with_a_backup() {
    let mut observed = observed("0:P:1 1:R:1 2:R:1");
    check(&observed, "BackingUp: back up before 2");
    observed.backup_before = Some(Outcome::Running);
    check(&observed, "BackingUp");
    observed.backup_before = Some(Outcome::Failed);
    check(&observed, "Stuck");
}

/// TO2: upgrade
#[test]
fn to2_members_are_upgraded_one_at_a_time_and_the_primary_last() {
    let upgrading = |text: &str, expected: &str| {
        let backup_before = Some(Outcome::Done);
        check(
            &ObservedState {
                backup_before,
                ..observed(text)
            },
            expected,
        );
    };
    upgrading("0:P:1 1:R:1 2:R:1", "Upgrading: restart db-2");
    upgrading("0:P:1 1:R:1 2:R:1x", "Upgrading");
    upgrading("0:P:1 1:R:1", "Upgrading");
    upgrading("0:P:1 1:R:1 2:-:2!", "Upgrading");
    upgrading("0:P:1 1:R:1 2:-:2", "Upgrading: restart db-1");
    upgrading("0:P:1 1:-:2@3 2:-:2@4", "Upgrading: demote db-0, promote db-2");
    upgrading("0:R:1 1:-:2 2:P:2", "Upgrading: restart db-0");
    upgrading("0:-:2 1:-:2 2:P:2", "Running");
    let alone = ObservedState {
        count: 1,
        backup_before: Some(Outcome::Done),
        ..observed("0:P:1")
    };
    check(&alone, "Upgrading: restart db-0");
}

/// TO2: backup
#[test]
fn to2_a_backup_is_due_when_the_last_is_old() {
    let scheduled = |last: Option<i64>, running| {
        let schedule = Schedule {
            every: Some(Duration::from_secs(100)),
            last: last.map(at),
            running,
        };
        plan(&ObservedState {
            schedule,
            ..observed("0:P:2 1:R:2 2:R:2")
        })
    };
    assert_eq!(describe(&scheduled(None, false)), "Running: back up");
    assert_eq!(describe(&scheduled(Some(900), false)), "Running: back up");
    assert_eq!(describe(&scheduled(Some(900), true)), "Running");
    let waiting = scheduled(Some(940), false);
    assert_eq!(
        (describe(&waiting).as_str(), waiting.requeue_after),
        ("Running", Some(Duration::from_secs(40)))
    );
}

#[test]
fn versions_are_compared_by_their_numbers() {
    assert!(is_older("1.9", "1.10") && is_older("1", "1.1") && is_older("9", "10.0"));
    assert!(!is_older("2.0", "1.9") && !is_older("1.2", "1.2"));
}
