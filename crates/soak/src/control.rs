//! [`Control`]: pauses and stops the threads of the load.

use parking_lot::{Condvar, Mutex};

/// The phase of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The writers write.
    Running,
    /// No writer has a request under way, once all have paused.
    Paused,
    /// All threads end.
    Stopped,
}

/// Shared by the threads of the load and the one that injects faults.
#[derive(Debug)]
pub(crate) struct Control {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// How many writers wait for the end of the pause.
    paused: usize,
}

impl Control {
    pub(crate) fn new() -> Self {
        let state = State {
            phase: Phase::Running,
            paused: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Called by a writer between two requests: waits while the load is paused, after a check of its objects. Returns
    /// whether to go on.
    pub(crate) fn go_on(&self, check: impl FnOnce()) -> bool {
        let mut state = self.state.lock();
        if state.phase == Phase::Paused {
            parking_lot::MutexGuard::unlocked(&mut state, check);
            state.paused += 1;
            self.changed.notify_all();
            self.changed
                .wait_while(&mut state, |state| state.phase == Phase::Paused);
            state.paused -= 1;
        }
        state.phase == Phase::Running
    }

    /// Whether the load has ended. Readers do not pause.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().phase == Phase::Stopped
    }

    /// Pauses the writers and waits until so many have paused.
    pub(crate) fn pause(&self, writers: usize) {
        let mut state = self.state.lock();
        state.phase = Phase::Paused;
        self.changed
            .wait_while(&mut state, |state| state.paused < writers);
    }

    pub(crate) fn resume(&self) {
        self.set(Phase::Running);
    }

    pub(crate) fn stop(&self) {
        self.set(Phase::Stopped);
    }

    fn set(&self, phase: Phase) {
        self.state.lock().phase = phase;
        self.changed.notify_all();
    }
}
