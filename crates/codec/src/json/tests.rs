//! The parser against texts, against two other parsers, and against anything.

use proptest::prelude::*;
use setpoint_schema::Map;

use super::*;

#[track_caller]
fn check(text: &str, expected: impl Into<Tree>) {
    assert_eq!(parse(text.as_bytes()), Ok(expected.into()), "{text}");
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    assert_eq!(
        parse(text.as_bytes()).map_err(|error| error.to_string()),
        Err(expected.to_string()),
        "{text}"
    );
}

#[test]
fn whole_numbers_stay_whole() {
    check("9223372036854775807", i64::MAX);
    check("-9223372036854775808", i64::MIN);
    check("9223372036854775808", 9223372036854775808.0);
    check("1.0", 1.0);
    check("1e2", 100.0);
    check("-0.5E-1", -0.05);
    check(" 0 ", 0);
}

#[test]
fn keys_keep_their_order_and_duplicates_stay() {
    check(
        r#"{"b":1,"a":2,"b":3}"#,
        Map::from_iter([("b", 1), ("a", 2), ("b", 3)]),
    );
}

#[test]
fn escapes_are_resolved() {
    check(
        r#""a\"\\\/\b\f\n\r\tA\u00e9\ud83d\ude00""#,
        "a\"\\/\u{8}\u{c}\n\r\tAé😀",
    );
    check(r#""\ud83d x \udc00 \ud83dA""#, "\u{fffd} x \u{fffd} \u{fffd}A");
}

#[test]
fn bytes_that_are_no_text_are_replaced_one_by_one() {
    assert_eq!(
        parse(b"\"a\xff\xe2\x82b\""),
        Ok("a\u{fffd}\u{fffd}\u{fffd}b".into())
    );
}

#[test]
fn what_is_wrong_is_said_in_the_known_words() {
    refused("", "unexpected end of JSON input");
    refused(r#"{"x"#, "unexpected end of JSON input");
    refused("tru", "unexpected end of JSON input");
    refused("a: 1", "invalid character 'a' looking for beginning of value");
    refused(
        "{'a':1}",
        r"invalid character '\'' looking for beginning of object key string",
    );
    refused(
        r#"{"a":1,}"#,
        "invalid character '}' looking for beginning of object key string",
    );
    refused(r#"{"a" 1}"#, "invalid character '1' after object key");
    refused(
        r#"{"a":1 "b"}"#,
        "invalid character '\"' after object key:value pair",
    );
    refused("[1 2]", "invalid character '2' after array element");
    refused("{}x", "invalid character 'x' after top-level value");
    refused("01", "invalid character '1' after top-level value");
    refused("-x", "invalid character 'x' in numeric literal");
    refused(
        "1.x",
        "invalid character 'x' after decimal point in numeric literal",
    );
    refused("1ex", "invalid character 'x' in exponent of numeric literal");
    refused("nulx", "invalid character 'x' in literal null (expecting 'l')");
    refused("\"a\nb\"", r"invalid character '\n' in string literal");
    refused(r#""\x""#, "invalid character 'x' in string escape code");
    refused(
        r#""\u00g0""#,
        r"invalid character 'g' in \u hexadecimal character escape",
    );
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize| [b"[".repeat(depth), b"]".repeat(depth)].concat();
    assert!(parse(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(parse(&nested(MAX_DEPTH + 1)), Err(Error::Depth));
    assert_eq!(parse(&b"{\"a\":".repeat(1_000_000)), Err(Error::Depth));
}

#[test]
fn what_is_too_deep_is_cut_off_and_must_be_json_all_the_same() {
    let nested = |middle: &str, depth: usize| {
        let (open, close) = (r#"{"a":["#.repeat(depth / 2), "]}".repeat(depth / 2));
        format!(r#"{{"b":1,"c":{open}{middle}{close},"d":2}}"#)
    };
    let cut = |middle: &str, depth: usize| parse_shallow(nested(middle, depth).as_bytes(), 0);
    let shallow = cut(r#"1,"x",{},[],{"y":[true,null]}"#, 2_000).unwrap();
    assert!(shallow.is_cut);
    assert_eq!(shallow.tree.get("d"), Some(&Tree::Int(2)));
    assert!(!cut("1", 100).unwrap().is_cut);
    assert_eq!(cut("1", 20_000), Err(Error::Depth));
    for (middle, why) in [
        ("1 2", "invalid character '2' after array element"),
        (r#"{"a" 1}"#, "invalid character '1' after object key"),
        (
            r#"{"a":1 "b"}"#,
            "invalid character '\"' after object key:value pair",
        ),
        (
            "{1}",
            "invalid character '1' looking for beginning of object key string",
        ),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("nul", "invalid character ']' in literal null (expecting 'l')"),
    ] {
        assert_eq!(cut(middle, 2_000).unwrap_err().to_string(), why);
    }
    assert_eq!(
        parse_shallow(&b"[".repeat(1_000), 0),
        Err(Error::End),
        "what is cut off must end"
    );
}

#[test]
fn an_error_names_the_byte_that_came() {
    let refused = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
    assert_eq!(
        refused(b"\x81\xaa"),
        r"invalid character '\u0081' looking for beginning of value"
    );
    assert_eq!(
        refused(b"{\"\xff\xff\":\xfe}"),
        "invalid character '\u{fe}' looking for beginning of value"
    );
    assert_eq!(
        refused(b"[\"\xff\", nul\xff]"),
        "invalid character '\u{ff}' in literal null (expecting 'l')"
    );
    assert_eq!(
        refused(b"\"\xff\\\xfe\""),
        "invalid character '\u{fe}' in string escape code"
    );
    assert_eq!(
        refused(b"[\"\xff\" x]"),
        "invalid character 'x' after array element"
    );
}

#[test]
fn every_special_byte_ends_a_plain_run_at_every_place() {
    for length in 0..40 {
        let text = "ü".repeat(length / 2) + &"x".repeat(length % 3);
        check(&format!("\"{text}\""), text.as_str());
        check(&format!("\"{text}\\n{text}\""), format!("{text}\n{text}"));
        refused(
            &format!("\"{text}\u{1}\""),
            r"invalid character '\x01' in string literal",
        );
    }
}

#[test]
fn indented_json_has_two_spaces_a_level() {
    let json = br#"{"a":[1,{"b":"x,{\"y\":[]"}],"c":{},"d":[]}"#;
    let text = "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x,{\\\"y\\\":[]\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}";
    assert_eq!(String::from_utf8(indent(json)).unwrap(), text);
    assert_eq!(indent(&indent(json)), indent(json));
}

/// Random documents as serde_json makes them.
fn any_document() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<i16>().prop_map(|number| (f64::from(number) / 8.0).into()),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(6, 96, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::vec((any::<String>(), inner), 0..8)
                .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn random_documents_read_as_two_other_parsers_read_them(document in any_document()) {
        let text = serde_json::to_string_pretty(&document).unwrap();
        let tree = parse(text.as_bytes()).unwrap();
        prop_assert_eq!(&tree, &serde_json::from_str::<Tree>(&text).unwrap());
        prop_assert_eq!(&tree, &sonic_rs::from_str::<Tree>(&text).unwrap());
    }

    #[test]
    fn a_written_document_reads_back(document in any_document()) {
        let tree = parse(document.to_string().as_bytes()).unwrap();
        let written = write(&tree);
        prop_assert!(parse(&written).unwrap().means_same(&tree));
        prop_assert_eq!(serde_json::from_slice::<serde_json::Value>(&indent(&written)).is_ok(), true);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
        let _ = indent(&bytes);
    }

    #[test]
    fn what_is_almost_json_is_refused_when_serde_refuses_it(text in r#"[\[\]{}":,0-9.eE\-+a-z \\"]{0,24}"#) {
        let known = serde_json::from_str::<serde_json::Value>(&text);
        prop_assert_eq!(parse(text.as_bytes()).is_ok(), known.is_ok(), "{:?}", known);
    }
}
