//! The rules of every kind on documents in which anything may be missing, empty, doubled or odd: whatever they report,
//! they never panic. Each document with every field set is taken and changed at random, by the same numbers every time.
//!
//! Since a step to a field that a shape does not have panics in debug builds, this also finds names that are misspelt.
//! Without the documents the test says so and has nothing to check. `ROUNDS` makes it longer.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a test says what it skips")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use setpoint_api::User;
use setpoint_api::field::Errors;
use setpoint_kinds::{Facts, Kind, Kinds};
use setpoint_schema::{Tree, prune};

const ROUNDS: usize = 6;
/// One in so many places is changed; each round has the next of these.
const RARITY: [usize; 3] = [100, 30, 8];

#[test]
fn odd_documents_are_reported_and_never_break_the_rules() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/ref/golden");
    if !folder.is_dir() {
        eprintln!("skipped: no documents at {}", folder.display());
        return;
    }
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok());
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    let mut judged = 0;
    for kind in Kinds::builtin().iter() {
        let gvk = &kind.about().gvk;
        let group = if gvk.group.is_empty() { "core" } else { &gvk.group };
        let file = folder.join(format!("{group}.{}.{}.json", gvk.version, gvk.kind));
        let Ok(text) = std::fs::read_to_string(file) else {
            continue;
        };
        let document: Value = serde_json::from_str(&text).unwrap();
        for round in 0..rounds.unwrap_or(ROUNDS) {
            let mut odd = || {
                let mut document = document.clone();
                change(&mut document, &mut numbers, RARITY[round % RARITY.len()]);
                take_in(&**kind, &document)
            };
            if let (Some(old), Some(new)) = (odd(), odd()) {
                judge(&**kind, old, &new);
                judged += 1;
            }
        }
    }
    assert!(judged > 0, "no document is of its kind");
}

fn judge(kind: &dyn Kind, mut old: Tree, new: &Tree) {
    kind.prepare_create(&mut old, &facts());
    kind.validate(&old, &Errors::default());
    kind.warnings(&old, None);
    let parts = kind.about().subresources.iter();
    let parts = parts.map(|subresource| Some((subresource.part, subresource.name)));
    for part in std::iter::once(None).chain(parts) {
        let mut prepared = new.clone();
        kind.prepare_update(&mut prepared, &old, part, &facts());
        kind.validate_update(&prepared, &old, part, &Errors::default());
        kind.warnings(&prepared, Some(&old));
    }
}

fn change(value: &mut Value, numbers: &mut Numbers, rarity: usize) {
    if numbers.below(rarity) == 0 {
        *value = odd(value, numbers.below(4));
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| change(item, numbers, rarity)),
        Value::Object(fields) => fields
            .iter_mut()
            .for_each(|(_, field)| change(field, numbers, rarity)),
        _ => {}
    }
}

/// Something of the same type that a caller may well send.
fn odd(value: &Value, way: usize) -> Value {
    match (value, way) {
        (_, 0) => Value::Null,
        (Value::String(_), 1) => json!(""),
        (Value::String(_), 2) => json!("a b/ü"),
        (Value::String(_), _) => json!("Localhost"),
        (Value::Number(_), 1) => json!(0),
        (Value::Number(_), _) => json!(-1),
        (Value::Array(items), 1) => items.iter().chain(items).cloned().chain([Value::Null]).collect(),
        (Value::Array(_), _) => json!([]),
        (Value::Object(_), 1) => json!({}),
        (value, _) => value.clone(),
    }
}

fn take_in(kind: &dyn Kind, document: &Value) -> Option<Tree> {
    let mut tree = setpoint_codec::json::parse(document.to_string().as_bytes()).unwrap();
    if prune(kind.shape(), &mut tree).mismatch.is_some() {
        return None;
    }
    kind.take_in(&mut tree).ok()?;
    Some(tree)
}

fn facts() -> Facts {
    Facts {
        now: "2026-01-02T03:04:05Z".parse().unwrap(),
        user: Arc::new(User::component("tester")),
        event_ttl: Duration::from_secs(3600),
    }
}

/// Numbers that look random and are the same every time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }
}
