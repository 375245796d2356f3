//! The reader and the writer, compared with `serde_json`.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{from_slice, to_vec};

#[derive(Debug, PartialEq, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Pod {
    name: String,
    labels: BTreeMap<String, String>,
    priority: Option<i32>,
    ports: Vec<u16>,
    weight: f64,
    is_ready: bool,
    ratio: (i64, u64),
    phase: Phase,
    by_index: BTreeMap<i32, bool>,
    by_flag: BTreeMap<bool, Uid>,
    by_phase: BTreeMap<Phase, ()>,
    letter: Option<char>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize, Serialize)]
enum Phase {
    #[default]
    Pending,
    Failed(i32),
    Waiting {
        reason: String,
    },
    Between(u8, u8),
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Uid(String);

/// Checks that the text is read as `serde_json` reads it, or rejected with the same error.
#[track_caller]
fn check<T: DeserializeOwned + PartialEq + Debug>(json: &str) {
    match (from_slice::<T>(json.as_bytes()), serde_json::from_str::<T>(json)) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{json}"),
        (Err(ours), Err(theirs)) => {
            let without_position = |error: serde_json::Error| match error.to_string().split_once(" at line ")
            {
                Some((message, _)) => message.to_owned(),
                None => error.to_string(),
            };
            assert_eq!(without_position(ours), without_position(theirs), "{json}");
        }
        (ours, theirs) => panic!("{json}: {ours:?}, and serde_json: {theirs:?}"),
    }
}

const POD: &str = r#"{"name":"web-\u00e9\n","labels":{"a":"b","c\t":"d"},"priority":-7,"ports":[80,443],"weight":1.5e3,
    "isReady":true,"ratio":[-9223372036854775808,18446744073709551615],"phase":{"Waiting":{"reason":"é"}},
    "byIndex":{"-1":true},"byFlag":{"true":"u"},"byPhase":{"Pending":null},"letter":"x",
    "other":{"deep":[[],{},[{"a":null}],"\ud83d\ude00",0,-0,1e-2,12345678901234567890,123456789012345678901]}}"#;

#[test]
fn a_value_of_every_type_is_read() {
    check::<Pod>(POD);
    check::<Value>(POD);
    let pod: Pod = from_slice(POD.as_bytes()).unwrap();
    assert_eq!(pod.phase, Phase::Waiting { reason: "é".into() });
    assert_eq!(pod.ports, [80, 443]);
}

#[test]
fn variants_are_strings_or_objects_with_one_member() {
    for phase in [
        r#""Pending""#,
        r#"{"Pending":null}"#,
        r#"{"Failed":3}"#,
        r#"{"Between":[1,2]}"#,
        r#""Gone""#,
    ] {
        check::<Phase>(phase);
    }
    assert!(from_slice::<Phase>(br#"{"Failed":3,"Pending":null}"#).is_err());
    assert!(from_slice::<Phase>(b"{}").is_err());
    assert!(from_slice::<Phase>(b"3").is_err());
}

#[test]
fn a_value_of_another_type_is_rejected() {
    check::<Pod>(r#"{"name":7}"#);
    check::<Pod>(r#"{"ports":"80"}"#);
    check::<Pod>(r#"{"ports":[65536]}"#);
    check::<Pod>(r#"{"isReady":null}"#);
    check::<Pod>(r#"{"labels":[]}"#);
    check::<Pod>(r#"{"labels":{"a":1.5}}"#);
    check::<Vec<Pod>>(r#"{"name":"a"}"#);
    check::<Option<Uid>>("true");
    check::<BTreeMap<i32, i32>>(r#"{"-3":1}"#);
    check::<BTreeMap<Uid2, i32>>(r#"{"a":1,"a":2}"#);
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Uid2(Option<String>);

#[test]
fn an_error_has_its_line_and_column() {
    let error = from_slice::<Pod>(b"{\n  \"name\": 7}").unwrap_err();
    assert_eq!((error.line(), error.column()), (2, 11));
    assert_eq!(
        error.to_string(),
        "invalid type: integer `7`, expected a string at line 2 column 11"
    );
    let error = from_slice::<Pod>(b"{\"name\": ]").unwrap_err();
    assert_eq!(error.to_string(), "expected value at line 1 column 10");
}

/// Every prefix of a value, and every value with one other byte, is accepted or rejected as `serde_json` does.
#[test]
fn damaged_text_is_rejected() {
    for end in 0..=POD.len() {
        if POD.is_char_boundary(end) {
            check_same_syntax(&POD.as_bytes()[..end]);
        }
    }
    for at in 0..POD.len() {
        for byte in *b"\"\\{}[],:0-.eu \x1f\x0c\xff" {
            let mut json = POD.as_bytes().to_vec();
            json[at] = byte;
            check_same_syntax(&json);
        }
    }
    for json in [
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "1e+",
        "+1",
        "1e5",
        "1E-5",
        "-0",
        "nul",
        "truee",
        "[1,]",
        "{\"a\":1,}",
        "",
    ] {
        check_same_syntax(json.as_bytes());
    }
}

#[track_caller]
fn check_same_syntax(json: &[u8]) {
    let text = String::from_utf8_lossy(json);
    let value = from_slice::<Value>(json).ok();
    assert_eq!(value, serde_json::from_slice::<Value>(json).ok(), "{text}");
    let is_skipped = from_slice::<IgnoredAny>(json).is_ok();
    let is_text = std::str::from_utf8(json).is_ok();
    assert_eq!(
        is_skipped,
        is_text && serde_json::from_slice::<IgnoredAny>(json).is_ok(),
        "{text}"
    );
}

#[test]
fn a_value_may_be_nested_as_deep_as_in_serde_json() {
    for depth in [1, 127, 128, 100_000] {
        let json = "[".repeat(depth) + &"]".repeat(depth);
        let is_read = from_slice::<Value>(json.as_bytes()).is_ok();
        assert_eq!(is_read, serde_json::from_str::<Value>(&json).is_ok(), "{depth}");
        assert!(from_slice::<IgnoredAny>(json.as_bytes()).is_ok());
    }
}

#[track_caller]
fn check_written<T: Serialize + ?Sized>(value: &T) {
    let ours = to_vec(value).map(|json| String::from_utf8(json).unwrap());
    match (ours, serde_json::to_string(value)) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs),
        (Err(ours), Err(theirs)) => assert_eq!(ours.to_string(), theirs.to_string()),
        (ours, theirs) => panic!("{ours:?}, and serde_json: {theirs:?}"),
    }
}

#[test]
fn a_value_of_every_type_is_written() {
    check_written(&from_slice::<Pod>(POD.as_bytes()).unwrap());
    check_written(&from_slice::<Value>(POD.as_bytes()).unwrap());
    check_written(&[Phase::Pending, Phase::Failed(-1), Phase::Between(1, 2)]);
    check_written(&(1_i8, 2_u128, f64::NAN, 1.0_f32, 'ß', "\u{1}\"", ()));
    check_written(&BTreeMap::from([(1.5_f64.to_bits(), None), (2, Some(true))]));
    check_written(&BTreeMap::from([('a', Uid("b".into()))]));
    check_written(&Vec::<u8>::new());
}

#[test]
fn a_key_that_is_no_string_or_number_is_an_error() {
    check_written(&BTreeMap::from([(Some("a"), 1)]));
    check_written(&BTreeMap::from([(None::<&str>, 1)]));
    check_written(&BTreeMap::from([((1, 2), 3)]));
}

#[test]
fn a_raw_value_is_written_as_it_is() {
    let raw = RawValue::from_string("[ 1, \"\\u0041\" ]".to_owned()).unwrap();
    check_written(&BTreeMap::from([("raw", &raw), ("other", &raw)]));
    check_written(&(&raw, "text"));
}
