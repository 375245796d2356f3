//! [`Recorder`]: the history of a round, written by all clients and watchers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use serde_json::Value;

use crate::linearizability::{History, Operation, Tick, Version, Watch};
use crate::objects;

/// The label of the objects of a round.
const LABEL: &str = "round";
/// The namespace of all rounds.
pub(crate) const NAMESPACE: &str = "linearizability";

/// The history of a round in the making.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) round: usize,
    ticks: AtomicU64,
    history: Mutex<History>,
    /// Set once the clients are to end.
    is_over: AtomicBool,
    /// The revision that each watcher has to reach before it ends; 0 as long as it is not known.
    target: AtomicU64,
    /// Responses that no client expects.
    unexpected: Mutex<Vec<String>>,
}

impl Recorder {
    /// A round that starts at a revision without any of its objects.
    pub(crate) fn new(round: usize, start: u64) -> Self {
        Self {
            round,
            ticks: AtomicU64::new(0),
            history: Mutex::new(History {
                start,
                ..History::default()
            }),
            is_over: AtomicBool::new(false),
            target: AtomicU64::new(0),
            unexpected: Mutex::default(),
        }
    }

    /// The next tick. A start is numbered before its request is sent, an end after its response was read.
    pub(crate) fn tick(&self) -> Tick {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn start_revision(&self) -> u64 {
        self.history.lock().start
    }

    pub(crate) fn add(&self, operation: Operation) {
        self.history.lock().operations.push(operation);
    }

    pub(crate) fn add_watch(&self, watch: Watch) {
        self.history.lock().watches.push(watch);
    }

    pub(crate) fn add_unexpected(&self, text: String) {
        self.unexpected.lock().push(text);
    }

    pub(crate) fn unexpected(&self) -> Vec<String> {
        self.unexpected.lock().clone()
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    pub(crate) fn set_target(&self, revision: u64) {
        self.target.store(revision, Ordering::SeqCst);
    }

    /// Whether a watcher that has reached this revision ends.
    pub(crate) fn is_reached(&self, revision: u64) -> bool {
        let target = self.target.load(Ordering::SeqCst);
        target > 0 && revision >= target
    }

    pub(crate) fn into_history(self) -> History {
        let mut history = self.history.into_inner();
        history.operations.sort_by_key(|operation| operation.start);
        history
    }

    /// The name of an object of this round.
    pub(crate) fn key(&self, number: usize) -> String {
        format!("{}{number}", self.prefix())
    }

    /// Whether an object is one of this round.
    pub(crate) fn has(&self, key: &str) -> bool {
        key.starts_with(&self.prefix())
    }

    fn prefix(&self) -> String {
        format!("r{}-", self.round)
    }

    /// The query for the objects of this round.
    pub(crate) fn selector(&self) -> String {
        selector(self.round)
    }

    /// An object with this value.
    pub(crate) fn object(&self, key: &str, value: &str, expected: Option<u64>) -> Value {
        let mut map = objects::config_map(key, value, false);
        map["metadata"]["labels"] = serde_json::json!({LABEL: format!("{}", self.round)});
        if let Some(expected) = expected {
            map["metadata"]["resourceVersion"] = expected.to_string().into();
        }
        map
    }
}

/// The query for the objects of a round.
pub(crate) fn selector(round: usize) -> String {
    format!("labelSelector={LABEL}%3D{round}")
}

/// The version of an object in a response or an event.
pub(crate) fn version(object: &Value) -> Version {
    Version {
        revision: objects::revision(object),
        uid: object["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
        value: objects::value(object).to_owned(),
    }
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
