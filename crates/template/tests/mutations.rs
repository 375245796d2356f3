//! Mutations of the recorded templates: any text parses and renders, or is an error, within the limits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use setpoint_template::{Environment, Functions, Limits, NumberType, Template, Value};

/// Enough to notice carelessness; `crates/fuzz` runs as many as time allows.
const INPUTS: usize = 20_000;

const LIMITS: Limits = Limits {
    output_bytes: 64 << 10,
    steps: 100_000,
    depth: 100,
};

#[test]
fn no_mutation_of_a_template_panics_or_exceeds_the_limits() {
    let (data, templates) = read();
    let inputs = std::env::var("TEMPLATE_INPUTS")
        .ok()
        .and_then(|text| text.parse().ok());
    let mut rng = StdRng::seed_from_u64(1);
    for _ in 0..inputs.unwrap_or(INPUTS) {
        let text = mutated(&templates, &mut rng);
        let template = Template::new("x")
            .with_functions(Functions::sprig())
            .with_limits(LIMITS);
        let Ok(template) = template.parse(&text) else {
            continue;
        };
        let data = Value::from_json(&data, NumberType::Int64);
        if let Ok(out) = template.render(data, &Environment::default()) {
            assert!(out.len() <= LIMITS.output_bytes, "{text}");
        }
    }
}

fn read() -> (serde_json::Value, Vec<Vec<char>>) {
    let mut data = serde_json::Value::Null;
    let mut templates = Vec::new();
    for file in ["language.jsonl", "printf.jsonl", "sprig.jsonl"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let mut lines = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        data = lines.next().unwrap();
        templates.extend(lines.map(|case| case["t"].as_str().unwrap().chars().collect()));
    }
    (data, templates)
}

/// Part of one template with parts of others, or with characters removed, repeated or replaced.
fn mutated(templates: &[Vec<char>], rng: &mut StdRng) -> String {
    let mut text = templates.choose(rng).unwrap().clone();
    for _ in 0..rng.random_range(1..5) {
        let at = rng.random_range(0..=text.len());
        let end = (at + rng.random_range(0..12)).min(text.len());
        let other = templates.choose(rng).unwrap();
        let from = rng.random_range(0..=other.len());
        let to = (from + rng.random_range(0..20)).min(other.len());
        match rng.random_range(0..5) {
            0 => drop(text.drain(at..end)),
            1 => drop(text.splice(at..end, other[from..to].iter().copied())),
            2 => drop(text.splice(at..at, "9".repeat(rng.random_range(1..20)).chars())),
            3 => {
                let piece = text[at..end].to_vec();
                let count = rng.random_range(1..40);
                drop(text.splice(at..at, std::iter::repeat_n(piece, count).flatten()));
            }
            _ => text.insert(
                at,
                *['{', '}', '(', '.', '-', '%', '"', '|', '\u{e9}']
                    .choose(rng)
                    .unwrap(),
            ),
        }
    }
    text.into_iter().collect()
}
