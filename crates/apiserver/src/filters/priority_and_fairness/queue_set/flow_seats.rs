//! [`FlowSeats`]: the seats that each flow of a level has in use.

/// The flow of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    pub hash: u64,
    /// Whether its FlowSchema distinguishes flows, by user or by namespace. A FlowSchema that does not has all its
    /// requests in one flow, which may take every seat.
    pub is_distinguished: bool,
}

/// Seats in use by flow. There are at most as many flows as seats, and mostly one or two.
#[derive(Debug, Default)]
pub(super) struct FlowSeats(Vec<(Flow, usize)>);

impl FlowSeats {
    pub(super) fn of(&self, flow: Flow) -> usize {
        let found = self.0.iter().find(|(own, _)| *own == flow);
        found.map_or(0, |(_, seats)| *seats)
    }

    pub(super) fn add(&mut self, flow: Flow, seats: usize) {
        match self.0.iter_mut().find(|(own, _)| *own == flow) {
            Some((_, in_use)) => *in_use += seats,
            None => self.0.push((flow, seats)),
        }
    }

    pub(super) fn remove(&mut self, flow: Flow, seats: usize) {
        let Some(at) = self.0.iter().position(|(own, _)| *own == flow) else {
            return;
        };
        self.0[at].1 -= seats;
        if self.0[at].1 == 0 {
            self.0.swap_remove(at);
        }
    }
}
