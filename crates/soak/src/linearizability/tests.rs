//! Histories with planted violations, each of which the checker must name; and valid ones that look odd.

use super::violation::ViolationKind;
use super::*;

/// A history in the making.
#[derive(Default)]
struct Story {
    history: History,
    tick: Tick,
}

/// An operation that has not ended.
struct OpenOperation(usize);

impl Story {
    fn next(&mut self) -> Tick {
        self.tick += 1;
        self.tick
    }

    fn begin(&mut self, key: &str, action: Action) -> OpenOperation {
        let start = self.next();
        let operations = &mut self.history.operations;
        operations.push(Operation {
            client: operations.len() + 1,
            server: 1,
            key: key.to_owned(),
            action,
            outcome: Outcome::Unknown,
            start,
            end: NEVER,
        });
        OpenOperation(operations.len() - 1)
    }

    fn end(&mut self, pending: &OpenOperation, outcome: Outcome) {
        let end = self.next();
        let operation = &mut self.history.operations[pending.0];
        (operation.outcome, operation.end) = (outcome, end);
    }

    /// An operation that ends before the next one begins.
    fn run(&mut self, key: &str, action: Action, outcome: Outcome) -> &mut Self {
        let pending = self.begin(key, action);
        self.end(&pending, outcome);
        self
    }

    fn create(&mut self, key: &str, value: &str, revision: u64) -> &mut Self {
        self.run(key, create(value), written(key, value, revision))
    }

    fn update(&mut self, key: &str, value: &str, expected: Option<u64>, revision: u64) -> &mut Self {
        self.run(key, update(value, expected), written(key, value, revision))
    }

    fn delete(&mut self, key: &str) -> &mut Self {
        let uid = format!("uid-{key}");
        self.run(key, Action::Delete { expected: None }, Outcome::Deleted { uid })
    }

    fn get(&mut self, key: &str, value: &str, revision: u64) -> &mut Self {
        self.run(key, Action::Get, Outcome::Read(version(key, value, revision)))
    }

    fn list(&mut self, revision: u64, items: &[(&str, &str, u64)]) -> &mut Self {
        let items = items
            .iter()
            .map(|(key, value, revision)| ((*key).to_owned(), version(key, value, *revision)));
        let items = items.collect();
        self.run("", Action::List, Outcome::Listed { revision, items })
    }

    /// A watch from this revision on, with `+a=1@5` for an object that was added, `~` for modified, `-` for deleted, and
    /// `@5` for a bookmark.
    fn watch(&mut self, start: u64, events: &[&str]) -> &mut Self {
        let events = events.iter().map(|text| {
            let received = self.next();
            event(text, received)
        });
        let watch = Watch {
            watcher: 1,
            server: 1,
            start,
            events: events.collect(),
        };
        self.history.watches.push(watch);
        self
    }

    fn kinds(&self) -> Vec<ViolationKind> {
        let report = super::check(&self.history);
        assert!(report.unfinished.is_empty(), "{report:?}");
        report.violations.iter().map(|violation| violation.kind).collect()
    }

    /// The history has no violation.
    #[track_caller]
    fn is_valid(&self) {
        let report = super::check(&self.history);
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        assert!(report.unfinished.is_empty());
    }

    /// The history has a violation of this type with these texts in its explanation.
    #[track_caller]
    fn violates(&self, kind: ViolationKind, texts: &[&str]) {
        let report = super::check(&self.history);
        let mut of_kind = report
            .violations
            .iter()
            .filter(|violation| violation.kind == kind);
        let is_explained = of_kind.any(|violation| texts.iter().all(|text| violation.text.contains(text)));
        assert!(
            is_explained,
            "no {kind:?} with {texts:?} in {:#?}",
            report.violations
        );
    }
}

fn create(value: &str) -> Action {
    Action::Create {
        value: value.to_owned(),
    }
}

fn update(value: &str, expected: Option<u64>) -> Action {
    Action::Update {
        value: value.to_owned(),
        expected,
    }
}

fn version(key: &str, value: &str, revision: u64) -> Version {
    Version {
        revision,
        uid: format!("uid-{key}"),
        value: value.to_owned(),
    }
}

fn written(key: &str, value: &str, revision: u64) -> Outcome {
    Outcome::Written(version(key, value, revision))
}

fn event(text: &str, received: Tick) -> Event {
    let (change, revision) = text.split_once('@').unwrap();
    let event_type = match change.chars().next() {
        Some('+') => EventType::Added,
        Some('~') => EventType::Modified,
        Some('-') => EventType::Deleted,
        _ => EventType::Bookmark,
    };
    let (key, value) = change
        .get(1..)
        .unwrap_or_default()
        .split_once('=')
        .unwrap_or_default();
    Event {
        event_type,
        key: key.to_owned(),
        version: version(key, value, revision.parse().unwrap()),
        received,
    }
}

fn story() -> Story {
    Story::default()
}

// === valid histories ===

#[test]
fn a_sequence_of_all_operations_is_valid() {
    story()
        .create("a", "1", 5)
        .run("a", create("2"), Outcome::Exists)
        .update("a", "3", Some(5), 6)
        .run("a", update("4", Some(5)), Outcome::Conflict)
        .get("a", "3", 6)
        .create("b", "5", 7)
        .list(7, &[("a", "3", 6), ("b", "5", 7)])
        .delete("a")
        .run("a", Action::Get, Outcome::Absent)
        .list(9, &[("b", "5", 7)])
        .watch(0, &["+a=1@5", "~a=3@6", "+b=5@7", "-a=3@8", "@9"])
        .is_valid();
}

#[test]
fn concurrent_reads_may_see_the_state_before_or_after_a_write() {
    let mut story = story();
    story.create("a", "1", 5);
    let write = story.begin("a", update("2", None));
    story.get("a", "1", 5).get("a", "2", 6);
    story.end(&write, written("a", "2", 6));
    story.is_valid();
}

#[test]
fn a_write_without_a_response_takes_effect_late_or_never() {
    for seen in [true, false] {
        let mut story = story();
        story.create("a", "1", 5);
        story.begin("a", update("2", Some(5)));
        story.begin("a", update("3", Some(5)));
        story.get("a", "1", 5);
        match seen {
            true => story.get("a", "2", 6).get("a", "2", 6),
            false => story.get("a", "1", 5),
        };
        story.is_valid();
    }
}

#[test]
fn a_deletion_without_a_response_explains_a_missing_object() {
    let mut story = story();
    story.create("a", "1", 5);
    story.begin("a", Action::Delete { expected: Some(5) });
    story.run("a", Action::Get, Outcome::Absent).create("a", "2", 9);
    story.is_valid();
}

#[test]
fn a_write_that_was_never_seen_explains_a_conflict() {
    let mut story = story();
    story.create("a", "1", 5);
    story.begin("a", update("2", None));
    story.run("a", update("3", Some(5)), Outcome::Conflict);
    story.update("a", "4", None, 9);
    story.is_valid();
}

#[test]
fn a_watch_continues_after_a_reconnect() {
    story()
        .create("a", "1", 5)
        .update("a", "2", None, 6)
        .watch(0, &["+a=1@5"])
        .watch(5, &["~a=2@6"])
        .watch(0, &["+a=1@5", "~a=2@6"])
        .is_valid();
}

// === planted violations ===

#[test]
fn a_lost_acknowledged_write_is_reported() {
    let mut lost = story();
    lost.create("a", "1", 5)
        .update("a", "2", None, 6)
        .get("a", "1", 5);
    lost.violates(
        ViolationKind::LostWrite,
        &["get of a by client 3", "update of a to \"2\" by client 2"],
    );
    let mut lost = story();
    lost.create("a", "1", 5).list(7, &[]).watch(0, &["@7"]);
    lost.violates(
        ViolationKind::LostWrite,
        &[
            "list by client 2",
            "lacks a",
            "create of a with \"1\" by client 1",
        ],
    );
    lost.violates(
        ViolationKind::LostWrite,
        &["watch 1 at server 1 from 0 to 7 lacks revision 5"],
    );
    let mut lost = story();
    lost.create("a", "1", 5).delete("a").watch(0, &["+a=1@5", "@9"]);
    lost.violates(
        ViolationKind::LostWrite,
        &["no watch has an event of the delete of a by client 2"],
    );
    let mut lost = story();
    lost.create("a", "1", 5).run("a", Action::Get, Outcome::Absent);
    lost.violates(
        ViolationKind::NotLinearizable,
        &["get of a by client 2", "create of a with \"1\""],
    );
}

#[test]
fn a_stale_read_is_reported() {
    let mut stale = story();
    stale
        .create("a", "1", 5)
        .update("a", "2", None, 6)
        .get("a", "2", 6)
        .get("a", "1", 5);
    stale.violates(
        ViolationKind::StaleRead,
        &["get of a by client 4", "update of a to \"2\" by client 2"],
    );
    stale.violates(ViolationKind::NotLinearizable, &["get of a by client 4"]);
    // Of another key, by an operation that was known to be newer.
    let mut stale = story();
    stale.create("a", "1", 5).create("b", "2", 6);
    stale.list(5, &[("a", "1", 5)]).get("b", "2", 6);
    stale.violates(
        ViolationKind::StaleRead,
        &["list by client 3", "create of b with \"2\" by client 2"],
    );
    // After a watch has delivered the newer one.
    let mut stale = story();
    let write = stale.begin("a", create("1"));
    stale.watch(0, &["+a=1@5"]).run("a", Action::Get, Outcome::Absent);
    stale.end(&write, written("a", "1", 5));
    stale.violates(
        ViolationKind::StaleRead,
        &["get of a by client 2", "an event of revision 5"],
    );
}

#[test]
fn a_response_about_an_older_state_is_reported() {
    let mut stale = story();
    stale
        .create("a", "1", 5)
        .delete("a")
        .run("a", create("2"), Outcome::Exists);
    stale.watch(0, &["+a=1@5", "-a=1@6"]);
    stale.violates(
        ViolationKind::StaleRead,
        &[
            "create of a with \"2\" by client 3",
            "revision 6 by the delete of a",
        ],
    );
    stale.violates(
        ViolationKind::NotLinearizable,
        &["create of a with \"2\" by client 3"],
    );
    // A later state would explain it, but was not there yet.
    let mut early = story();
    early
        .create("a", "1", 5)
        .run("a", Action::Get, Outcome::Absent)
        .update("a", "2", Some(5), 6)
        .delete("a");
    early.watch(0, &["+a=1@5", "~a=2@6", "-a=2@7"]);
    early.violates(
        ViolationKind::StaleRead,
        &[
            "get of a by client 2",
            "after revision 5",
            "before the update of a at 5 to \"2\" by client 3",
        ],
    );
    let mut stale = story();
    stale.create("a", "1", 5).update("a", "2", None, 6);
    stale
        .run("a", update("3", Some(6)), Outcome::Conflict)
        .get("a", "2", 6);
    stale.violates(
        ViolationKind::NotLinearizable,
        &["update of a at 6 to \"3\" by client 3"],
    );
}

#[test]
fn a_dirty_read_of_a_failed_write_is_reported() {
    let mut dirty = story();
    dirty
        .create("a", "1", 5)
        .run("a", update("2", Some(4)), Outcome::Conflict)
        .get("a", "2", 6);
    dirty.violates(
        ViolationKind::DirtyRead,
        &["update of a at 4 to \"2\" by client 2", "conflict"],
    );
    let mut invented = story();
    invented.get("a", "2", 6);
    invented.violates(ViolationKind::DirtyRead, &["nothing wrote"]);
}

#[test]
fn two_creates_of_one_name_are_reported() {
    let mut twice = story();
    let first = twice.begin("a", create("1"));
    let second = twice.begin("a", create("2"));
    twice.end(&first, written("a", "1", 5));
    twice.end(&second, written("a", "2", 6));
    twice.violates(ViolationKind::NotLinearizable, &["create of a with"]);
    twice.watch(0, &["+a=1@5", "~a=2@6"]);
    twice.violates(
        ViolationKind::DuplicateCreate,
        &[
            "create of a with \"2\" by client 2",
            "create of a with \"1\" by client 1",
        ],
    );
}

#[test]
fn an_update_with_an_old_resource_version_is_reported() {
    let mut lost = story();
    lost.create("a", "1", 5)
        .update("a", "2", Some(5), 6)
        .update("a", "3", Some(5), 7);
    lost.violates(
        ViolationKind::LostUpdate,
        &[
            "update of a at 5 to \"3\" by client 3",
            "update of a at 5 to \"2\" by client 2",
        ],
    );
    lost.violates(
        ViolationKind::NotLinearizable,
        &["update of a at 5 to \"3\" by client 3"],
    );
}

#[test]
fn a_write_that_was_executed_twice_is_reported() {
    let mut twice = story();
    twice.begin("a", create("1"));
    twice.watch(0, &["+a=1@5", "-a=1@6", "+a=1@7"]);
    twice.violates(
        ViolationKind::Contradiction,
        &["revision 5", "revision 7", "create of a with \"1\" by client 1"],
    );
}

#[test]
fn a_write_without_a_response_that_took_effect_before_it_began_is_reported() {
    let mut early = story();
    early.create("b", "1", 9);
    early.begin("a", create("2"));
    early.get("a", "2", 5);
    early.violates(
        ViolationKind::RevisionOrder,
        &["create of a with \"2\" by client 2", "create of b"],
    );
}

#[test]
fn a_watch_gap_is_reported() {
    let mut gap = story();
    gap.create("a", "1", 5)
        .update("a", "2", None, 6)
        .update("a", "3", None, 7)
        .get("a", "3", 7);
    gap.watch(0, &["+a=1@5", "~a=2@6", "~a=3@7"])
        .watch(0, &["+a=1@5", "~a=3@7"]);
    gap.violates(
        ViolationKind::WatchGap,
        &[
            "watch 1 at server 1 from 0 to 7 lacks revision 6",
            "update of a to \"2\" by client 2",
        ],
    );
    // Between two connections, and before a bookmark.
    for events in [&["~a=3@7"][..], &["@7"]] {
        let mut gap = story();
        gap.create("a", "1", 5)
            .update("a", "2", None, 6)
            .update("a", "3", None, 7);
        gap.watch(0, &["+a=1@5", "~a=2@6", "~a=3@7"]).watch(5, events);
        gap.violates(ViolationKind::WatchGap, &["from 5 to 7 lacks revision 6"]);
    }
}

#[test]
fn a_watch_repeat_is_reported() {
    let mut repeat = story();
    repeat.create("a", "1", 5).update("a", "2", None, 6);
    repeat.watch(0, &["+a=1@5", "~a=2@6", "~a=2@6"]);
    repeat.violates(
        ViolationKind::WatchRepeat,
        &["watch 1", "revision 6 by the update of a", "after revision 6"],
    );
    // After a reconnect.
    let mut repeat = story();
    repeat.create("a", "1", 5).update("a", "2", None, 6);
    repeat.watch(0, &["+a=1@5", "~a=2@6"]).watch(6, &["~a=2@6"]);
    repeat.violates(
        ViolationKind::WatchRepeat,
        &["watch 1 at server 1 from 6", "revision 6"],
    );
}

#[test]
fn events_of_a_watch_in_another_order_are_reported() {
    let mut disorder = story();
    disorder.create("a", "1", 5).create("b", "2", 6);
    disorder.watch(0, &["+b=2@6", "+a=1@5"]);
    disorder.violates(ViolationKind::WatchRepeat, &["revision 5", "after revision 6"]);
}

#[test]
fn an_event_of_the_wrong_type_is_reported() {
    let mut wrong = story();
    wrong.create("a", "1", 5).watch(0, &["~a=1@5"]);
    wrong.violates(ViolationKind::WatchEvent, &["Modified", "did not exist"]);
}

#[test]
fn a_list_that_is_not_of_one_revision_is_reported() {
    let mut torn = story();
    torn.create("a", "1", 5).create("b", "2", 6);
    let list = torn.begin("", Action::List);
    torn.update("a", "3", None, 7)
        .update("b", "4", None, 8)
        .get("a", "3", 7);
    let items = [("a", "1", 5), ("b", "4", 8)];
    let items = items.map(|(key, value, revision)| (key.to_owned(), version(key, value, revision)));
    torn.end(
        &list,
        Outcome::Listed {
            revision: 8,
            items: items.into(),
        },
    );
    torn.violates(
        ViolationKind::TornList,
        &["list by client 3", "update of a to \"3\" by client 4"],
    );
    let mut newer = story();
    newer.create("a", "1", 5).list(4, &[("a", "1", 5)]);
    newer.violates(ViolationKind::TornList, &["list by client 2", "newer"]);
    // Without a change that the watches show.
    let mut lacking = story();
    lacking
        .create("a", "1", 5)
        .create("b", "2", 6)
        .watch(0, &["+a=1@5", "+b=2@6"])
        .list(6, &[("b", "2", 6)]);
    lacking.violates(
        ViolationKind::TornList,
        &["list by client 3", "lacks a", "create of a with \"1\""],
    );
}

#[test]
fn the_search_reports_when_it_gives_up() {
    // Many writes without a response, none of which explains the last read.
    let mut story = story();
    story.create("a", "1", 5);
    for number in 0..24 {
        story.begin("a", update(&format!("lost-{number}"), None));
    }
    story.begin("a", Action::Delete { expected: Some(4) });
    story.run("a", create("2"), Outcome::Rejected);
    story.run("a", Action::Get, Outcome::Absent);
    let report = super::check(&story.history);
    assert_eq!(report.unfinished, ["a"]);
}

#[test]
fn a_long_history_with_writes_without_a_response_is_checked_in_few_steps() {
    let mut story = story();
    story.create("a", "first", 5);
    for number in 0..500_u64 {
        if number % 10 == 0 {
            story.begin("a", update(&format!("lost-{number}"), Some(1)));
        }
        story.update("a", &format!("v{number}"), None, 6 + number);
        story.get("a", &format!("v{number}"), 6 + number);
    }
    assert_eq!(story.kinds(), []);
}
