//! The tree alone: paths, order, equality, and serde round trips.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;

#[test]
fn a_node_takes_at_most_thirty_two_bytes() {
    assert!(size_of::<Tree>() <= 32, "{}", size_of::<Tree>());
}

#[test]
fn paths_reach_set_and_take() {
    let mut tree = Tree::default();
    tree.set(&["spec", "nodeName"], "n1");
    tree.set(&["spec", "replicas"], 3);
    assert_eq!(tree.str_at(&["spec", "nodeName"]), Some("n1"));
    assert_eq!(tree.at(&["spec", "replicas"]).and_then(Tree::as_i64), Some(3));
    assert_eq!(tree.at(&["spec", "replicas", "deeper"]), None);
    assert_eq!(tree.take(&["spec", "nodeName"]), Some("n1".into()));
    assert_eq!(tree.at(&["spec", "nodeName"]), None);
}

#[test]
fn of_several_pairs_with_a_key_the_last_counts() {
    let mut map = Map::from_iter([("a", 1), ("b", 2), ("a", 3)]);
    assert_eq!((map.len(), map.get("a")), (3, Some(&Tree::Int(3))));
    assert_eq!(map.remove("a"), Some(Tree::Int(3)));
    assert_eq!(map.keys().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_key_keeps_its_position_when_set_again() {
    let mut map = Map::from_iter([("b", 1), ("a", 2)]);
    assert_eq!(map.insert("b", 3), Some(Tree::Int(1)));
    *map.entry("c") = Tree::Int(4);
    assert_eq!(map.keys().collect::<Vec<_>>(), ["b", "a", "c"]);
}

#[test]
fn a_map_of_many_pairs_is_looked_up_by_an_index() {
    const MANY: i64 = 100_000;
    let mut map: Map = (0..MANY).map(|at| (at.to_string(), at)).collect();
    for at in 0..MANY {
        *map.entry(&at.to_string()) = Tree::Int(-at);
    }
    for at in MANY..2 * MANY {
        assert_eq!(map.insert(at.to_string(), at), None);
    }
    map.push("7", 70);
    assert_eq!(map.get("7"), Some(&Tree::Int(70)));
    assert_eq!(map.remove("7"), Some(Tree::Int(70)));
    assert_eq!((map.get("7"), map.get("8")), (None, Some(&Tree::Int(-8))));
    map.retain(|key, _| key != "8");
    assert_eq!(
        (map.get("8"), map.get("199999")),
        (None, Some(&Tree::Int(199_999)))
    );
    let (left, right) = (Tree::Map(map.clone()), Tree::Map(map.into_iter().rev().collect()));
    assert!(left.semantic_eq(&right));
}

#[track_caller]
fn check_same(left: &str, right: &str, expected: bool) {
    let parse = |text: &str| serde_json::from_str::<Tree>(text).unwrap();
    assert_eq!(parse(left).semantic_eq(&parse(right)), expected, "{left} {right}");
    assert_eq!(parse(right).semantic_eq(&parse(left)), expected, "{right} {left}");
}

#[test]
fn in_unordered_equality_null_differs_from_absent_and_an_integer_from_a_float() {
    let parse = |text: &str| serde_json::from_str::<Tree>(text).unwrap();
    for (left, right, expected) in [
        (r#"{"a":1,"b":[{"c":null}]}"#, r#"{"b":[{"c":null}],"a":1}"#, true),
        (r#"{"a":null}"#, "{}", false),
        (r#"{"a":null}"#, r#"{"b":null}"#, false),
        ("[1]", "[1.0]", false),
        ("[1]", "[1,2]", false),
    ] {
        assert_eq!(
            parse(left).unordered_eq(&parse(right)),
            expected,
            "{left} {right}"
        );
        assert_eq!(
            parse(right).unordered_eq(&parse(left)),
            expected,
            "{right} {left}"
        );
    }
}

#[test]
fn null_equals_absent_and_order_does_not_matter() {
    check_same(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, true);
    check_same(r#"{"a":null}"#, r#"{}"#, true);
    check_same(r#"{"a":{"b":null}}"#, r#"{"a":{}}"#, true);
    check_same(r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#, false);
    check_same(r#"{"a":1}"#, r#"{"a":1,"b":0}"#, false);
    check_same(r#"{"a":1}"#, r#"{"a":1.0}"#, true);
    check_same(r#"{"a":""}"#, r#"{}"#, false);
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum IntOrString {
    Int(i32),
    String(String),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Choice {
    Plain,
    Wrapped(u8),
    Pair(i8, i8),
    Named { size: u64 },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Newtype(String);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct EveryForm<'a> {
    small: i32,
    big: i64,
    unsigned: u16,
    share: f64,
    whole_share: f64,
    text: String,
    lent: &'a str,
    flag: bool,
    absent: Option<String>,
    present: Option<Vec<u32>>,
    either: Vec<IntOrString>,
    choices: Vec<Choice>,
    map: BTreeMap<String, i64>,
    newtype: Newtype,
    any: serde_json::Value,
    unit: (),
    pair: (i64, String),
    letter: char,
}

#[test]
fn a_type_of_every_form_goes_to_a_tree_and_comes_back() {
    let value = EveryForm {
        small: -3,
        big: i64::MIN,
        unsigned: 65535,
        share: 1.5,
        whole_share: 2.0,
        text: "t".into(),
        lent: "lent",
        flag: true,
        absent: None,
        present: Some(vec![1, 2]),
        either: vec![IntOrString::Int(80), IntOrString::String("http".into())],
        choices: vec![
            Choice::Plain,
            Choice::Wrapped(7),
            Choice::Pair(1, -1),
            Choice::Named { size: 9 },
        ],
        map: BTreeMap::from([("k".into(), 1)]),
        newtype: Newtype("n".into()),
        any: serde_json::json!({"a": [1, null, "x"]}),
        unit: (),
        pair: (4, "p".into()),
        letter: 'ü',
    };
    let tree = to_tree(&value).unwrap();
    assert_eq!(from_tree::<EveryForm<'_>>(&tree).unwrap(), value);
}

#[test]
fn a_number_that_does_not_fit_its_type_is_rejected() {
    let tree = Tree::Int(1 << 40);
    assert!(from_tree::<i32>(&tree).is_err());
    assert!(from_tree::<u8>(&Tree::Int(-1)).is_err());
    assert_eq!(from_tree::<i64>(&tree).unwrap(), 1 << 40);
}

/// Trees as objects have them: unique keys, finite numbers.
pub(crate) fn any_tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::Null),
        any::<bool>().prop_map(Tree::Bool),
        any::<i64>().prop_map(Tree::Int),
        any::<i16>().prop_map(|number| Tree::Float(f64::from(number) / 8.0)),
        "\\PC{0,40}".prop_map(Tree::from),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Tree::List),
            prop::collection::btree_map("\\PC{0,30}", inner, 0..8)
                .prop_map(|pairs| Tree::Map(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_tree_goes_through_serde_unchanged(tree in any_tree()) {
        prop_assert_eq!(&to_tree(&tree).unwrap(), &tree);
        prop_assert_eq!(&from_tree::<Tree>(&tree).unwrap(), &tree);
        let text = serde_json::to_string(&tree).unwrap();
        prop_assert!(serde_json::from_str::<Tree>(&text).unwrap().semantic_eq(&tree));
    }

    #[test]
    fn a_tree_semantically_equals_itself_with_keys_reversed(tree in any_tree()) {
        let mut turned = tree.clone();
        if let Some(map) = turned.as_map_mut() {
            map.pairs_mut().reverse();
        }
        prop_assert!(tree.semantic_eq(&turned));
    }
}
