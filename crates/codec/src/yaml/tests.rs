//! YAML as kube-apiserver parses and writes it.

use proptest::prelude::*;
use setpoint_schema::Map;

use super::*;
use crate::json;

/// Reads YAML and compares it with JSON.
#[track_caller]
fn check(text: &str, expected: &str) {
    let tree = parse(text.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(json::write(&tree)).unwrap(), expected);
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    assert_eq!(
        parse(text.as_bytes()).map_err(|error| error.to_string()),
        Err(expected.to_string())
    );
}

#[test]
fn plain_scalars_have_types_and_quoted_ones_are_strings() {
    check(
        "a: 1\nb: '1'\nc: \"true\"\nd: yes\ne: ~\nf:\ng: 1.5\nh: !!str 7\n",
        r#"{"a":1,"b":"1","c":"true","d":true,"e":null,"f":null,"g":1.5,"h":"7"}"#,
    );
}

#[test]
fn keys_become_strings() {
    check("on: 1\n1: 2\n'x': 3\n", r#"{"true":1,"1":2,"x":3}"#);
    check_error("[a]: 1\n", "yaml: unsupported map key of type: slice");
}

#[test]
fn anchors_aliases_and_merge_keys_are_resolved() {
    check(
        "a: &x {k: 1, l: 2}\nb: *x\nc:\n  <<: *x\n  k: 3\n",
        r#"{"a":{"k":1,"l":2},"b":{"k":1,"l":2},"c":{"k":3,"l":2}}"#,
    );
}

#[test]
fn aliases_cannot_blow_up_a_tree() {
    let mut text = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..9 {
        let before = format!("*a{}", level - 1);
        text += &format!("a{level}: &a{level} [{}]\n", [before.as_str(); 10].join(","));
    }
    check_error(&text, "yaml: document contains excessive aliasing");
}

#[test]
fn aliases_of_a_long_scalar_count_by_its_length() {
    let aliases = |count: usize| {
        let list = vec!["*q"; count].join(",");
        format!("q: &q \"{}\"\nr: [{list}]\n", "v".repeat(1_000_000))
    };
    assert!(parse(aliases(4).as_bytes()).is_ok());
    check_error(&aliases(90_000), "yaml: document contains excessive aliasing");
}

#[test]
fn nested_anchors_cannot_blow_up_a_tree() {
    let depth = 400;
    let open: String = (0..depth).map(|level| format!("&a{level} [")).collect();
    let text = format!("{open}\"{}\"{}", "v".repeat(1_000_000), "]".repeat(depth));
    check_error(&text, "yaml: document contains excessive aliasing");
}

#[test]
fn a_map_of_many_keys_is_loaded_in_linear_time() {
    let keys: String = (0..200_000).map(|at| format!("k{at}: 1\n")).collect();
    let tree = parse(keys.as_bytes()).unwrap();
    assert_eq!(tree.as_map().map(Map::len), Some(200_000));
}

#[test]
fn block_scalars_keep_their_lines() {
    check("a: |\n  x\n  y\nb: >-\n  x\n  y\n", r#"{"a":"x\ny\n","b":"x y"}"#);
}

#[test]
fn only_the_first_yaml_document_is_parsed() {
    check("---\na: 1\n---\nb: 2\n", r#"{"a":1}"#);
    check("", "null");
    check("# nothing\n", "null");
}

#[test]
fn json_is_yaml() {
    check(r#"{"a":[1,"b",{"c":null}]}"#, r#"{"a":[1,"b",{"c":null}]}"#);
}

#[test]
fn a_duplicate_key_is_reported_with_the_line_of_its_later_value() {
    let parsed = parse_with_duplicates(b"a: 1\nb:\n  c: 1\n  c: 2\na:\n  x: 1\n").unwrap();
    assert_eq!(
        parsed.duplicates,
        [
            r#"line 4: key "c" already set in map"#,
            r#"line 6: key "a" already set in map"#
        ]
    );
    assert_eq!(parsed.tree.at(&["b", "c"]), Some(&Tree::Int(2)));
}

#[test]
fn a_syntax_error_has_its_line() {
    check_error("a: [b", "yaml: line 1: did not find expected ',' or ']'");
    check_error("a: [", "yaml: line 1: did not find expected node content");
    assert_eq!(parse(b"\xff"), Err(Error::Utf8));
}

#[test]
fn depth_is_limited() {
    assert!(matches!(
        parse("[".repeat(100_000).as_bytes()),
        Err(Error::Depth | Error::Syntax { .. })
    ));
    assert!(matches!(
        parse("- ".repeat(5_000).as_bytes()),
        Err(Error::Depth | Error::Syntax { .. })
    ));
}

#[track_caller]
fn check_written(document: &str, expected: &str) {
    let tree = json::parse(document.as_bytes()).unwrap();
    assert_eq!(write(&tree), expected);
    assert!(
        parse(expected.as_bytes()).unwrap().semantic_eq(&tree),
        "{expected}"
    );
}

#[test]
fn maps_are_written_sorted_and_lists_not_indented() {
    check_written(
        r#"{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"name":"c","args":["a","b"]}],"x":[],"y":{}}}"#,
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - args:\n    - a\n    - b\n    name: c\n  x: []\n  \"y\": {}\n",
    );
    check_written("[[1,2],[{}]]", "- - 1\n  - 2\n- - {}\n");
}

#[test]
fn strings_are_quoted_only_where_they_must_be() {
    check_written(
        r##"{"a":"true","b":"1","c":"x: y","d":"#x","e":"it's","f":"","g":"a b","h":"- x","i":"-x","j":"2026-01-01","k":"a:b","l":"*"}"##,
        "a: \"true\"\nb: \"1\"\nc: 'x: y'\nd: '#x'\ne: it's\nf: \"\"\ng: a b\nh: '- x'\ni: -x\nj: \"2026-01-01\"\nk: a:b\nl: '*'\n",
    );
}

#[test]
fn several_lines_are_written_as_a_block() {
    check_written(
        r#"{"a":"x\ny\n","b":"x\n\ny","c":"x\n\n","d":"\tx\n"}"#,
        "a: |\n  x\n  y\nb: |-\n  x\n\n  y\nc: |+\n  x\n\nd: \"\\tx\\n\"\n",
    );
}

#[test]
fn a_key_of_more_than_128_bytes_is_written_as_an_explicit_key() {
    let (short, long) = ("k".repeat(128), "k".repeat(129));
    check_written(&format!(r#"{{"{short}":1}}"#), &format!("{short}: 1\n"));
    check_written(
        &format!(r#"{{"a":{{"{long}":{{"x":1,"y ":[2,3]}}}}}}"#),
        &format!("a:\n  ? {long}\n  : x: 1\n    'y ':\n    - 2\n    - 3\n"),
    );
    check_written(
        &format!(r#"{{"{long}":["v"],"{long}1":"v"}}"#),
        &format!("? {long}\n: - v\n? {long}1\n: v\n"),
    );
    check_written(
        &format!(r#"{{"{}":1}}"#, "k".repeat(2000)),
        &format!("? {}\n: 1\n", "k".repeat(2000)),
    );
}

#[track_caller]
fn check_stream(text: &str, expected: &[&str]) {
    let trees = parse_all(text.as_bytes()).unwrap();
    let json: Vec<_> = trees
        .iter()
        .map(|tree| String::from_utf8(json::write(tree)).unwrap())
        .collect();
    assert_eq!(json, expected);
}

#[test]
fn every_document_of_a_stream_is_parsed() {
    check_stream("", &[]);
    check_stream(
        "a: 1\n---\n# nothing\n---\n- yes\n",
        &[r#"{"a":1}"#, "null", "[true]"],
    );
    check_stream(
        "---\na: &x 1\nb: *x\n...\n---\nc\n",
        &[r#"{"a":1,"b":1}"#, r#""c""#],
    );
}

#[test]
fn an_error_in_any_document_is_an_error_of_the_stream() {
    assert!(parse_all(b"a: 1\n---\nb: [\n").is_err());
    // An anchor ends with its YAML document.
    assert!(parse_all(b"a: &x 1\n---\nb: *x\n").is_err());
}

fn any_tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::Null),
        any::<bool>().prop_map(Tree::Bool),
        any::<i32>().prop_map(Tree::from),
        "[ -~\n]{0,20}".prop_map(Tree::from),
        "\\PC{0,12}".prop_map(Tree::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Tree::List),
            prop::collection::btree_map("[ -~]{0,12}", inner, 0..6)
                .prop_map(|map| Tree::Map(map.into_iter().collect::<Map>())),
        ]
    })
}

proptest! {
    #[test]
    fn a_written_tree_reads_back(tree in any_tree()) {
        let text = write(&tree);
        let again = parse(text.as_bytes());
        prop_assert_eq!(again.as_ref(), Ok(&tree), "{}", text);
    }

    #[test]
    fn any_bytes_are_parsed_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn any_text_of_yaml_characters_is_parsed_or_rejected(text in "[-:{}\\[\\],&*!|>'\"%#?a-c0-9 \n]{0,60}") {
        let _ = parse(text.as_bytes());
    }
}
