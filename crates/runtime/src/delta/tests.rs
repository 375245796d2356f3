//! Both queues by scripts: words in, what comes out of them.

use bytes::Bytes;
use setpoint_api::{GroupResource, Header, ResourceVersion};
use setpoint_cache::Cache;

use super::*;

/// `x@5`, in namespace `a`.
fn object(text: &str) -> Arc<Stored> {
    let (name, version) = text.split_once('@').unwrap();
    let mut header = Header::new(Key::new("a", name));
    header.resource_version = ResourceVersion(version.parse().unwrap());
    Arc::new(Stored::new(header, Bytes::from_static(b"{}"), 1))
}

fn objects(text: &str) -> Vec<Arc<Stored>> {
    text.split(',')
        .filter(|text| !text.is_empty())
        .map(object)
        .collect()
}

fn cache(known: &str) -> Cache {
    let cache = Cache::new(GroupResource::new("", "pods"));
    cache.replace(objects(known), ResourceVersion(1));
    cache
}

fn shown(turn: &Turn) -> String {
    let deltas: Vec<_> = turn.deltas.iter().map(Delta::to_string).collect();
    let initial = if turn.is_initial { "*" } else { "" };
    format!("{initial}{}", deltas.join(", "))
}

/// The turns after `+x@1` add, `~x@1` update, `-x@1` delete, `=x@1,y@1` replace, `!` resync, `.` pop, with what is known.
#[track_caller]
fn check_slots(known: &str, words: &str, expected: &[&str]) {
    let (mut queue, known, mut turns) = (BySlot::new(), cache(known).snapshot(), Vec::new());
    for word in words.split_whitespace() {
        let (what, rest) = word.split_at(1);
        match what {
            "+" => queue.add(object(rest)),
            "~" => queue.update(object(rest)),
            "-" => queue.delete(object(rest), &known),
            "=" => queue.replace(objects(rest), &known),
            "!" => queue.resync(&known),
            "." => turns.extend(queue.pop().as_ref().map(shown)),
            _ => panic!("no such word: {word}"),
        }
    }
    while let Some(turn) = queue.pop() {
        turns.push(shown(&turn));
    }
    assert_eq!(turns, expected);
}

/// IN3, IN4
#[test]
fn in4_many_changes_of_an_object_take_one_turn_that_carries_them_in_order() {
    check_slots(
        "",
        "+x@1 +y@2 ~x@3 ~x@4",
        &["Added a/x@1, Updated a/x@3, Updated a/x@4", "Added a/y@2"],
    );
    check_slots("", "+x@1 . ~x@2", &["Added a/x@1", "Updated a/x@2"]);
}

/// IN4
#[test]
fn in4_only_two_ends_in_a_row_become_one_and_one_that_was_seen_wins() {
    check_slots("x@1", "-x@2 -x@3", &["Deleted a/x@3"]);
    check_slots("x@1", "-x@2 =", &["Deleted a/x@2"]);
    check_slots("x@1", "= -x@2", &["*Deleted a/x@2"]);
    check_slots(
        "x@1",
        "-x@2 +x@3 -x@4",
        &["Deleted a/x@2, Added a/x@3, Deleted a/x@4"],
    );
}

/// IN3
#[test]
fn in3_the_end_of_what_nobody_knows_is_not_told() {
    check_slots("", "-x@2", &[]);
    check_slots("", "+x@1 -x@2", &["Added a/x@1, Deleted a/x@2"]);
}

/// IN5
#[test]
fn in5_a_list_tells_of_its_items_and_then_of_the_ends_nobody_saw() {
    check_slots(
        "x@1,y@1",
        "=z@5,x@1",
        &["*Replaced a/z@5", "*Replaced a/x@1", "*Deleted a/y@1?"],
    );
    check_slots(
        "",
        "+x@3 =y@5",
        &["Added a/x@3, Deleted a/x@3?", "Replaced a/y@5"],
    );
}

/// IN13
#[test]
fn in13_a_resync_leaves_out_what_has_something_newer_waiting() {
    check_slots("x@1,y@1", "~x@2 !", &["Updated a/x@2", "Sync a/y@1"]);
}

#[test]
fn a_queue_has_synced_when_its_first_list_was_taken() {
    let none = cache("").snapshot();
    let mut queue = BySlot::new();
    assert!(!queue.has_synced());
    queue.replace(objects("x@1,y@1"), &none);
    queue.pop();
    assert!(!queue.has_synced());
    queue.pop();
    assert!(queue.has_synced());
    queue.replace(objects("x@1"), &none);
    assert!(queue.has_synced(), "only the first list counts");
    let mut queue = BySlot::new();
    queue.replace(Vec::new(), &none);
    assert!(queue.has_synced());
    let mut queue = BySlot::new();
    queue.add(object("x@1"));
    assert!(queue.has_synced());
}

#[test]
fn objects_are_transformed_once_and_tombstones_never() {
    let transform: Transform = Arc::new(|object| {
        let mut header = Header::new(object.key().clone());
        header.resource_version = ResourceVersion(object.resource_version().0 + 100);
        Arc::new(Stored::new(header, Bytes::from_static(b"{}"), 1))
    });
    let known = cache("x@1,y@1").snapshot();
    let mut queue = BySlot::transforming(transform);
    queue.replace(objects("x@1"), &known);
    queue.pop();
    queue.pop();
    queue.resync(&known);
    queue.update(object("z@1"));
    let turns: Vec<_> = std::iter::from_fn(|| queue.pop())
        .map(|turn| shown(&turn))
        .collect();
    assert_eq!(turns, ["Sync a/x@1", "Sync a/y@1", "Updated a/z@101"]);
}

/// What is told after the words, and what the cache has then. `|` drains.
#[track_caller]
fn check_in_order(known: &str, words: &str, told: &[&str], left: &[&str]) {
    let (mut queue, cache, mut deltas) = (InOrder::new(), cache(known), Vec::new());
    for word in words.split_whitespace() {
        let (what, rest) = word.split_at(1);
        match what {
            "+" => queue.add(object(rest)),
            "~" => queue.update(object(rest)),
            "-" => queue.delete(object(rest)),
            "=" => queue.replace(objects(rest), ResourceVersion(50)),
            "!" => queue.resync(),
            "|" => deltas.extend(queue.drain_into(&cache)),
            _ => panic!("no such word: {word}"),
        }
    }
    deltas.extend(queue.drain_into(&cache));
    let deltas: Vec<_> = deltas.iter().map(Delta::to_string).collect();
    assert_eq!(deltas, told);
    let objects: Vec<_> = cache
        .snapshot()
        .iter()
        .map(|object| format!("{object:?}"))
        .collect();
    assert_eq!(objects, left);
}

/// IN4
#[test]
fn in4_in_order_every_change_is_told() {
    check_in_order(
        "",
        "+x@1 +y@2 ~x@3 ~x@4",
        &["Added a/x@1", "Added a/y@2", "Updated a/x@3", "Updated a/x@4"],
        &["a/x@4", "a/y@2"],
    );
}

/// IN5
#[test]
fn in5_in_order_a_list_is_one_step_with_the_ends_first() {
    check_in_order(
        "x@1,y@1",
        "=z@5,x@6",
        &["Deleted a/y@1?", "Added a/z@5", "Updated a/x@6"],
        &["a/x@6", "a/z@5"],
    );
    check_in_order("x@1", "=x@1", &["Sync a/x@1"], &["a/x@1"]);
}

#[test]
fn in_order_what_is_there_is_updated_and_what_is_not_is_added() {
    check_in_order(
        "x@1",
        "+x@2 ~y@3 -z@4",
        &["Updated a/x@2", "Added a/y@3"],
        &["a/x@2", "a/y@3"],
    );
}

/// IN13
#[test]
fn in13_in_order_a_resync_tells_everything_again() {
    check_in_order("x@1", "~x@2 !", &["Updated a/x@2", "Sync a/x@2"], &["a/x@2"]);
}

/// The sizes of the batches.
#[track_caller]
fn check_batches(words: &str, expected: &[usize]) {
    let mut queue = InOrder::new();
    for word in words.split_whitespace() {
        match word.split_at(1) {
            ("+", rest) => queue.add(object(rest)),
            ("=", rest) => queue.replace(objects(rest), ResourceVersion(50)),
            ("!", _) => queue.resync(),
            (_, rest) => queue.bookmark(ResourceVersion(rest.parse().unwrap())),
        }
    }
    let sizes = std::iter::from_fn(|| Some(queue.pop_batch().len()).filter(|size| *size > 0));
    assert_eq!(sizes.collect::<Vec<_>>(), expected);
}

#[test]
fn a_batch_ends_at_a_repeated_object_and_at_everything_that_is_not_a_change() {
    check_batches("+x@1 +y@1 +z@1", &[3]);
    check_batches("+x@1 +y@1 +x@2 +z@1", &[2, 2]);
    check_batches("+x@1 =y@1 +z@1", &[1, 1, 1]);
    check_batches("! b7 +x@1 +y@1", &[1, 1, 2]);
}

#[test]
fn in_order_a_queue_has_synced_once_its_first_list_is_handled() {
    let mut queue = InOrder::new();
    queue.replace(objects("x@1"), ResourceVersion(5));
    assert!(!queue.has_synced());
    let batch = queue.pop_batch();
    assert_eq!(batch.len(), 1);
    assert!(!queue.has_synced(), "it is taken but perhaps not handled");
    queue.pop_batch();
    assert!(queue.has_synced());
}
