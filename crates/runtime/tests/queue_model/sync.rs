//! The lock and the `Notify` of the model: shuttle may switch tasks at every use.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use shuttle::sync::MutexGuard;

/// Shuttle's lock without poisoning.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

/// Like tokio's `Notify`: a permit for one waiting or next task, or a wake-up of all waiting tasks.
#[derive(Debug)]
pub(crate) struct Notify(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether a permit is stored: one was notified while no task waited.
    permit: bool,
    /// The number of `notify_waiters` calls.
    rounds: usize,
    waiting: VecDeque<Arc<Slot>>,
}

/// A waiting task.
#[derive(Debug)]
struct Slot(Mutex<(Rung, Waker)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rung {
    Not,
    ForOne,
    ForAll,
}

pub(crate) struct NotifiedFuture<'a> {
    bell: &'a Notify,
    /// The number of `notify_waiters` calls when it began to wait.
    rounds: usize,
    slot: Option<Arc<Slot>>,
    done: bool,
}

impl Notify {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State::default()))
    }

    pub(crate) fn notified(&self) -> NotifiedFuture<'_> {
        NotifiedFuture {
            bell: self,
            rounds: self.0.lock().rounds,
            slot: None,
            done: false,
        }
    }

    pub(crate) fn notify_one(&self) {
        let first = {
            let mut state = self.0.lock();
            let first = state.waiting.pop_front();
            state.permit |= first.is_none();
            first
        };
        if let Some(slot) = first {
            slot.ring(Rung::ForOne);
        }
    }

    pub(crate) fn notify_waiters(&self) {
        let all = {
            let mut state = self.0.lock();
            state.rounds += 1;
            std::mem::take(&mut state.waiting)
        };
        all.iter().for_each(|slot| slot.ring(Rung::ForAll));
    }
}

impl Default for Notify {
    fn default() -> Self {
        Self::new()
    }
}

impl Slot {
    fn ring(&self, how: Rung) {
        let waker = {
            let mut own = self.0.lock();
            own.0 = how;
            own.1.clone()
        };
        waker.wake();
    }
}

impl Future for NotifiedFuture<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(slot) = &self.slot {
            let mut own = slot.0.lock();
            if own.0 == Rung::Not {
                own.1.clone_from(cx.waker());
                return Poll::Pending;
            }
            drop(own);
            self.done = true;
            return Poll::Ready(());
        }
        let mut state = self.bell.0.lock();
        if state.rounds != self.rounds || std::mem::take(&mut state.permit) {
            drop(state);
            self.done = true;
            return Poll::Ready(());
        }
        let slot = Arc::new(Slot(Mutex::new((Rung::Not, cx.waker().clone()))));
        state.waiting.push_back(slot.clone());
        drop(state);
        self.slot = Some(slot);
        Poll::Pending
    }
}

impl Drop for NotifiedFuture<'_> {
    /// An unused permit goes to the next task.
    fn drop(&mut self) {
        let Some(slot) = self.slot.take().filter(|_| !self.done) else {
            return;
        };
        let mut state = self.bell.0.lock();
        state.waiting.retain(|own| !Arc::ptr_eq(own, &slot));
        drop(state);
        let rung = slot.0.lock().0;
        if rung == Rung::ForOne {
            self.bell.notify_one();
        }
    }
}
