//! Every kind's validation on objects in which anything may be missing, empty, duplicate or odd: it may report
//! anything, but must never panic. Each object starts with every field set and is changed pseudo-randomly, by the
//! same seed every time.
//!
//! Since naming a field that a shape does not have panics in debug builds, this also finds misspelt names. `ROUNDS`
//! sets the number of rounds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use setpoint_api::User;
use setpoint_api::field::Errors;
use setpoint_schema::{Tree, prune};
use setpoint_strategy::{Kind, RequestFacts, UpdateContext};

const ROUNDS: usize = 6;
/// One in this many values is changed; each round uses the next number.
const RARITY: [usize; 3] = [100, 30, 8];

#[test]
fn odd_objects_never_panic_validation() {
    let golden = setpoint_reference::golden();
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok());
    let mut random = XorShift(0x9E37_79B9_7F4A_7C15);
    let mut validated = 0;
    for kind in setpoint_kinds::builtin().iter() {
        let gvk = &kind.info().gvk;
        let gvk = (&*gvk.group, &*gvk.version, &*gvk.kind);
        let Some(golden) = golden.iter().find(|golden| golden.gvk() == gvk) else {
            continue;
        };
        let object: Value = serde_json::from_slice(&golden.json).unwrap();
        for round in 0..rounds.unwrap_or(ROUNDS) {
            let mut odd = || {
                let mut object = object.clone();
                change(&mut object, &mut random, RARITY[round % RARITY.len()]);
                prepare(&**kind, &object)
            };
            if let (Some(old), Some(new)) = (odd(), odd()) {
                validate(&**kind, old, &new);
                validated += 1;
            }
        }
    }
    assert!(validated > 0, "no golden object matches a kind");
}

fn validate(kind: &dyn Kind, mut old: Tree, new: &Tree) {
    kind.prepare_create(&mut old, &facts());
    kind.validate(&old, &facts(), &Errors::default());
    kind.warnings(&old, None);
    let subresources = kind.info().subresources.iter();
    let subresources = subresources.map(|subresource| Some(subresource.kind));
    for subresource in std::iter::once(None).chain(subresources) {
        let mut prepared = new.clone();
        let update = UpdateContext {
            old: &old,
            subresource,
            facts: &facts(),
        };
        kind.prepare_update(&mut prepared, &update);
        kind.validate_update(&prepared, &update, &Errors::default());
        kind.warnings(&prepared, Some(&old));
    }
}

fn change(value: &mut Value, random: &mut XorShift, rarity: usize) {
    if random.below(rarity) == 0 {
        *value = odd(value, random.below(4));
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| change(item, random, rarity)),
        Value::Object(fields) => fields
            .iter_mut()
            .for_each(|(_, field)| change(field, random, rarity)),
        _ => {}
    }
}

/// A value of the same type that a caller may well send.
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

fn prepare(kind: &dyn Kind, object: &Value) -> Option<Tree> {
    let mut tree = setpoint_codec::json::parse(object.to_string().as_bytes()).unwrap();
    if prune(kind.shape(), &mut tree).type_error.is_some() {
        return None;
    }
    kind.prepare_input(&mut tree).ok()?;
    Some(tree)
}

fn facts() -> RequestFacts {
    RequestFacts {
        now: "2026-01-02T03:04:05Z".parse().unwrap(),
        user: Arc::new(User::component("tester")),
        event_ttl: Duration::from_secs(3600),
        allow_privileged: false,
    }
}

/// A deterministic pseudo-random generator.
struct XorShift(u64);

impl XorShift {
    fn below(&mut self, max: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % max as u64).unwrap()
    }
}
