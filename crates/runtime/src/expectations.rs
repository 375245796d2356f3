//! Expectations: what a controller has asked for and its cache has yet to show.
//!
//! Before a controller creates three pods it expects three creations; each one that its watch shows lowers the number.
//! While something is expected, the cache is known to be behind, and acting on it would do the same again. Where the
//! cache tells how far it has come, [`crate::freshness`] knows this exactly; expectations are the contract for any
//! server, and they time out rather than wait for ever.
//!
//! The rules are those of Kubernetes' `pkg/controller/controller_utils.go`. For example: `expect_creations("a/web", 3)`,
//! three creates of which the last fails, `creation_observed` for that one, two events: satisfied again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::{Clock, Key};

/// What is expected of each owner. Cloning shares it.
///
/// ```
/// use setpoint_api::{Key, SystemClock};
/// use setpoint_runtime::Expectations;
/// use std::sync::Arc;
///
/// let (expectations, web) = (Expectations::new(Arc::new(SystemClock::new())), Key::new("default", "web"));
/// expectations.expect_creations(&web, 2);
/// // Two creates are asked for. Until the watch has shown both, the cache is known to be behind.
/// expectations.creation_observed(&web);
/// assert!(!expectations.are_satisfied(&web));
/// expectations.creation_observed(&web);
/// assert!(expectations.are_satisfied(&web));
/// ```
#[derive(Debug, Clone)]
pub struct Expectations {
    clock: Arc<dyn Clock>,
    owners: Arc<Mutex<HashMap<Key, Expected>>>,
}

/// What is expected of one owner since one moment. Observations only ever lower it.
#[derive(Debug, Clone)]
struct Expected {
    creations: u64,
    /// By the key of what is to go: its deletion is seen when it is marked and once more when it is gone, and counts once.
    deletions: HashSet<Key>,
    since: Timestamp,
}

/// What has not shown up by now never will: its event was lost, or it never happened.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(300);

impl Expectations {
    /// Nothing is expected yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let owners = Arc::default();
        Self { clock, owners }
    }

    /// Whether the owner may be acted for: nothing is expected any more, or it has been for too long, or never was.
    pub fn are_satisfied(&self, owner: &Key) -> bool {
        let now = self.clock.now();
        let owners = self.owners.lock();
        owners.get(owner).is_none_or(|expected| expected.is_settled(now))
    }

    /// So many creations are about to be asked for. What was expected before is forgotten.
    pub fn expect_creations(&self, owner: &Key, count: u64) {
        self.expect(owner, count, HashSet::new());
    }

    /// The deletions of these are about to be asked for. What was expected before is forgotten.
    pub fn expect_deletions(&self, owner: &Key, of: impl IntoIterator<Item = Key>) {
        self.expect(owner, 0, of.into_iter().collect());
    }

    /// A creation was seen, or could not be made.
    pub fn creation_observed(&self, owner: &Key) {
        self.lower_creations(owner, 1);
    }

    /// So many creations were not even tried.
    pub fn lower_creations(&self, owner: &Key, by: u64) {
        self.change(owner, |expected| {
            expected.creations = expected.creations.saturating_sub(by);
        });
    }

    /// A deletion was seen, or could not be made. Seeing it twice counts once.
    pub fn deletion_observed(&self, owner: &Key, of: &Key) {
        self.change(owner, |expected| {
            expected.deletions.remove(of);
        });
    }

    /// The owner is gone, and what was expected of it.
    pub fn forget(&self, owner: &Key) {
        self.owners.lock().remove(owner);
    }

    /// How many creations and deletions are still expected.
    pub fn pending(&self, owner: &Key) -> (u64, usize) {
        let owners = self.owners.lock();
        let expected = owners.get(owner);
        expected.map_or((0, 0), |expected| (expected.creations, expected.deletions.len()))
    }

    fn expect(&self, owner: &Key, creations: u64, deletions: HashSet<Key>) {
        let since = self.clock.now();
        let expected = Expected {
            creations,
            deletions,
            since,
        };
        self.owners.lock().insert(owner.clone(), expected);
    }

    fn change(&self, owner: &Key, change: impl FnOnce(&mut Expected)) {
        if let Some(expected) = self.owners.lock().get_mut(owner) {
            change(expected);
        }
    }
}

impl Expected {
    fn is_settled(&self, now: Timestamp) -> bool {
        let is_fulfilled = self.creations == 0 && self.deletions.is_empty();
        is_fulfilled || now.duration_since(self.since).unsigned_abs() > GIVE_UP_AFTER
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::SystemClock;

    use super::*;

    fn key(text: &str) -> Key {
        text.parse().unwrap()
    }

    /// After these words, what is pending of `a/web`: `+2` expects creations, `-x,y` deletions; `c` is a creation seen,
    /// `dx` the deletion of x; `s2` says that two were skipped.
    #[track_caller]
    fn check(words: &str, expected: (u64, usize)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let _entered = runtime.as_ref().unwrap().enter();
        let expectations = Expectations::new(Arc::new(SystemClock::new()));
        let web = key("a/web");
        for word in words.split_whitespace() {
            let (what, rest) = word.split_at(1);
            match what {
                "+" => expectations.expect_creations(&web, rest.parse().unwrap()),
                "-" => expectations.expect_deletions(&web, rest.split(',').map(key)),
                "c" => expectations.creation_observed(&web),
                "d" => expectations.deletion_observed(&web, &key(rest)),
                "s" => expectations.lower_creations(&web, rest.parse().unwrap()),
                _ => panic!("no such word: {word}"),
            }
        }
        assert_eq!(expectations.pending(&web), expected);
        assert_eq!(expectations.are_satisfied(&web), expected == (0, 0));
    }

    #[test]
    fn rs7_what_was_asked_for_is_expected_until_it_is_seen() {
        check("", (0, 0));
        check("+3 c", (2, 0));
        check("+3 c c c", (0, 0));
        check("+1 c c c", (0, 0));
    }

    #[test]
    fn rs9_what_was_skipped_is_not_expected() {
        check("+500 c s499", (0, 0));
        check("+8 c s4", (3, 0));
    }

    #[test]
    fn rs11_a_deletion_counts_once_however_often_it_is_seen() {
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
    fn an_event_nobody_waits_for_changes_nothing() {
        check("c dx +1", (1, 0));
    }

    /// RS7: an event that was lost does not stop the owner for ever.
    #[tokio::test(start_paused = true)]
    async fn rs7_what_never_shows_up_is_given_up() {
        let clock = Arc::new(SystemClock::new());
        let expectations = Expectations::new(clock.clone());
        let web = key("a/web");
        expectations.expect_creations(&web, 1);
        clock.sleep(GIVE_UP_AFTER).await;
        assert!(!expectations.are_satisfied(&web));
        clock.sleep(Duration::from_secs(1)).await;
        assert!(expectations.are_satisfied(&web));
        expectations.expect_creations(&web, 1);
        assert!(!expectations.are_satisfied(&web));
        expectations.forget(&web);
        assert!(expectations.are_satisfied(&web));
    }
}
