//! A watcher: keeps a copy of all objects of the load from the events of a watch, as an informer does.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use setpoint_conformance::time::sleep;
use setpoint_conformance::wire::{Connection, Request};

use crate::objects::{self, COLLECTION};
use crate::soak::{ADMIN, Soak, count};

const RETRY: Duration = Duration::from_millis(200);

/// The copy of a watcher.
#[derive(Debug, Default)]
pub(crate) struct WatcherState {
    /// The revisions of all objects, by key.
    pub(crate) objects: BTreeMap<String, u64>,
    /// The revision that the copy has reached.
    pub(crate) revision: u64,
}

/// How a watch ended.
enum End {
    /// The connection broke: the watch continues at the revision that it has reached.
    Broken,
    /// The server does not have that revision any more: everything is listed again.
    Expired,
}

impl WatcherState {
    /// Whether an event follows from the copy. One that does not shows that another is missing, or came twice.
    fn fits(&self, kind: &str, key: &str, revision: u64) -> bool {
        let is_known = self.objects.contains_key(key);
        match kind {
            "BOOKMARK" => revision >= self.revision,
            "ADDED" => !is_known && revision > self.revision,
            "MODIFIED" | "DELETED" => is_known && revision > self.revision,
            _ => false,
        }
    }
}

/// Watches until stopped.
pub(crate) fn run(soak: &Soak<'_>, number: usize) {
    let mut is_listed = false;
    while !soak.control.is_stopped() {
        let outcome = match is_listed {
            false => list(soak, number).map(|()| is_listed = true),
            true => watch(soak, number).map(|end| is_listed = matches!(end, End::Broken)),
        };
        if outcome.is_err() {
            sleep(RETRY);
        }
    }
}

/// Lists all objects. The list must not be older than what the watch has delivered.
fn list(soak: &Soak<'_>, number: usize) -> Result<()> {
    let list = soak.session(ADMIN).read(COLLECTION)?;
    let mut state = soak.watchers[number].lock();
    let revision = objects::revision(&list);
    if revision < state.revision {
        let before = state.revision;
        soak.violation(format!(
            "a list has revision {revision}, a watch had delivered {before}"
        ));
    }
    let items = list["items"].as_array().context("a list has items")?;
    state.objects = items
        .iter()
        .map(|item| (objects::key(item), objects::revision(item)))
        .collect();
    state.revision = revision;
    count(&soak.metrics.relists);
    Ok(())
}

fn watch(soak: &Soak<'_>, number: usize) -> Result<End> {
    let revision = soak.watchers[number].lock().revision;
    let path = format!("{COLLECTION}&watch=true&allowWatchBookmarks=true&resourceVersion={revision}");
    let mut connection = soak.session(ADMIN).connect()?;
    let request = connection.to_bytes(&Request::new("GET", &path));
    connection.send(&request)?;
    let response = connection.receive_start("GET")?;
    match response.status {
        200 => {}
        410 => return Ok(End::Expired),
        status => bail!("a watch returned {status}"),
    }
    let mut text = Vec::new();
    while !soak.control.is_stopped() {
        let Some(line) = next_line(&mut connection, &mut text) else {
            return Ok(End::Broken);
        };
        let event: Value = serde_json::from_slice(&line).context("an event is JSON")?;
        if event["type"] == "ERROR" {
            return Ok(match event["object"]["code"].as_u64() {
                Some(410) => End::Expired,
                _ => End::Broken,
            });
        }
        apply(soak, number, &event);
    }
    Ok(End::Broken)
}

/// The next line of the stream; `None` if it ended.
fn next_line(connection: &mut Connection, text: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            return Some(text.drain(..=end).collect());
        }
        let chunk = connection.receive_chunk().ok()?;
        if chunk.is_empty() {
            return None;
        }
        text.extend(chunk);
    }
}

/// Applies an event to the copy.
fn apply(soak: &Soak<'_>, number: usize, event: &Value) {
    count(&soak.metrics.events);
    let object = &event["object"];
    let (revision, key) = (objects::revision(object), objects::key(object));
    let kind = event["type"].as_str().unwrap_or_default();
    let mut state = soak.watchers[number].lock();
    let fits = state.fits(kind, &key, revision);
    if !fits {
        let (reached, known) = (state.revision, state.objects.get(&key));
        soak.violation(format!(
            "watcher {number}: {kind} {key} at revision {revision} after {reached}, it has {known:?}"
        ));
    }
    match kind {
        "BOOKMARK" => {}
        "DELETED" => drop(state.objects.remove(&key)),
        _ => drop(state.objects.insert(key, revision)),
    }
    state.revision = revision;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: &str, key: &str, revision: u64, expected: bool) {
        let state = WatcherState {
            objects: [("soak/known".to_owned(), 3)].into(),
            revision: 5,
        };
        assert_eq!(
            state.fits(kind, key, revision),
            expected,
            "{kind} {key} {revision}"
        );
    }

    #[test]
    fn an_event_that_does_not_follow_from_the_copy_is_a_gap() {
        check("ADDED", "soak/new", 6, true);
        check("ADDED", "soak/known", 6, false);
        check("MODIFIED", "soak/known", 6, true);
        check("MODIFIED", "soak/new", 6, false);
        check("DELETED", "soak/new", 6, false);
        check("MODIFIED", "soak/known", 5, false);
        check("BOOKMARK", "", 5, true);
        check("BOOKMARK", "", 4, false);
    }
}
