//! Replay of the cases that Go recorded: every template gives the same text, or fails with the same message, as with
//! `text/template` and Sprig. `e2e/template` records them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use serde_json::Value as Json;
use setpoint_template::{Environment, Functions, MissingKey, NumberType, Template, Value};

/// Files of cases, each with the least number that it must have.
const FILES: &[(&str, usize)] = &[
    ("language.jsonl", 400),
    ("errors.jsonl", 300),
    ("printf.jsonl", 200),
    ("sprig.jsonl", 400),
];

/// Cases that differ from Go, by their template, and the reason.
const DIFFERENCES: &[(&str, &str)] = &[];

#[test]
fn every_recorded_case_renders_or_fails_as_in_go() {
    let mut failures = Vec::new();
    for (file, least) in FILES {
        let cases = read(file);
        assert!(cases.len() >= *least, "{file} has {} cases", cases.len());
        failures.extend(cases.iter().filter_map(|case| difference(file, case)));
    }
    let shown = failures.iter().take(60).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} cases differ:\n{shown}", failures.len());
}

#[test]
fn every_listed_difference_still_differs() {
    let cases: Vec<Json> = FILES.iter().flat_map(|(file, _)| read(file)).collect();
    for (template, reason) in DIFFERENCES {
        let case = cases.iter().find(|case| case["t"] == *template);
        let case = case.unwrap_or_else(|| panic!("no case has the template {template}"));
        assert_ne!(
            render(case),
            expected(case),
            "no longer differs: {template} ({reason})"
        );
    }
}

/// The cases of a file. Its first line has the data of cases that have none of their own.
fn read(file: &str) -> Vec<Json> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap());
    let shared = lines.next().unwrap();
    let with_data = |mut case: Json| {
        case.as_object_mut()
            .unwrap()
            .entry("d")
            .or_insert_with(|| shared.clone());
        case
    };
    lines.map(with_data).collect()
}

fn expected(case: &Json) -> Result<String, String> {
    match case["e"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(case["o"].as_str().unwrap().to_owned()),
    }
}

fn difference(file: &str, case: &Json) -> Option<String> {
    let template = case["t"].as_str().unwrap();
    if DIFFERENCES.iter().any(|(known, _)| *known == template) {
        return None;
    }
    let (actual, expected) = (render(case), expected(case));
    (actual != expected).then(|| format!("{file}: {template}\n  ours {actual:?}\n  Go's {expected:?}"))
}

fn render(case: &Json) -> Result<String, String> {
    let functions = match case["f"].as_str() {
        Some("builtin") => Functions::builtin(),
        _ => Functions::sprig(),
    };
    let missing_key = match case["m"].as_str() {
        Some("zero") => MissingKey::Zero,
        Some("error") => MissingKey::Error,
        _ => MissingKey::Default,
    };
    let numbers = match case["i"].as_bool() {
        Some(true) => NumberType::Int64,
        _ => NumberType::Float64,
    };
    let mut template = Template::new("x")
        .with_functions(functions)
        .with_missing_key(missing_key);
    if let [left, right] = case["delims"].as_array().map_or(&[][..], Vec::as_slice) {
        template = template.with_delims(left.as_str().unwrap(), right.as_str().unwrap());
    }
    let template = template.parse(case["t"].as_str().unwrap());
    let data = Value::from_json(&case["d"], numbers);
    let text = template.and_then(|template| template.render(data, &Environment::default()));
    text.map_err(|error| error.to_string())
}
