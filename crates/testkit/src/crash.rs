//! A process that dies at the door of the server, before or after one of its requests.
//!
//! A controller waits for nothing but the server, so these are all the moments at which its end can make a difference.

use crate::link::Call;

/// Who dies, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// The name under which the process talks to the server.
    pub user: &'static str,
    /// At which of its requests, from 1 on. Events and leases do not count.
    pub at: usize,
    /// On which side of it.
    pub moment: Moment,
}

/// On which side of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The request never leaves the process.
    Before,
    /// The request is carried out, and the process never learns of it.
    After,
}

/// A crash to come, and how near it is.
#[derive(Debug)]
pub(crate) struct Fuse {
    crash: Crash,
    state: State,
}

/// How far it has burnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// So many requests have passed.
    Alive(usize),
    /// The last request is being carried out. Nothing else leaves the process.
    Dying,
    Dead,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Passes,
    /// It reaches the server and its answer reaches nobody.
    Unheard,
    /// It reaches nobody.
    Lost,
}

impl Fuse {
    pub(crate) fn new(crash: Crash) -> Self {
        let state = State::Alive(0);
        Self { crash, state }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state == State::Dead
    }

    /// The last request has been carried out.
    pub(crate) fn die(&mut self) {
        self.state = State::Dead;
    }

    /// One more request.
    pub(crate) fn burn(&mut self, call: &Call) -> Fate {
        if call.user != self.crash.user {
            return Fate::Passes;
        }
        let State::Alive(passed) = self.state else {
            return Fate::Lost;
        };
        if call.is_chatter() {
            return Fate::Passes;
        }
        if passed + 1 < self.crash.at {
            self.state = State::Alive(passed + 1);
            return Fate::Passes;
        }
        match self.crash.moment {
            Moment::Before => {
                self.state = State::Dead;
                Fate::Lost
            }
            Moment::After => {
                self.state = State::Dying;
                Fate::Unheard
            }
        }
    }
}
