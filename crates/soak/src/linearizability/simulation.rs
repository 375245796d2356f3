//! Random histories of a simulated store: valid ones, and ones of a store with a defect, each of which must be noticed.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::violation::ViolationKind;
use super::*;

const CLIENTS: usize = 8;
const KEYS: usize = 4;
const STEPS: usize = 3000;
const SEEDS: u64 = 6;

/// What the store does wrong, half of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    /// Acknowledges writes that it does not execute.
    LosesWrites,
    /// Reads an older state.
    ReadsStale,
    /// Creates objects that exist.
    CreatesTwice,
    /// Does not compare revisions.
    IgnoresRevisions,
    /// Lists one key as of an older revision.
    TearsLists,
    /// Executes writes that it rejects.
    ExecutesRejected,
    /// Does not deliver events.
    DropsEvents,
    /// Delivers events twice.
    RepeatsEvents,
}

/// The store and the operations that are under way.
struct Simulation {
    defect: Defect,
    random: StdRng,
    history: History,
    tick: Tick,
    /// The states after each revision.
    states: Vec<BTreeMap<String, Version>>,
    events: Vec<Event>,
    values: usize,
}

impl Simulation {
    fn new(defect: Defect, seed: u64) -> Self {
        Self {
            defect,
            random: StdRng::seed_from_u64(seed),
            history: History::default(),
            tick: 0,
            states: vec![BTreeMap::new()],
            events: Vec::new(),
            values: 0,
        }
    }

    fn next(&mut self) -> Tick {
        self.tick += 1;
        self.tick
    }

    fn strikes(&mut self, defect: Defect) -> bool {
        self.defect == defect && self.random.random_ratio(1, 2)
    }

    /// Each client begins an operation, which is executed at some later step and ends at another; or the client gives up.
    fn run(mut self) -> History {
        let mut pending: Vec<Option<(usize, Option<Outcome>)>> = vec![None; CLIENTS];
        let mut given_up = Vec::new();
        for _ in 0..STEPS {
            let client = self.random.random_range(0..CLIENTS);
            pending[client] = match pending[client].take() {
                None => Some((self.begin(client), None)),
                Some((operation, None)) if self.random.random_ratio(1, 20) => {
                    given_up.push(operation);
                    None
                }
                Some((operation, None)) => Some((operation, Some(self.execute(operation)))),
                Some((operation, Some(outcome))) => {
                    let end = self.next();
                    let operation = &mut self.history.operations[operation];
                    (operation.outcome, operation.end) = (outcome, end);
                    None
                }
            };
            if self.random.random_ratio(1, 60)
                && let Some(operation) = given_up.pop()
            {
                self.execute(operation);
            }
        }
        self.watch();
        self.history
    }

    fn begin(&mut self, client: usize) -> usize {
        let key = format!("k{}", self.random.random_range(0..KEYS));
        let current = self.states.last().and_then(|state| state.get(&key));
        let expected = current.map(|version| version.revision);
        let expected = expected.filter(|_| self.random.random_ratio(1, 2));
        self.values += 1;
        let value = format!("v{}", self.values);
        let (key, action) = match self.random.random_range(0..10) {
            0..2 => (key, Action::Create { value }),
            2..5 => (key, Action::Update { value, expected }),
            5 => (key, Action::Delete { expected }),
            6..9 => (key, Action::Get),
            _ => (String::new(), Action::List),
        };
        let start = self.next();
        self.history.operations.push(Operation {
            client,
            server: 0,
            key,
            action,
            outcome: Outcome::Unknown,
            start,
            end: NEVER,
        });
        self.history.operations.len() - 1
    }

    fn execute(&mut self, operation: usize) -> Outcome {
        let operation = self.history.operations[operation].clone();
        let state = self.states.last().cloned().unwrap_or_default();
        let current = state.get(&operation.key).cloned();
        let is_at =
            |expected: &Option<u64>, current: &Version| expected.is_none_or(|it| it == current.revision);
        match (&operation.action, current) {
            (Action::Get | Action::List, _) => self.read(&operation),
            (Action::Create { .. }, Some(_)) if !self.strikes(Defect::CreatesTwice) => Outcome::Exists,
            (Action::Create { value }, _) => self.write(&operation.key, value, None),
            (Action::Update { .. } | Action::Delete { .. }, None) => Outcome::Absent,
            (Action::Update { value, expected }, Some(current)) => {
                if is_at(expected, &current) || self.strikes(Defect::IgnoresRevisions) {
                    return self.write(&operation.key, value, Some(current));
                }
                if self.strikes(Defect::ExecutesRejected) {
                    self.write(&operation.key, value, Some(current));
                }
                Outcome::Conflict
            }
            (Action::Delete { expected }, Some(current)) if is_at(expected, &current) => {
                let uid = current.uid.clone();
                self.commit(&operation.key, None, current);
                Outcome::Deleted { uid }
            }
            (Action::Delete { .. }, Some(_)) => Outcome::Conflict,
        }
    }

    fn write(&mut self, key: &str, value: &str, current: Option<Version>) -> Outcome {
        let revision = self.states.len() as u64;
        let version = Version {
            revision,
            uid: current.map_or_else(|| format!("uid-{revision}"), |current| current.uid),
            value: value.to_owned(),
        };
        if self.strikes(Defect::LosesWrites) {
            // The revision is used up by something else.
            self.states.push(self.states.last().cloned().unwrap_or_default());
        } else {
            self.commit(key, Some(version.clone()), version.clone());
        }
        Outcome::Written(version)
    }

    fn commit(&mut self, key: &str, next: Option<Version>, mut event: Version) {
        let mut state = self.states.last().cloned().unwrap_or_default();
        event.revision = self.states.len() as u64;
        let event_type = match (&next, state.contains_key(key)) {
            (None, _) => EventType::Deleted,
            (Some(_), true) => EventType::Modified,
            (Some(_), false) => EventType::Added,
        };
        match next {
            Some(version) => drop(state.insert(key.to_owned(), version)),
            None => drop(state.remove(key)),
        }
        self.states.push(state);
        self.events.push(Event {
            event_type,
            key: key.to_owned(),
            version: event,
            received: 0,
        });
    }

    fn read(&mut self, operation: &Operation) -> Outcome {
        let newest = self.states.len() - 1;
        let older = newest.saturating_sub(self.random.random_range(3..12));
        let at = if self.strikes(Defect::ReadsStale) {
            older
        } else {
            newest
        };
        if operation.action == Action::Get {
            return match self.states[at].get(&operation.key) {
                Some(version) => Outcome::Read(version.clone()),
                None => Outcome::Absent,
            };
        }
        let mut items = self.states[at].clone();
        if self.strikes(Defect::TearsLists) {
            items.remove("k0");
            items.extend(
                self.states[older]
                    .get("k0")
                    .map(|version| ("k0".to_owned(), version.clone())),
            );
        }
        Outcome::Listed {
            revision: at as u64,
            items,
        }
    }

    /// Two watchers with a few connections each.
    fn watch(&mut self) {
        for watcher in 0..2 {
            let mut watch = Watch {
                watcher,
                server: 0,
                start: 0,
                events: Vec::new(),
            };
            for mut event in self.events.clone() {
                event.received = self.next();
                if self.random.random_ratio(1, 50) {
                    let next = Watch {
                        start: watch.reached(),
                        events: Vec::new(),
                        ..watch
                    };
                    self.history.watches.push(std::mem::replace(&mut watch, next));
                }
                if self.strikes(Defect::RepeatsEvents) {
                    watch.events.push(event.clone());
                }
                if !self.strikes(Defect::DropsEvents) {
                    watch.events.push(event);
                }
            }
            self.history.watches.push(watch);
        }
    }
}

/// Each history of a store with this defect has a violation of one of these types.
#[track_caller]
fn check_defect(defect: Defect, kinds: &[ViolationKind]) {
    for seed in 0..SEEDS {
        let report = check(&Simulation::new(defect, seed).run());
        let mut violations = report.violations.iter();
        let is_noticed = violations.any(|violation| kinds.contains(&violation.kind));
        assert!(is_noticed, "{defect:?}, seed {seed}: {:#?}", report.violations);
    }
}

#[test]
fn histories_of_a_correct_store_are_valid() {
    for seed in 0..SEEDS * 3 {
        let report = check(&Simulation::new(Defect::None, seed).run());
        assert!(
            report.violations.is_empty(),
            "seed {seed}: {:#?}",
            report.violations
        );
        assert!(
            report.unfinished.is_empty(),
            "seed {seed}: {:?}",
            report.unfinished
        );
    }
}

#[test]
fn each_defect_of_a_store_is_noticed() {
    check_defect(Defect::LosesWrites, &[ViolationKind::LostWrite]);
    check_defect(Defect::ReadsStale, &[ViolationKind::StaleRead]);
    check_defect(Defect::CreatesTwice, &[ViolationKind::DuplicateCreate]);
    check_defect(Defect::IgnoresRevisions, &[ViolationKind::LostUpdate]);
    check_defect(Defect::TearsLists, &[ViolationKind::TornList]);
    check_defect(Defect::ExecutesRejected, &[ViolationKind::DirtyRead]);
    check_defect(Defect::DropsEvents, &[ViolationKind::WatchGap]);
    check_defect(Defect::RepeatsEvents, &[ViolationKind::WatchRepeat]);
}

/// Without watches the search alone notices what responses show.
#[test]
fn defects_are_noticed_without_watches() {
    for defect in [
        Defect::LosesWrites,
        Defect::ReadsStale,
        Defect::CreatesTwice,
        Defect::IgnoresRevisions,
        Defect::ExecutesRejected,
    ] {
        let is_noticed = |seed| {
            let mut history = Simulation::new(defect, seed).run();
            history.watches.clear();
            let report = check(&history);
            let mut violations = report.violations.iter();
            violations.any(|violation| violation.kind == ViolationKind::NotLinearizable)
                || !report.unfinished.is_empty()
        };
        let noticed = (0..SEEDS).filter(|seed| is_noticed(*seed)).count();
        assert_eq!(noticed as u64, SEEDS, "{defect:?}");
    }
}
