//! A process that crashes before or after one of its requests to the server.
//!
//! A controller waits for nothing but the server, so these are all the points at which a crash can make a difference.

use crate::interceptor::RecordedRequest;

/// Which process crashes, and at which request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// The user name of the process.
    pub user: &'static str,
    /// At which of its requests, from 1 on. Events and leases do not count.
    pub request: usize,
    /// Before or after that request.
    pub point: CrashPoint,
}

/// Before or after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPoint {
    /// The request never leaves the process.
    Before,
    /// The request is executed, and the process never gets the response.
    After,
}

/// A pending crash and how many requests have passed.
#[derive(Debug)]
pub(crate) struct CrashTrigger {
    crash: Crash,
    state: State,
}

/// The state of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// This many requests have passed.
    Alive(usize),
    /// Its last request is being executed. No other request leaves the process.
    Dying,
    Dead,
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    Deliver,
    /// It reaches the server, and its response is dropped.
    DropResponse,
    /// It is dropped.
    DropRequest,
}

impl CrashTrigger {
    pub(crate) fn new(crash: Crash) -> Self {
        let state = State::Alive(0);
        Self { crash, state }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state == State::Dead
    }

    /// The last request has been executed.
    pub(crate) fn set_dead(&mut self) {
        self.state = State::Dead;
    }

    /// Counts one more request, and decides what happens to it.
    pub(crate) fn on_request(&mut self, call: &RecordedRequest) -> Delivery {
        if call.user != self.crash.user {
            return Delivery::Deliver;
        }
        let State::Alive(passed) = self.state else {
            return Delivery::DropRequest;
        };
        if call.is_event_or_lease() {
            return Delivery::Deliver;
        }
        if passed + 1 < self.crash.request {
            self.state = State::Alive(passed + 1);
            return Delivery::Deliver;
        }
        match self.crash.point {
            CrashPoint::Before => {
                self.state = State::Dead;
                Delivery::DropRequest
            }
            CrashPoint::After => {
                self.state = State::Dying;
                Delivery::DropResponse
            }
        }
    }
}
