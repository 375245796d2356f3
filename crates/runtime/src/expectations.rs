//! Expectations: creations and deletions that a controller has requested and its cache does not show yet.
//!
//! Before a controller creates three pods it expects three creations; each one that its watch delivers lowers the number.
//! While something is expected, the cache is known to be behind, and acting on it would repeat the requests. Where revisions
//! can be compared, [`crate::controller`] knows this exactly and holds the key; expectations work with any server, and they
//! time out rather than block for ever.
//!
//! The rules are those of Kubernetes' `pkg/controller/controller_utils.go`. For example: `expect_creations("a/web", 3)`,
//! three creates of which the last fails, `creation_observed` for that one, two events: satisfied again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::{Clock, Key};

/// The expectations of each owner (Kubernetes' `ControllerExpectations`). Cloning shares them.
///
/// ```
/// use setpoint_api::{Key, SystemClock};
/// use setpoint_runtime::Expectations;
/// use std::sync::Arc;
///
/// let (expectations, web) = (Expectations::new(Arc::new(SystemClock::new())), Key::new("default", "web"));
/// expectations.expect_creations(&web, 2);
/// // Two creates are requested. Until the watch has delivered both, the cache is known to be behind.
/// expectations.creation_observed(&web);
/// assert!(!expectations.are_satisfied(&web));
/// expectations.creation_observed(&web);
/// assert!(expectations.are_satisfied(&web));
/// ```
#[derive(Debug, Clone)]
pub struct Expectations {
    clock: Arc<dyn Clock>,
    owners: Arc<Mutex<HashMap<Key, OwnerExpectations>>>,
}

/// The expectations of one owner. Observations only ever lower them.
#[derive(Debug, Clone)]
struct OwnerExpectations {
    creations: u64,
    /// By key: a deletion is observed when the deletionTimestamp is set and again when the object is gone, and counts once.
    deletions: HashSet<Key>,
    since: Timestamp,
}

/// Expectations not observed by now never will be: the event was lost, or the request never succeeded.
pub const EXPECTATIONS_TIMEOUT: Duration = Duration::from_secs(300);

impl Expectations {
    /// No expectations.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let owners = Arc::default();
        Self { clock, owners }
    }

    /// Whether the owner may be reconciled: its expectations are fulfilled, have timed out, or were never set.
    pub fn are_satisfied(&self, owner: &Key) -> bool {
        let now = self.clock.now();
        let owners = self.owners.lock();
        owners.get(owner).is_none_or(|expected| expected.is_settled(now))
    }

    /// Expects creations that are about to be requested. Replaces earlier expectations.
    pub fn expect_creations(&self, owner: &Key, count: u64) {
        self.expect(owner, count, HashSet::new());
    }

    /// Expects deletions that are about to be requested. Replaces earlier expectations.
    pub fn expect_deletions(&self, owner: &Key, of: impl IntoIterator<Item = Key>) {
        self.expect(owner, 0, of.into_iter().collect());
    }

    /// Lowers the expected creations by one: it was observed, or the request failed.
    pub fn creation_observed(&self, owner: &Key) {
        self.lower_creations(owner, 1);
    }

    /// Lowers the expected creations by those that were not requested.
    pub fn lower_creations(&self, owner: &Key, by: u64) {
        self.change(owner, |expected| {
            expected.creations = expected.creations.saturating_sub(by);
        });
    }

    /// Removes an expected deletion: it was observed, or the request failed. A second observation has no effect.
    pub fn deletion_observed(&self, owner: &Key, of: &Key) {
        self.change(owner, |expected| {
            expected.deletions.remove(of);
        });
    }

    /// Removes the expectations of a deleted owner.
    pub fn forget(&self, owner: &Key) {
        self.owners.lock().remove(owner);
    }

    /// The number of creations and deletions still expected.
    pub fn pending(&self, owner: &Key) -> (u64, usize) {
        let owners = self.owners.lock();
        let expected = owners.get(owner);
        expected.map_or((0, 0), |expected| (expected.creations, expected.deletions.len()))
    }

    fn expect(&self, owner: &Key, creations: u64, deletions: HashSet<Key>) {
        let since = self.clock.now();
        let expected = OwnerExpectations {
            creations,
            deletions,
            since,
        };
        self.owners.lock().insert(owner.clone(), expected);
    }

    fn change(&self, owner: &Key, change: impl FnOnce(&mut OwnerExpectations)) {
        if let Some(expected) = self.owners.lock().get_mut(owner) {
            change(expected);
        }
    }
}

impl OwnerExpectations {
    fn is_settled(&self, now: Timestamp) -> bool {
        let is_fulfilled = self.creations == 0 && self.deletions.is_empty();
        is_fulfilled || now.duration_since(self.since).unsigned_abs() > EXPECTATIONS_TIMEOUT
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::SystemClock;

    use super::*;

    fn key(text: &str) -> Key {
        text.parse().unwrap()
    }

    /// What is pending for `a/web` after these commands: `+2` expects creations, `-x,y` deletions; `c` observes a creation,
    /// `dx` the deletion of x; `s2` skips two creations.
    #[track_caller]
    fn check(commands: &str, expected: (u64, usize)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let _entered = runtime.as_ref().unwrap().enter();
        let expectations = Expectations::new(Arc::new(SystemClock::new()));
        let web = key("a/web");
        for command in commands.split_whitespace() {
            let (operation, rest) = command.split_at(1);
            match operation {
                "+" => expectations.expect_creations(&web, rest.parse().unwrap()),
                "-" => expectations.expect_deletions(&web, rest.split(',').map(key)),
                "c" => expectations.creation_observed(&web),
                "d" => expectations.deletion_observed(&web, &key(rest)),
                "s" => expectations.lower_creations(&web, rest.parse().unwrap()),
                _ => panic!("unknown command {command}"),
            }
        }
        assert_eq!(expectations.pending(&web), expected);
        assert_eq!(expectations.are_satisfied(&web), expected == (0, 0));
    }

    #[test]
    fn rs7_creations_are_expected_until_they_are_observed() {
        check("", (0, 0));
        check("+3 c", (2, 0));
        check("+3 c c c", (0, 0));
        check("+1 c c c", (0, 0));
    }

    #[test]
    fn rs9_skipped_creations_are_not_expected() {
        check("+500 c s499", (0, 0));
        check("+8 c s4", (3, 0));
    }

    #[test]
    fn rs11_a_deletion_counts_once_however_often_it_is_observed() {
        check("-x,y dx dx", (0, 1));
        check("-x,y dx dy", (0, 0));
        check("-x dz", (0, 1));
    }

    #[test]
    fn rs7_a_new_round_replaces_what_was_expected() {
        check("+3 +1", (1, 0));
        check("-x,y +1", (1, 0));
    }

    #[test]
    fn an_unexpected_event_changes_nothing() {
        check("c dx +1", (1, 0));
    }

    /// RS7: an event that was lost does not stop the owner for ever.
    #[tokio::test(start_paused = true)]
    async fn rs7_expectations_time_out() {
        let clock = Arc::new(SystemClock::new());
        let expectations = Expectations::new(clock.clone());
        let web = key("a/web");
        expectations.expect_creations(&web, 1);
        clock.sleep(EXPECTATIONS_TIMEOUT).await;
        assert!(!expectations.are_satisfied(&web));
        clock.sleep(Duration::from_secs(1)).await;
        assert!(expectations.are_satisfied(&web));
        expectations.expect_creations(&web, 1);
        assert!(!expectations.are_satisfied(&web));
        expectations.forget(&web);
        assert!(expectations.are_satisfied(&web));
    }
}
