//! The search of Wing and Gong with Lowe's memory of visited states: an order of the operations on one key that respects the
//! order of time and explains every outcome.
//!
//! Operations that ended must have a position before their end. One without a response may have a position at any time after
//! its start, or none. The revisions of writes leave little to search: known ones are written in their order.

use std::collections::HashSet;

use super::history::Tick;
use super::model::{State, Transition};

/// An operation on the key, with its time.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) transition: Transition,
    pub(crate) start: Tick,
    /// `None` if it need not take effect.
    pub(crate) end: Option<Tick>,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Search {
    /// There is an order.
    Linearizable,
    /// There is none. In the longest one that was found this call is next to end, and the key has this state.
    NotLinearizable { blocked: usize, state: State },
    /// The limit of steps was reached.
    GaveUp,
}

/// Starts and ends of calls in the order of time, without those of calls that have a position.
struct Entries {
    entries: Vec<Entry>,
    next: Vec<usize>,
    previous: Vec<usize>,
    /// The entries of each call.
    of_call: Vec<(usize, Option<usize>)>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    call: usize,
    is_end: bool,
}

/// A position in the order that is being built: the calls that may follow.
struct Frame {
    candidates: Vec<usize>,
    tried: usize,
    state: State,
    /// The call before.
    call: Option<usize>,
}

/// Searches an order of the calls, in at most so many steps. `writes` are the known revisions of their writes, ascending.
pub(crate) fn search(calls: &[Call], writes: &[u64], limit: usize) -> Search {
    let mut entries = Entries::new(calls);
    let mut positioned = vec![0_u64; calls.len().div_ceil(64)];
    let mut visited = HashSet::new();
    let mut stack = vec![entries.frame(calls, State::empty(), None)];
    let mut deepest: Option<(usize, usize, State)> = None;
    let mut steps = 0;
    while !stack.is_empty() {
        let Some(end) = entries.first_end() else {
            return Search::Linearizable;
        };
        let depth = stack.len();
        let frame = &mut stack[depth - 1];
        if deepest.is_none_or(|(deepest, ..)| deepest < depth) {
            deepest = Some((depth, end, frame.state));
        }
        steps += 1;
        if steps > limit {
            return Search::GaveUp;
        }
        let Some(call) = frame.candidates.get(frame.tried).copied() else {
            if let Some(call) = stack.pop().and_then(|frame| frame.call) {
                entries.restore(call);
                positioned[call / 64] &= !(1 << (call % 64));
            }
            continue;
        };
        frame.tried += 1;
        let Some(state) = frame.state.apply(&calls[call].transition, writes) else {
            continue;
        };
        positioned[call / 64] |= 1 << (call % 64);
        if visited.insert((positioned.clone(), state)) {
            entries.remove(call);
            stack.push(entries.frame(calls, state, Some(call)));
        } else {
            positioned[call / 64] &= !(1 << (call % 64));
        }
    }
    match deepest {
        Some((_, blocked, state)) => Search::NotLinearizable { blocked, state },
        None => Search::Linearizable,
    }
}

impl Entries {
    /// The first entry is a sentinel.
    fn new(calls: &[Call]) -> Self {
        let mut times: Vec<(Tick, Entry)> = Vec::with_capacity(calls.len() * 2);
        for (call, times_of) in calls.iter().enumerate() {
            times.push((times_of.start, Entry { call, is_end: false }));
            times.extend(times_of.end.map(|end| (end, Entry { call, is_end: true })));
        }
        times.sort_by_key(|(tick, _)| *tick);
        let sentinel = Entry {
            call: usize::MAX,
            is_end: false,
        };
        let entries: Vec<Entry> = std::iter::once(sentinel)
            .chain(times.into_iter().map(|(_, entry)| entry))
            .collect();
        let mut of_call = vec![(0, None); calls.len()];
        for (index, entry) in entries.iter().enumerate().skip(1) {
            match entry.is_end {
                false => of_call[entry.call].0 = index,
                true => of_call[entry.call].1 = Some(index),
            }
        }
        let length = entries.len();
        Self {
            entries,
            next: (1..=length).map(|index| index % length).collect(),
            previous: (0..length).map(|index| (index + length - 1) % length).collect(),
            of_call,
        }
    }

    /// The calls that may come next: those that start before the first end. Those that need not take effect come last.
    fn frame(&self, calls: &[Call], state: State, call: Option<usize>) -> Frame {
        let mut candidates = Vec::new();
        let mut index = self.next[0];
        while index != 0 && !self.entries[index].is_end {
            candidates.push(self.entries[index].call);
            index = self.next[index];
        }
        candidates.sort_by_key(|call| calls[*call].end.is_none());
        Frame {
            candidates,
            tried: 0,
            state,
            call,
        }
    }

    /// The call that ends first; `None` if none is left that must have a position.
    fn first_end(&self) -> Option<usize> {
        let mut index = self.next[0];
        while index != 0 {
            if self.entries[index].is_end {
                return Some(self.entries[index].call);
            }
            index = self.next[index];
        }
        None
    }

    fn remove(&mut self, call: usize) {
        let (start, end) = self.of_call[call];
        self.unlink(start);
        if let Some(end) = end {
            self.unlink(end);
        }
    }

    /// Undoes the newest removal that was not undone.
    fn restore(&mut self, call: usize) {
        let (start, end) = self.of_call[call];
        if let Some(end) = end {
            self.link(end);
        }
        self.link(start);
    }

    fn unlink(&mut self, index: usize) {
        let (previous, next) = (self.previous[index], self.next[index]);
        self.next[previous] = next;
        self.previous[next] = previous;
    }

    fn link(&mut self, index: usize) {
        let (previous, next) = (self.previous[index], self.next[index]);
        self.next[previous] = index;
        self.previous[next] = index;
    }
}
