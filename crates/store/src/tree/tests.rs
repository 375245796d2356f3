//! The tree against the standard library's map, and what must not be shared.

use std::{
    collections::BTreeMap,
    ops::{Bound, RangeBounds},
};

use proptest::prelude::*;

use super::*;
use crate::Revision;

fn record(key: &[u8], version: u64) -> Arc<Record> {
    Arc::new(Record {
        key: Bytes::copy_from_slice(key),
        value: Bytes::new(),
        created: Revision::ZERO,
        modified: Revision::ZERO,
        version,
        expires: None,
        attachment: crate::Attachment::default(),
        seal: crate::SealId::NONE,
    })
}

fn put(tree: &mut Tree, key: &[u8], version: u64) -> Option<u64> {
    let old = tree.get(key).map(|old| old.version);
    tree.restore(record(key, version));
    assert_eq!(tree.get(key).map(|new| new.version), Some(version));
    old
}

fn pairs<'a>(records: impl Iterator<Item = &'a Arc<Record>>) -> Vec<(Vec<u8>, u64)> {
    records
        .map(|record| (record.key.to_vec(), record.version))
        .collect()
}

#[track_caller]
fn check_same(tree: &Tree, model: &BTreeMap<Vec<u8>, u64>) {
    let expected: Vec<_> = model
        .iter()
        .map(|(key, version)| (key.clone(), *version))
        .collect();
    assert_eq!(tree.len(), model.len());
    assert_eq!(pairs(tree.iter()), expected);
    assert_eq!(
        pairs(tree.iter().rev()),
        expected.into_iter().rev().collect::<Vec<_>>()
    );
    for (key, version) in model {
        assert_eq!(tree.get(key).map(|record| record.version), Some(*version));
    }
}

/// Keys with long common beginnings, zeros at their ends, and keys that are beginnings of others.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let shared = prop_oneof![Just(""), Just("/registry/papers/default/object-"), Just("/r")];
    let tail = prop::collection::vec(prop_oneof![Just(0_u8), Just(b'0'), Just(b'1'), Just(255)], 0..12);
    (shared, tail).prop_map(|(shared, tail)| [shared.as_bytes(), &tail].concat())
}

fn bounds() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        Just(Bound::Unbounded),
        keys().prop_map(Bound::Included),
        keys().prop_map(Bound::Excluded),
    ]
}

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// The standard library's map panics on ranges that end before they start; those are expected to be empty.
fn expected_range(
    model: &BTreeMap<Vec<u8>, u64>,
    start: &Bound<Vec<u8>>,
    end: &Bound<Vec<u8>>,
) -> Vec<(Vec<u8>, u64)> {
    let inside = |key: &Vec<u8>| RangeBounds::<[u8]>::contains(&(slice(start), slice(end)), &key[..]);
    let inside = model.iter().filter(|(key, _)| inside(key));
    inside.map(|(key, version)| (key.clone(), *version)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_tree_is_what_the_standard_map_is(
        steps in prop::collection::vec((any::<bool>(), any::<bool>(), keys()), 0..600),
        ranges in prop::collection::vec((bounds(), bounds(), any::<u64>()), 20),
    ) {
        let mut tree = Tree::default();
        let mut model = BTreeMap::new();
        let mut kept = Vec::new();
        for (version, (one, other, key)) in (1..).zip(steps) {
            match one || other {
                true => assert_eq!(put(&mut tree, &key, version), model.insert(key, version)),
                false => assert_eq!(tree.remove(&key).map(|old| old.version), model.remove(&key)),
            }
            if version % 97 == 0 {
                kept.push((tree.clone(), model.clone()));
            }
        }
        kept.push((tree, model));
        for (tree, model) in &kept {
            check_same(tree, model);
        }
        let (tree, model) = &kept[kept.len() - 1];
        for (start, end, sides) in ranges {
            let expected = expected_range(model, &start, &end);
            let mut range = tree.range(&(slice(&start), slice(&end)));
            let (mut left, mut right) = (Vec::new(), Vec::new());
            for turn in 0.. {
                let taken = match sides.rotate_right(turn) & 1 {
                    0 => range.next().map(|record| left.push(record.key.to_vec())),
                    _ => range.next_back().map(|record| right.push(record.key.to_vec())),
                };
                if taken.is_none() {
                    break;
                }
            }
            left.extend(right.into_iter().rev());
            prop_assert!(left.into_iter().eq(expected.into_iter().map(|(key, _)| key)));
            prop_assert!(range.next().is_none() && range.next_back().is_none());
        }
    }

    #[test]
    fn a_tree_made_of_sorted_records_is_what_the_standard_map_is(
        model in prop::collection::btree_map(keys(), any::<u64>(), 0..2000),
        more in prop::collection::vec((any::<bool>(), keys()), 0..50),
    ) {
        let mut model = model;
        let records = model.iter().map(|(key, version)| record(key, *version));
        let mut tree = Tree::of_sorted(records.collect());
        check_same(&tree, &model);
        for (version, (add, key)) in (1..).zip(more) {
            match add {
                true => assert_eq!(put(&mut tree, &key, version), model.insert(key, version)),
                false => assert_eq!(tree.remove(&key).map(|old| old.version), model.remove(&key)),
            }
        }
        check_same(&tree, &model);
    }

    #[test]
    fn a_tree_that_is_emptied_in_any_order_is_empty(
        order in prop::sample::subsequence((0..2000_u32).collect::<Vec<_>>(), 2000).prop_shuffle(),
    ) {
        let mut tree = Tree::default();
        for n in 0..2000_u32 {
            put(&mut tree, &n.to_be_bytes(), 1);
        }
        for (gone, n) in (1..).zip(order) {
            assert!(tree.remove(&n.to_be_bytes()).is_some());
            assert_eq!(tree.len(), 2000 - gone);
            if gone % 500 == 0 {
                assert_eq!(tree.iter().count(), tree.len());
            }
        }
        assert!(tree.is_empty() && matches!(tree.root, Node::Leaf(_)));
    }
}

#[test]
fn rising_keys_leave_full_leaves_behind() {
    let mut tree = Tree::default();
    for n in 0..1000_u32 {
        put(&mut tree, &n.to_be_bytes(), 1);
    }
    let Node::Branch(root) = &tree.root else {
        panic!("a thousand keys need a branch")
    };
    let mut node = &root.children[0];
    while let Node::Branch(branch) = node {
        node = &branch.children[0];
    }
    let Node::Leaf(leaf) = node else {
        panic!("a leaf is at the end of every way")
    };
    assert_eq!(leaf.records.len(), WIDTH - 1);
}

#[test]
fn a_record_put_over_another_is_its_next_version() {
    let mut tree = Tree::default();
    let first = |modified| Record {
        created: Revision::new(modified),
        modified: Revision::new(modified),
        ..Record::clone(&record(b"key", 1))
    };
    tree.put(first(3));
    let (new, old) = tree.put(first(7));
    assert_eq!(old.map(|old| old.version), Some(1));
    assert_eq!((new.created.get(), new.modified.get(), new.version), (3, 7, 2));
}

#[test]
fn an_absent_key_that_is_removed_copies_nothing() {
    let mut tree = Tree::default();
    put(&mut tree, b"key", 1);
    let before = tree.clone();
    assert!(tree.remove(b"other").is_none());
    let (Node::Leaf(one), Node::Leaf(other)) = (&tree.root, &before.root) else {
        panic!("one key fits a leaf")
    };
    assert!(Arc::ptr_eq(one, other));
}
