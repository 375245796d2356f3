//! Both queues by scripts: commands in, deltas out.

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

fn shown(turn: &Deltas) -> String {
    let deltas: Vec<_> = turn.deltas.iter().map(Delta::to_string).collect();
    let initial = if turn.is_initial { "*" } else { "" };
    format!("{initial}{}", deltas.join(", "))
}

/// The deltas popped after `+x@1` add, `~x@1` update, `-x@1` delete, `=x@1,y@1` replace, `!` resync, `.` pop, over these known objects.
#[track_caller]
fn check_delta_fifo(known: &str, commands: &str, expected: &[&str]) {
    let (mut queue, known, mut popped) = (DeltaFifo::new(), cache(known).snapshot(), Vec::new());
    for command in commands.split_whitespace() {
        let (operation, rest) = command.split_at(1);
        match operation {
            "+" => queue.add(object(rest)),
            "~" => queue.update(object(rest)),
            "-" => queue.delete(object(rest), &known),
            "=" => queue.replace(objects(rest), &known),
            "!" => queue.resync(&known),
            "." => popped.extend(queue.pop().as_ref().map(shown)),
            _ => panic!("unknown command {command}"),
        }
    }
    while let Some(deltas) = queue.pop() {
        popped.push(shown(&deltas));
    }
    assert_eq!(popped, expected);
}

/// IN3, IN4
#[test]
fn in4_many_changes_of_an_object_are_popped_together_in_order() {
    check_delta_fifo(
        "",
        "+x@1 +y@2 ~x@3 ~x@4",
        &["Added a/x@1, Updated a/x@3, Updated a/x@4", "Added a/y@2"],
    );
    check_delta_fifo("", "+x@1 . ~x@2", &["Added a/x@1", "Updated a/x@2"]);
}

/// IN4
#[test]
fn in4_only_two_deletions_in_a_row_are_merged_and_an_observed_one_wins() {
    check_delta_fifo("x@1", "-x@2 -x@3", &["Deleted a/x@3"]);
    check_delta_fifo("x@1", "-x@2 =", &["Deleted a/x@2"]);
    check_delta_fifo("x@1", "= -x@2", &["*Deleted a/x@2"]);
    check_delta_fifo(
        "x@1",
        "-x@2 +x@3 -x@4",
        &["Deleted a/x@2, Added a/x@3, Deleted a/x@4"],
    );
}

/// IN3
#[test]
fn in3_the_deletion_of_an_unknown_object_is_ignored() {
    check_delta_fifo("", "-x@2", &[]);
    check_delta_fifo("", "+x@1 -x@2", &["Added a/x@1, Deleted a/x@2"]);
}

/// IN5
#[test]
fn in5_a_list_gives_its_objects_and_then_the_missed_deletions() {
    check_delta_fifo(
        "x@1,y@1",
        "=z@5,x@1",
        &["*Replaced a/z@5", "*Replaced a/x@1", "*Deleted a/y@1?"],
    );
    check_delta_fifo(
        "",
        "+x@3 =y@5",
        &["Added a/x@3, Deleted a/x@3?", "Replaced a/y@5"],
    );
}

/// IN13
#[test]
fn in13_a_resync_skips_objects_with_pending_changes() {
    check_delta_fifo("x@1,y@1", "~x@2 !", &["Updated a/x@2", "Sync a/y@1"]);
}

#[test]
fn a_queue_has_synced_when_its_first_list_was_popped() {
    let none = cache("").snapshot();
    let mut queue = DeltaFifo::new();
    assert!(!queue.has_synced());
    queue.replace(objects("x@1,y@1"), &none);
    queue.pop();
    assert!(!queue.has_synced());
    queue.pop();
    assert!(queue.has_synced());
    queue.replace(objects("x@1"), &none);
    assert!(queue.has_synced(), "only the first list counts");
    let mut queue = DeltaFifo::new();
    queue.replace(Vec::new(), &none);
    assert!(queue.has_synced());
    let mut queue = DeltaFifo::new();
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
    let mut queue = DeltaFifo::with_transform(transform);
    queue.replace(objects("x@1"), &known);
    queue.pop();
    queue.pop();
    queue.resync(&known);
    queue.update(object("z@1"));
    let popped: Vec<_> = std::iter::from_fn(|| queue.pop())
        .map(|deltas| shown(&deltas))
        .collect();
    assert_eq!(popped, ["Sync a/x@1", "Sync a/y@1", "Updated a/z@101"]);
}

/// The deltas delivered by these commands, and the objects of the cache then. `|` drains the queue.
#[track_caller]
fn check_real_fifo(known: &str, commands: &str, expected: &[&str], left: &[&str]) {
    let (mut queue, cache, mut deltas) = (RealFifo::new(), cache(known), Vec::new());
    for command in commands.split_whitespace() {
        let (operation, rest) = command.split_at(1);
        match operation {
            "+" => queue.add(object(rest)),
            "~" => queue.update(object(rest)),
            "-" => queue.delete(object(rest)),
            "=" => queue.replace(objects(rest), ResourceVersion(50)),
            "!" => queue.resync(),
            "|" => deltas.extend(queue.drain_into(&cache)),
            _ => panic!("unknown command {command}"),
        }
    }
    deltas.extend(queue.drain_into(&cache));
    let deltas: Vec<_> = deltas.iter().map(Delta::to_string).collect();
    assert_eq!(deltas, expected);
    let objects: Vec<_> = cache
        .snapshot()
        .iter()
        .map(|object| format!("{object:?}"))
        .collect();
    assert_eq!(objects, left);
}

/// IN4
#[test]
fn in4_a_real_fifo_delivers_every_change() {
    check_real_fifo(
        "",
        "+x@1 +y@2 ~x@3 ~x@4",
        &["Added a/x@1", "Added a/y@2", "Updated a/x@3", "Updated a/x@4"],
        &["a/x@4", "a/y@2"],
    );
}

/// IN5
#[test]
fn in5_in_a_real_fifo_a_list_is_one_item_with_deletions_first() {
    check_real_fifo(
        "x@1,y@1",
        "=z@5,x@6",
        &["Deleted a/y@1?", "Added a/z@5", "Updated a/x@6"],
        &["a/x@6", "a/z@5"],
    );
    check_real_fifo("x@1", "=x@1", &["Sync a/x@1"], &["a/x@1"]);
}

#[test]
fn a_real_fifo_updates_known_objects_and_adds_unknown_ones() {
    check_real_fifo(
        "x@1",
        "+x@2 ~y@3 -z@4",
        &["Updated a/x@2", "Added a/y@3"],
        &["a/x@2", "a/y@3"],
    );
}

/// IN13
#[test]
fn in13_a_resync_of_a_real_fifo_delivers_everything_again() {
    check_real_fifo("x@1", "~x@2 !", &["Updated a/x@2", "Sync a/x@2"], &["a/x@2"]);
}

/// The sizes of the batches.
#[track_caller]
fn check_batches(commands: &str, expected: &[usize]) {
    let mut queue = RealFifo::new();
    for command in commands.split_whitespace() {
        match command.split_at(1) {
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
fn a_real_fifo_has_synced_once_its_first_list_is_handled() {
    let mut queue = RealFifo::new();
    queue.replace(objects("x@1"), ResourceVersion(5));
    assert!(!queue.has_synced());
    let batch = queue.pop_batch();
    assert_eq!(batch.len(), 1);
    assert!(!queue.has_synced(), "it is taken but perhaps not handled");
    queue.pop_batch();
    assert!(queue.has_synced());
}
