//! A watcher: one watch after another, each from where the last one ended or from earlier, at any of the servers.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use setpoint_conformance::time::{now, sleep};

use super::cluster::{Cluster, NODES};
use super::recorder::{NAMESPACE, Recorder, name, version};
use super::stream::{Lines, Rejection};
use crate::linearizability::{Event, EventType, Version, Watch};
use crate::objects;

const RETRY: Duration = Duration::from_millis(200);
/// How long a watch lasts, in seconds.
const LIFETIME: std::ops::Range<u64> = 3..25;
/// How long the watchers may take to deliver the end of a round.
const CATCH_UP: Duration = Duration::from_secs(180);

/// A watcher and the revisions that it has reached.
pub(crate) struct Watcher<'a> {
    cluster: &'a Cluster,
    recorder: &'a Recorder,
    number: usize,
    server: usize,
    random: StdRng,
    /// The start of the round and the last revision of each watch.
    reached: Vec<u64>,
    /// When the clients had ended.
    over_since: Option<Instant>,
}

impl<'a> Watcher<'a> {
    pub(crate) fn new(cluster: &'a Cluster, recorder: &'a Recorder, number: usize, seed: u64) -> Self {
        Self {
            cluster,
            recorder,
            number,
            server: number % NODES,
            random: StdRng::seed_from_u64(seed.wrapping_add((recorder.round * 100 + number) as u64)),
            reached: vec![recorder.start_revision()],
            over_since: None,
        }
    }

    /// Watches until the end of the round was delivered. Returns whether it was.
    pub(crate) fn run(mut self) -> bool {
        loop {
            let latest = self.reached.last().copied().unwrap_or_default();
            let mut watch = Watch {
                watcher: self.number,
                server: self.server,
                start: latest,
                events: Vec::new(),
            };
            if self.random.random_ratio(1, 6) {
                watch.start = self.reached[self.random.random_range(0..self.reached.len())];
            }
            let ended = self.watch(&mut watch);
            let reached = watch.reached();
            self.recorder.add_watch(watch);
            match ended {
                // What the server does not have any more is left to the other watchers.
                Ok(Some(listed)) => self.reached = vec![listed],
                _ if reached > latest => self.reached.push(reached),
                _ => {}
            }
            if self.recorder.is_reached(reached) {
                return true;
            }
            if self.recorder.is_over() {
                let since = *self.over_since.get_or_insert_with(now);
                if since.elapsed() > CATCH_UP {
                    return false;
                }
            }
            if ended.is_err() {
                sleep(RETRY);
            }
            if ended.is_err() || self.random.random_ratio(1, 3) {
                self.server = self.random.random_range(0..NODES);
            }
        }
    }

    /// Receives events until the watch ends. If its start was compacted, the revision of a new list is returned.
    fn watch(&mut self, watch: &mut Watch) -> Result<Option<u64>> {
        let mut path = format!(
            "{}?watch=true&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
            objects::collection(NAMESPACE),
            watch.start,
            self.random.random_range(LIFETIME)
        );
        if self.number.is_multiple_of(2) {
            path.push_str(&format!("&{}", self.recorder.selector()));
        }
        let mut lines = match Lines::open(&self.cluster.session(self.server), &path) {
            Ok(lines) => lines,
            Err(Rejection::Status(410)) => return self.list().map(Some),
            Err(rejection) => bail!("no watch: {rejection:?}"),
        };
        while let Some(event) = lines.next_json()? {
            if event["type"] == "ERROR" {
                return match event["object"]["code"].as_u64() {
                    Some(410) => self.list().map(Some),
                    _ => bail!("a watch ended: {event}"),
                };
            }
            watch.events.push(self.event(&event));
            if self.recorder.is_reached(watch.reached()) {
                break;
            }
        }
        Ok(None)
    }

    /// An event of an object that is not of this round shows that everything before it was delivered, as a bookmark does.
    fn event(&self, event: &Value) -> Event {
        let object = &event["object"];
        let event_type = match event["type"].as_str().unwrap_or_default() {
            "ADDED" => EventType::Added,
            "MODIFIED" => EventType::Modified,
            "DELETED" => EventType::Deleted,
            _ => EventType::Bookmark,
        };
        let received = self.recorder.tick();
        let key = name(object);
        match event_type {
            EventType::Bookmark => bookmark(objects::revision(object), received),
            _ if !self.recorder.has(key) => bookmark(objects::revision(object), received),
            _ => Event {
                event_type,
                key: key.to_owned(),
                version: version(object),
                received,
            },
        }
    }

    /// The revision of a list of everything.
    fn list(&self) -> Result<u64> {
        let path = format!("{}?limit=1", objects::collection(NAMESPACE));
        let list = self.cluster.session(self.server).read(&path)?;
        Ok(objects::revision(&list))
    }
}

fn bookmark(revision: u64, received: u64) -> Event {
    Event {
        event_type: EventType::Bookmark,
        key: String::new(),
        version: Version {
            revision,
            uid: String::new(),
            value: String::new(),
        },
        received,
    }
}
