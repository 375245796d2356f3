//! The rules, a row each.

use super::*;

/// Members in few words: `0:P:2` is member 0, the primary, at version 2; `R` is a replica, `-` has no role. `!` behind it
/// is not ready, `x` is leaving, and a number behind `@` is its position.
fn members(words: &str) -> Vec<Member> {
    words.split_whitespace().map(member).collect()
}

fn member(word: &str) -> Member {
    let (word, position) = word.split_once('@').unwrap_or((word, "0"));
    let plain = word.trim_end_matches(['!', 'x']);
    let parts: Vec<&str> = plain.split(':').collect();
    Member {
        name: format!("db-{}", parts[0]),
        ordinal: parts[0].parse().unwrap(),
        version: parts[2].to_owned(),
        ready: !word.contains('!'),
        leaving: word.contains('x'),
        role: match parts[1] {
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

fn world(words: &str) -> World {
    World {
        now: at(1000),
        version: "2".to_owned(),
        count: 3,
        members: members(words),
        backup_before: None,
        schedule: Schedule::default(),
    }
}

fn shown(plan: &Plan) -> String {
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
fn check(world: &World, expected: &str) {
    assert_eq!(shown(&plan(world)), expected);
}

/// TO2: install
#[test]
fn to2_the_first_member_that_is_up_becomes_the_primary() {
    check(&world(""), "Starting");
    check(&world("0:-:2! 1:-:2!"), "Starting");
    check(&world("0:-:2! 1:-:2"), "Starting: promote db-1");
    check(&world("0:-:2 1:P:2 2:-:2"), "Running");
    check(&world("0:-:2 1:P:2"), "Starting");
}

/// TO2: failover
#[test]
fn to2_a_failed_primary_gives_way_to_the_member_that_has_followed_the_farthest() {
    check(
        &world("0:P:2! 1:R:2@7 2:R:2@9"),
        "Starting: demote db-0, promote db-2",
    );
    check(
        &world("0:P:2x 1:R:2 2:R:2"),
        "Starting: demote db-0, promote db-1",
    );
    check(&world("1:R:2 2:R:2"), "Starting: promote db-1");
}

#[test]
fn without_anyone_to_take_over_the_primary_stays_what_it_is() {
    check(&world("0:P:2! 1:R:2! 2:R:2x"), "Starting");
}

#[test]
fn of_two_primaries_one_is_demoted() {
    check(&world("0:P:2@1 1:P:2@5 2:R:2@9"), "Starting: demote db-0");
}

/// TO2: upgrade
#[test]
fn to2_an_upgrade_begins_with_a_backup() {
    let mut world = world("0:P:1 1:R:1 2:R:1");
    check(&world, "BackingUp: back up before 2");
    world.backup_before = Some(Outcome::Running);
    check(&world, "BackingUp");
    world.backup_before = Some(Outcome::Failed);
    check(&world, "Stuck");
}

/// TO2: upgrade
#[test]
fn to2_members_are_upgraded_one_at_a_time_and_the_primary_last() {
    let upgrading = |words: &str, expected: &str| {
        let backup_before = Some(Outcome::Done);
        check(
            &World {
                backup_before,
                ..world(words)
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
    let alone = World {
        count: 1,
        backup_before: Some(Outcome::Done),
        ..world("0:P:1")
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
        plan(&World {
            schedule,
            ..world("0:P:2 1:R:2 2:R:2")
        })
    };
    assert_eq!(shown(&scheduled(None, false)), "Running: back up");
    assert_eq!(shown(&scheduled(Some(900), false)), "Running: back up");
    assert_eq!(shown(&scheduled(Some(900), true)), "Running");
    let waiting = scheduled(Some(940), false);
    assert_eq!(
        (shown(&waiting).as_str(), waiting.again),
        ("Running", Some(Duration::from_secs(40)))
    );
}

#[test]
fn versions_are_compared_by_their_numbers() {
    assert!(is_older("1.9", "1.10") && is_older("1", "1.1") && is_older("9", "10.0"));
    assert!(!is_older("2.0", "1.9") && !is_older("1.2", "1.2"));
}
