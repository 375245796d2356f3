//! The parser on sample texts, against two other parsers, and on arbitrary bytes.

use proptest::prelude::*;
use setpoint_schema::Map;

use super::*;

#[track_caller]
fn check(text: &str, expected: impl Into<Tree>) {
    assert_eq!(parse(text.as_bytes()), Ok(expected.into()), "{text}");
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
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
fn invalid_utf8_is_replaced_byte_by_byte() {
    assert_eq!(
        parse(b"\"a\xff\xe2\x82b\""),
        Ok("a\u{fffd}\u{fffd}\u{fffd}b".into())
    );
}

#[test]
fn syntax_errors_have_the_messages_of_go() {
    check_error("", "unexpected end of JSON input");
    check_error(r#"{"x"#, "unexpected end of JSON input");
    check_error("tru", "unexpected end of JSON input");
    check_error("a: 1", "invalid character 'a' looking for beginning of value");
    check_error(
        "{'a':1}",
        r"invalid character '\'' looking for beginning of object key string",
    );
    check_error(
        r#"{"a":1,}"#,
        "invalid character '}' looking for beginning of object key string",
    );
    check_error(r#"{"a" 1}"#, "invalid character '1' after object key");
    check_error(
        r#"{"a":1 "b"}"#,
        "invalid character '\"' after object key:value pair",
    );
    check_error("[1 2]", "invalid character '2' after array element");
    check_error("{}x", "invalid character 'x' after top-level value");
    check_error("01", "invalid character '1' after top-level value");
    check_error("-x", "invalid character 'x' in numeric literal");
    check_error(
        "1.x",
        "invalid character 'x' after decimal point in numeric literal",
    );
    check_error("1ex", "invalid character 'x' in exponent of numeric literal");
    check_error("nulx", "invalid character 'x' in literal null (expecting 'l')");
    check_error("\"a\nb\"", r"invalid character '\n' in string literal");
    check_error(r#""\x""#, "invalid character 'x' in string escape code");
    check_error(
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
fn containers_nested_too_deep_are_cut_off_but_must_be_valid_json() {
    let nested = |middle: &str, depth: usize| {
        let (open, close) = (r#"{"a":["#.repeat(depth / 2), "]}".repeat(depth / 2));
        format!(r#"{{"b":1,"c":{open}{middle}{close},"d":2}}"#)
    };
    let cut = |middle: &str, depth: usize| parse_depth_limited(nested(middle, depth).as_bytes(), 0);
    let shallow = cut(r#"1,"x",{},[],{"y":[true,null]}"#, 2_000).unwrap();
    assert!(shallow.is_truncated);
    assert_eq!(shallow.tree.get("d"), Some(&Tree::Int(2)));
    assert!(!cut("1", 100).unwrap().is_truncated);
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
        parse_depth_limited(&b"[".repeat(1_000), 0),
        Err(Error::End),
        "what is cut off must end"
    );
}

#[test]
fn an_error_names_the_original_byte() {
    let error_of = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
    assert_eq!(
        error_of(b"\x81\xaa"),
        r"invalid character '\u0081' looking for beginning of value"
    );
    assert_eq!(
        error_of(b"{\"\xff\xff\":\xfe}"),
        "invalid character '\u{fe}' looking for beginning of value"
    );
    assert_eq!(
        error_of(b"[\"\xff\", nul\xff]"),
        "invalid character '\u{ff}' in literal null (expecting 'l')"
    );
    assert_eq!(
        error_of(b"\"\xff\\\xfe\""),
        "invalid character '\u{fe}' in string escape code"
    );
    assert_eq!(
        error_of(b"[\"\xff\" x]"),
        "invalid character 'x' after array element"
    );
}

#[test]
fn every_special_byte_ends_a_plain_run_at_every_index() {
    for length in 0..40 {
        let text = "ü".repeat(length / 2) + &"x".repeat(length % 3);
        check(&format!("\"{text}\""), text.as_str());
        check(&format!("\"{text}\\n{text}\""), format!("{text}\n{text}"));
        check_error(
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

/// Random values as serde_json produces them.
fn any_value() -> impl Strategy<Value = serde_json::Value> {
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
    fn random_values_parse_as_another_parser_parses_them(value in any_value()) {
        let text = serde_json::to_string_pretty(&value).unwrap();
        let tree = parse(text.as_bytes()).unwrap();
        prop_assert_eq!(&tree, &serde_json::from_str::<Tree>(&text).unwrap());
    }

    #[test]
    fn a_written_value_parses_back(value in any_value()) {
        let tree = parse(value.to_string().as_bytes()).unwrap();
        let written = write(&tree);
        prop_assert!(parse(&written).unwrap().semantic_eq(&tree));
        prop_assert_eq!(serde_json::from_slice::<serde_json::Value>(&indent(&written)).is_ok(), true);
    }

    #[test]
    fn any_bytes_are_parsed_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
        let _ = indent(&bytes);
    }

    #[test]
    fn invalid_json_is_rejected_when_serde_rejects_it(text in r#"[\[\]{}":,0-9.eE\-+a-z \\"]{0,24}"#) {
        let known = serde_json::from_str::<serde_json::Value>(&text);
        prop_assert_eq!(parse(text.as_bytes()).is_ok(), known.is_ok(), "{:?}", known);
    }
}
