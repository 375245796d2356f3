//! Checks of the invariants while no writer writes.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use setpoint_conformance::time::{now, sleep};

use crate::objects::{self, COLLECTION, COPIED, COPY_PREFIX};
use crate::session::Session;
use crate::soak::{ADMIN, Soak, WRITERS};

/// How long the controller and the watchers may take to catch up.
const CATCH_UP: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Pauses the writers, waits until everything else has caught up, and compares.
pub(crate) fn check(soak: &Soak<'_>, number: usize) {
    soak.control.pause(WRITERS);
    if let Err(error) = compare(soak, number) {
        soak.violation(format!("checkpoint {number}: {error:#}"));
    }
    soak.control.resume();
}

fn compare(soak: &Soak<'_>, number: usize) -> Result<()> {
    let mut session = soak.session(ADMIN);
    wait_until(soak, "copies of the controller", || {
        copies_match(&session.read(COLLECTION)?)
    });
    let marker = write_marker(&mut session, number)?;
    let expected = revisions(&session.read(COLLECTION)?);
    for (watcher, state) in soak.watchers.iter().enumerate() {
        wait_until(soak, &format!("watcher {watcher}"), || {
            Ok(state.lock().revision >= marker)
        });
        let state = state.lock();
        if state.objects != expected {
            let missing = difference(&expected, &state.objects);
            let extra = difference(&state.objects, &expected);
            soak.violation(format!(
                "watcher {watcher} differs from a list: lacks {missing:?}, has {extra:?}"
            ));
        }
    }
    Ok(())
}

/// Waits for a condition while the server may be busy. A condition that does not come is a violation.
fn wait_until(soak: &Soak<'_>, what: &str, mut is_met: impl FnMut() -> Result<bool>) {
    let started = now();
    let mut last = None;
    while started.elapsed() < CATCH_UP {
        match is_met() {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => last = Some(error),
        }
        sleep(POLL);
    }
    let error = last.map(|error| format!(": {error:#}")).unwrap_or_default();
    let seconds = CATCH_UP.as_secs();
    soak.violation(format!("{what} did not catch up within {seconds} s{error}"));
}

/// Whether every object to copy has its copy, and every copy its object.
fn copies_match(list: &Value) -> Result<bool> {
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let is_copied = |item: &&Value| !item["metadata"]["labels"][COPIED].is_null();
    let of = |item: &Value, prefix: &str| {
        let field = |name: &str| item["metadata"][name].as_str().unwrap_or_default().to_owned();
        let name = format!("{}/{prefix}{}", field("namespace"), field("name"));
        (name, objects::value(item).to_owned())
    };
    let expected: BTreeMap<String, String> = items
        .iter()
        .filter(is_copied)
        .map(|item| of(item, COPY_PREFIX))
        .collect();
    let is_copy = |item: &&Value| item["metadata"]["labels"]["soak"] == "copy";
    let copies: BTreeMap<String, String> = items.iter().filter(is_copy).map(|item| of(item, "")).collect();
    Ok(copies == expected)
}

/// Writes an object that the watchers see last. Returns its revision.
fn write_marker(session: &mut Session, number: usize) -> Result<u64> {
    let namespace = objects::namespace(0);
    let name = format!("marker-{number}");
    let mut map = objects::config_map(&name, "", false);
    map["metadata"]["labels"] = json!({"soak": "marker"});
    session.send(&objects::post(&objects::collection(&namespace), &map))?;
    Ok(objects::revision(
        &session.read(&objects::path(&namespace, &name))?,
    ))
}

fn revisions(list: &Value) -> BTreeMap<String, u64> {
    let items = list["items"].as_array().into_iter().flatten();
    items
        .map(|item| (objects::key(item), objects::revision(item)))
        .collect()
}

fn difference<'a>(all: &'a BTreeMap<String, u64>, other: &BTreeMap<String, u64>) -> Vec<&'a String> {
    let differs = |(key, revision): &(&String, &u64)| other.get(*key) != Some(*revision);
    all.iter().filter(differs).map(|(key, _)| key).collect()
}
