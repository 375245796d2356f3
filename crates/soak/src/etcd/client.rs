//! A client: one request after another on the objects of a round, at any of the servers.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use setpoint_conformance::time::{now, sleep};
use setpoint_conformance::wire::{Request, Response};

use super::cluster::{Cluster, NODES};
use super::recorder::{NAMESPACE, Recorder, name, version};
use crate::linearizability::{Action, NEVER, Operation, Outcome, Version};
use crate::objects::{self, JSON};
use crate::session::Session;

/// The number of objects of a round: few, so that the clients meet.
pub(crate) const OBJECTS: usize = 10;

/// The pause between two requests of a client, in milliseconds.
const PAUSE: std::ops::Range<u64> = 5..60;
/// The pages of a list have so many objects.
const PAGE: usize = 3;
/// How long, and how often, an operation is repeated after the faults.
const RETRIES: Duration = Duration::from_secs(120);
const RETRY: Duration = Duration::from_millis(500);

/// A client and what it has seen.
pub(crate) struct Client<'a> {
    recorder: &'a Recorder,
    number: usize,
    sessions: Vec<Session>,
    /// The server of the next request.
    server: usize,
    /// The newest revision of each object in a response to this client.
    seen: HashMap<String, u64>,
    random: StdRng,
    values: usize,
}

impl<'a> Client<'a> {
    pub(crate) fn new(cluster: &Cluster, recorder: &'a Recorder, number: usize, seed: u64) -> Self {
        let seed = seed
            .wrapping_mul(1_000_003)
            .wrapping_add((recorder.round * 1000 + number) as u64);
        Self {
            recorder,
            number,
            sessions: (0..NODES).map(|server| cluster.session(server)).collect(),
            server: number % NODES,
            seen: HashMap::new(),
            random: StdRng::seed_from_u64(seed),
            values: 0,
        }
    }

    /// Sends requests until the round is over.
    pub(crate) fn run(mut self) {
        while !self.recorder.is_over() {
            let (key, action) = self.select();
            let outcome = self.execute(&key, action);
            // Another server for a while, so that each server is compared with the others.
            if matches!(outcome, Outcome::Unknown | Outcome::Rejected) || self.random.random_ratio(1, 5) {
                self.server = self.random.random_range(0..NODES);
            }
            sleep(Duration::from_millis(self.random.random_range(PAUSE)));
        }
    }

    fn select(&mut self) -> (String, Action) {
        let key = self.recorder.key(self.random.random_range(0..OBJECTS));
        let seen = self.seen.get(&key).copied();
        let expected = seen.filter(|_| self.random.random_ratio(1, 2));
        match self.random.random_range(0..100) {
            0..15 => (key, Action::Create { value: self.value() }),
            15..40 => (
                key,
                Action::Update {
                    value: self.value(),
                    expected,
                },
            ),
            40..52 => (key, Action::Delete { expected }),
            52..88 => (key, Action::Get),
            _ => (String::new(), Action::List),
        }
    }

    fn value(&mut self) -> String {
        self.values += 1;
        format!("r{}-c{}-{}", self.recorder.round, self.number, self.values)
    }

    /// Executes one operation and records it.
    pub(crate) fn execute(&mut self, key: &str, action: Action) -> Outcome {
        let server = self.server;
        let start = self.recorder.tick();
        let outcome = match &action {
            Action::List => self.list(),
            _ => self.send(key, &action),
        };
        let end = match outcome {
            Outcome::Unknown => NEVER,
            _ => self.recorder.tick(),
        };
        if let Outcome::Written(version) | Outcome::Read(version) = &outcome {
            self.seen.insert(key.to_owned(), version.revision);
        }
        self.recorder.add(Operation {
            client: self.number,
            server,
            key: key.to_owned(),
            action,
            outcome: outcome.clone(),
            start,
            end,
        });
        outcome
    }

    /// Executes an operation at this server until it has a result. Right after a fault etcd may lose its leader again.
    pub(crate) fn execute_at(
        &mut self,
        server: usize,
        key: &str,
        action: impl Fn(&mut Self) -> Action,
    ) -> Option<Outcome> {
        let started = now();
        while started.elapsed() < RETRIES {
            self.server = server;
            let action = action(self);
            let outcome = self.execute(key, action);
            if !matches!(outcome, Outcome::Unknown | Outcome::Rejected) {
                return Some(outcome);
            }
            sleep(RETRY);
        }
        None
    }

    /// An action that writes a new value.
    pub(crate) fn create(&mut self) -> Action {
        Action::Create { value: self.value() }
    }

    /// One request for one object, which is never sent again.
    fn send(&mut self, key: &str, action: &Action) -> Outcome {
        let request = self.request(key, action);
        let session = &mut self.sessions[self.server];
        if session.open().is_err() {
            return Outcome::Rejected;
        }
        match session.send(&request) {
            Ok(response) => self.outcome(action, &response),
            Err(_) => Outcome::Unknown,
        }
    }

    fn request(&mut self, key: &str, action: &Action) -> Request {
        let path = objects::path(NAMESPACE, key);
        match action {
            Action::Create { value } => {
                let object = self.recorder.object(key, value, None);
                objects::post(&objects::collection(NAMESPACE), &object)
            }
            // Without a revision half of them are patches, which the server executes as a read and an update.
            Action::Update {
                value,
                expected: None,
            } if self.random.random_ratio(1, 2) => {
                let patch = json!({"data": {objects::VALUE: value}});
                Request::new("PATCH", &path).body("application/merge-patch+json", patch.to_string())
            }
            Action::Update { value, expected } => {
                let object = self.recorder.object(key, value, *expected);
                Request::new("PUT", &path).body(JSON, object.to_string())
            }
            Action::Delete { expected } => {
                let options = match expected {
                    Some(expected) => json!({"preconditions": {"resourceVersion": expected.to_string()}}),
                    None => json!({}),
                };
                Request::new("DELETE", &path).body(JSON, options.to_string())
            }
            Action::Get | Action::List => Request::new("GET", &path),
        }
    }

    fn outcome(&mut self, action: &Action, response: &Response) -> Outcome {
        let body = response.json().unwrap_or_default();
        match (response.status, action) {
            (200, Action::Delete { .. }) => Outcome::Deleted {
                uid: body["details"]["uid"].as_str().unwrap_or_default().to_owned(),
            },
            (200, Action::Get) => Outcome::Read(version(&body)),
            (200 | 201, _) => Outcome::Written(version(&body)),
            (404, Action::Update { .. } | Action::Delete { .. } | Action::Get) => Outcome::Absent,
            (409, Action::Create { .. }) if body["reason"] == "AlreadyExists" => Outcome::Exists,
            (409, Action::Update { .. } | Action::Delete { .. }) if body["reason"] == "Conflict" => {
                Outcome::Conflict
            }
            (429, _) => Outcome::Rejected,
            (500.., _) => Outcome::Unknown,
            (status, _) => {
                let text = format!("server {}: {status} {}", self.server, response.text());
                self.recorder.add_unexpected(text);
                Outcome::Unknown
            }
        }
    }

    /// A list, in one page or in several of which each may come from another server.
    fn list(&mut self) -> Outcome {
        let is_paged = self.random.random_ratio(1, 3);
        let mut items = BTreeMap::new();
        let mut token = String::new();
        loop {
            let mut path = format!("{}?{}", objects::collection(NAMESPACE), self.recorder.selector());
            if is_paged {
                path.push_str(&format!("&limit={PAGE}"));
            }
            if !token.is_empty() {
                path.push_str(&format!("&continue={token}"));
                if self.random.random_ratio(1, 2) {
                    self.server = self.random.random_range(0..NODES);
                }
            }
            let Some(page) = self.page(&path) else {
                return Outcome::Unknown;
            };
            items.extend(versions(&page));
            match page["metadata"]["continue"]
                .as_str()
                .filter(|token| !token.is_empty())
            {
                Some(next) => next.clone_into(&mut token),
                None => {
                    let revision = objects::revision(&page);
                    return Outcome::Listed { revision, items };
                }
            }
        }
    }

    fn page(&mut self, path: &str) -> Option<Value> {
        let response = self.sessions[self.server].send(&Request::new("GET", path)).ok()?;
        match response.status {
            200 => response.json(),
            // The revision of the first page was compacted.
            410 | 429 | 500.. => None,
            status => {
                let text = format!("server {}: {status} {}", self.server, response.text());
                self.recorder.add_unexpected(text);
                None
            }
        }
    }
}

/// The objects of a list.
fn versions(list: &Value) -> impl Iterator<Item = (String, Version)> {
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|item| (name(item).to_owned(), version(item)))
}
