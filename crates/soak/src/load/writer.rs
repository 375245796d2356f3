//! A writer: creates, updates, patches and deletes the ConfigMaps of its namespace, and knows what they must be.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use setpoint_conformance::time::sleep;
use setpoint_conformance::wire::{Request, Response};

use crate::objects::{self, JSON, VALUE};
use crate::session::Session;
use crate::soak::{ADMIN, Soak, count};

/// The number of objects of a writer.
const OBJECTS: usize = 24;
/// How long a writer waits after a request without a response.
const RETRY: Duration = Duration::from_millis(100);
/// The pause between requests: the load is mixed, not maximal.
const PAUSE: Duration = Duration::from_millis(5);

/// The state of an object: its value, or that it does not exist.
type State = Option<String>;

/// The states that an object may have.
#[derive(Debug, Clone, Default)]
struct Expectation {
    acknowledged: State,
    revision: String,
    /// The states of writes without a response since: each may or may not have been executed.
    uncertain: Vec<State>,
}

/// A writer and its objects.
struct Writer<'a> {
    soak: &'a Soak<'a>,
    session: Session,
    namespace: String,
    known: BTreeMap<String, Expectation>,
    random: StdRng,
    sequence: u64,
}

/// Writes until stopped. At each pause and at the end it checks its objects.
pub(crate) fn run(soak: &Soak<'_>, number: usize) {
    let mut writer = Writer::new(soak, number);
    while soak.control.go_on(|| writer.check()) {
        match writer.write() {
            Ok(()) => sleep(PAUSE),
            Err(_) => sleep(RETRY),
        }
    }
    writer.check();
}

impl Expectation {
    /// Whether an object may have this state: that of the last acknowledged write, or of one without a response since.
    fn allows(&self, found: &State) -> bool {
        *found == self.acknowledged || self.uncertain.contains(found)
    }
}

impl<'a> Writer<'a> {
    fn new(soak: &'a Soak<'a>, number: usize) -> Self {
        let seed = soak.args.seed.wrapping_add(number as u64);
        Self {
            soak,
            session: soak.session(ADMIN),
            namespace: objects::namespace(number),
            known: BTreeMap::new(),
            random: StdRng::seed_from_u64(seed),
            sequence: 0,
        }
    }

    /// One request on one object.
    fn write(&mut self) -> io::Result<()> {
        let name = format!("map-{}", self.random.random_range(0..OBJECTS));
        let known = self.known.get(&name).cloned().unwrap_or_default();
        if !known.uncertain.is_empty() || self.random.random_ratio(1, 6) {
            return self.read(&name);
        }
        self.sequence += 1;
        let value = format!("{}-{}", self.namespace, self.sequence);
        let path = objects::path(&self.namespace, &name);
        let is_copied = name.ends_with(['0', '5']);
        let mut map = objects::config_map(&name, &value, is_copied);
        if known.acknowledged.is_none() {
            let request = objects::post(&objects::collection(&self.namespace), &map);
            return self.send(&name, request, Some(value));
        }
        match self.random.random_range(0..10) {
            0..5 => {
                map["metadata"]["resourceVersion"] = json!(known.revision);
                self.send(
                    &name,
                    Request::new("PUT", &path).body(JSON, map.to_string()),
                    Some(value),
                )
            }
            5..8 => {
                let patch = json!({"metadata": {"resourceVersion": known.revision}, "data": {VALUE: value}});
                let request =
                    Request::new("PATCH", &path).body("application/merge-patch+json", patch.to_string());
                self.send(&name, request, Some(value))
            }
            _ => {
                let options = json!({"preconditions": {"resourceVersion": known.revision}});
                self.send(
                    &name,
                    Request::new("DELETE", &path).body(JSON, options.to_string()),
                    None,
                )
            }
        }
    }

    /// Sends a write. Its outcome is known only from a response.
    fn send(&mut self, name: &str, request: Request, state: State) -> io::Result<()> {
        let floor = self.soak.floor();
        count(&self.soak.metrics.requests);
        let sent = self.session.send(&request);
        let known = self.known.entry(name.to_owned()).or_default();
        match sent {
            Ok(response) if response.status < 300 => {
                *known = Expectation {
                    revision: resource_version(&response),
                    acknowledged: state,
                    uncertain: Vec::new(),
                };
                if known.acknowledged.is_some() {
                    let revision = known.revision.parse().unwrap_or_default();
                    self.soak.acknowledge(revision, floor);
                } else {
                    count(&self.soak.metrics.writes);
                }
                Ok(())
            }
            Ok(response) if response.status < 500 => {
                if !matches!(response.status, 404 | 409 | 429) {
                    let what = format!("{} {name}: {}", request.method, response.text());
                    self.soak.violation(format!("unexpected response to {what}"));
                }
                // The next request finds out what the object is.
                let acknowledged = known.acknowledged.clone();
                known.uncertain.push(acknowledged);
                Ok(())
            }
            outcome => {
                known.uncertain.push(state);
                count(&self.soak.metrics.uncertain);
                match outcome {
                    Ok(response) => Err(io::Error::other(response.status.to_string())),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Reads an object and compares it with what is known. What was found is the state from now on.
    fn read(&mut self, name: &str) -> io::Result<()> {
        let path = objects::path(&self.namespace, name);
        count(&self.soak.metrics.requests);
        let response = self.session.send(&Request::new("GET", &path))?;
        let object = match response.status {
            200 => response.json(),
            404 => None,
            status => return Err(io::Error::other(status.to_string())),
        };
        self.compare(name, object.as_ref());
        Ok(())
    }

    fn compare(&mut self, name: &str, object: Option<&Value>) {
        let found: State = object.map(|object| objects::value(object).to_owned());
        let known = self.known.entry(name.to_owned()).or_default();
        if !known.allows(&found) {
            let expected = &known.acknowledged;
            self.soak.violation(format!(
                "{}/{name} is {found:?}, acknowledged was {expected:?}",
                self.namespace
            ));
        }
        *known = Expectation {
            acknowledged: found,
            revision: object.map(version).unwrap_or_default(),
            uncertain: Vec::new(),
        };
    }

    /// Compares all objects of the namespace.
    fn check(&mut self) {
        let floor = self.soak.floor();
        let list = match self.session.read(&objects::collection(&self.namespace)) {
            Ok(list) => list,
            Err(error) => return self.soak.violation(format!("{error:#}")),
        };
        if objects::revision(&list) < floor {
            let revision = objects::revision(&list);
            self.soak.violation(format!(
                "a list has revision {revision}, after a write of {floor}"
            ));
        }
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let find = |name: &str| items.iter().find(|item| item["metadata"]["name"] == name);
        for name in self.known.keys().cloned().collect::<Vec<_>>() {
            self.compare(&name, find(&name));
        }
        for item in &items {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            if name.starts_with("map-") && !self.known.contains_key(name) {
                self.soak
                    .violation(format!("{}/{name} was never written", self.namespace));
            }
        }
    }
}

fn resource_version(response: &Response) -> String {
    response.json().as_ref().map(version).unwrap_or_default()
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(acknowledged: Option<&str>, uncertain: &[Option<&str>], found: Option<&str>, expected: bool) {
        let state = |text: Option<&str>| text.map(str::to_owned);
        let expectation = Expectation {
            acknowledged: state(acknowledged),
            uncertain: uncertain.iter().copied().map(state).collect(),
            ..Expectation::default()
        };
        assert_eq!(expectation.allows(&state(found)), expected);
    }

    #[test]
    fn an_acknowledged_write_must_be_found_unless_a_later_one_had_no_response() {
        check(Some("a"), &[], Some("a"), true);
        check(Some("b"), &[], Some("a"), false);
        check(Some("b"), &[], None, false);
        check(Some("a"), &[Some("b"), None], Some("b"), true);
        check(Some("a"), &[Some("b"), None], None, true);
        check(Some("a"), &[Some("b"), None], Some("c"), false);
        check(None, &[], Some("a"), false);
    }
}
