//! The order in which requests execute, on a clock of milliseconds.

use super::*;

/// A level and the names of its requests.
struct Fixture {
    set: QueueSet<&'static str>,
    now: Timestamp,
    /// What was dispatched since the last look.
    dispatched: Vec<&'static str>,
}

const ONE: WorkEstimate = WorkEstimate::seats(1);

fn queues(queues: usize, queue_length_limit: usize) -> LimitResponse {
    LimitResponse::Queue(QueuingConfig {
        queues,
        queue_length_limit,
        dealer: Dealer::try_new(queues, 1).unwrap(),
    })
}

impl Fixture {
    fn new(response: LimitResponse, limit: usize) -> Self {
        let now = Timestamp::UNIX_EPOCH;
        Self {
            set: QueueSet::new(response, limit, now),
            now,
            dispatched: Vec::new(),
        }
    }

    fn wait(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
        self.set.sync(self.now);
        self.collect();
    }

    fn collect(&mut self) {
        self.set
            .visit_dispatched(|request| self.dispatched.push(request.attached));
    }

    /// Starts a request in the queue of this number; each queue is the whole hand of a flow.
    fn start_wide(
        &mut self,
        queue: u64,
        work: WorkEstimate,
        name: &'static str,
    ) -> Result<RequestId, RejectReason> {
        let flow = Flow {
            hash: queue,
            is_distinguished: true,
        };
        self.start_in_flow(flow, work, name)
    }

    fn start_in_flow(
        &mut self,
        flow: Flow,
        work: WorkEstimate,
        name: &'static str,
    ) -> Result<RequestId, RejectReason> {
        let id = self.set.start(self.now, flow, work, name);
        self.collect();
        id
    }

    fn start(&mut self, queue: u64, name: &'static str) -> RequestId {
        self.start_wide(queue, ONE, name).unwrap()
    }

    fn end(&mut self, id: RequestId) {
        self.set.end(self.now, id);
        self.collect();
    }

    #[track_caller]
    fn check(&mut self, dispatched: &[&str]) {
        assert_eq!(std::mem::take(&mut self.dispatched), dispatched);
    }

    /// Ends each dispatched request after this many milliseconds, until none is left; returns the order.
    fn drain(&mut self, ids: &[(&'static str, RequestId, u64)]) -> Vec<&'static str> {
        let mut order = Vec::new();
        while !self.dispatched.is_empty() {
            for name in std::mem::take(&mut self.dispatched) {
                order.push(name);
                let (_, id, milliseconds) = ids.iter().find(|(own, ..)| *own == name).unwrap();
                self.wait(*milliseconds);
                self.end(*id);
            }
        }
        order
    }
}

#[test]
fn a_flow_with_many_requests_delays_its_own() {
    let mut level = Fixture::new(queues(4, 50), 1);
    let elephant = ["e1", "e2", "e3", "e4"].map(|name| (name, level.start(0, name), 3));
    let mouse = ["m1", "m2"].map(|name| (name, level.start(1, name), 3));
    let order = level.drain(&[elephant.as_slice(), &mouse].concat());
    assert_eq!(order, ["e1", "m1", "e2", "m2", "e3", "e4"]);
}

#[test]
fn a_flow_with_slow_requests_gets_fewer_of_them() {
    let mut level = Fixture::new(queues(4, 50), 1);
    let slow = ["s1", "s2", "s3"].map(|name| (name, level.start(0, name), 30));
    let quick = ["q1", "q2", "q3", "q4", "q5"].map(|name| (name, level.start(1, name), 3));
    let order = level.drain(&[slow.as_slice(), &quick].concat());
    assert_eq!(order, ["s1", "q1", "q2", "q3", "q4", "q5", "s2", "s3"]);
}

#[test]
fn a_wide_request_counts_for_several() {
    let mut level = Fixture::new(queues(4, 50), 4);
    let first = level.start_wide(0, WorkEstimate::seats(4), "wide").unwrap();
    let second = level.start_wide(0, WorkEstimate::seats(4), "wide2").unwrap();
    let narrow = ["n1", "n2", "n3"].map(|name| (name, level.start(1, name), 3));
    level.check(&["wide"]);
    level.wait(3);
    level.end(first);
    // Three narrow ones fit beside each other, and all of them finish before the second wide one would.
    level.check(&["n1", "n2", "n3"]);
    for (_, id, _) in narrow {
        level.end(id);
    }
    level.check(&["wide2"]);
    level.end(second);
    assert!(level.set.is_idle());
}

#[test]
fn a_request_that_does_not_fit_is_not_passed_by_narrower_ones() {
    let mut level = Fixture::new(queues(4, 50), 3);
    let executing = [level.start(0, "a"), level.start(0, "b")];
    level.start_wide(1, WorkEstimate::seats(3), "wide").unwrap();
    level.wait(20);
    level.start(2, "narrow");
    level.check(&["a", "b"]);
    let mut unaccommodated = Vec::new();
    level
        .set
        .visit_unaccommodated(|request| unaccommodated.push(request.attached));
    assert!(unaccommodated.contains(&"wide"), "{unaccommodated:?}");
    executing.into_iter().for_each(|id| level.end(id));
    level.check(&["wide"]);
}

#[test]
fn a_request_wider_than_the_limit_executes_alone() {
    let mut level = Fixture::new(queues(4, 50), 2);
    let first = level.start(0, "a");
    level.start_wide(1, WorkEstimate::seats(9), "wide").unwrap();
    level.check(&["a"]);
    level.end(first);
    level.check(&["wide"]);
}

#[test]
fn a_full_queue_rejects_if_no_seat_is_free() {
    let mut level = Fixture::new(queues(4, 2), 1);
    let first = level.start(0, "a");
    level.start(0, "b");
    let last = level.start(0, "c");
    assert_eq!(level.start_wide(0, ONE, "d"), Err(RejectReason::QueueFull));
    level.start(1, "e");
    level.end(last);
    level.start(0, "f");
    level.check(&["a"]);
    level.end(first);
    assert_eq!(level.set.totals().cancelled, 1);
    assert_eq!(level.set.totals().rejected, 2);
}

#[test]
fn a_level_without_queues_rejects_over_its_limit() {
    let mut level = Fixture::new(LimitResponse::Reject, 2);
    let first = level.start(0, "a");
    level.start(0, "b");
    assert_eq!(level.start_wide(0, ONE, "c"), Err(RejectReason::ConcurrencyLimit));
    level.end(first);
    level.start(0, "d");
}

#[test]
fn an_exempt_level_has_no_limit() {
    let mut level = Fixture::new(LimitResponse::Exempt, 0);
    level.start(0, "a");
    level.start(0, "b");
    level.check(&["a", "b"]);
}

#[test]
fn final_seats_are_occupied_after_the_response() {
    let mut level = Fixture::new(queues(4, 50), 2);
    let work = WorkEstimate {
        initial_seats: 1,
        final_seats: 2,
        additional_latency: Duration::from_millis(5),
    };
    let first = level.start_wide(0, work, "write").unwrap();
    level.end(first);
    level.start(1, "next");
    level.wait(4);
    level.check(&["write"]);
    level.wait(1);
    level.check(&["next"]);
    assert_eq!(level.set.totals().seats_in_use, 1);
}

#[test]
fn final_seats_over_the_limit_become_a_longer_time() {
    let mut level = Fixture::new(queues(4, 50), 2);
    let work = WorkEstimate {
        initial_seats: 1,
        final_seats: 10,
        additional_latency: Duration::from_millis(5),
    };
    let first = level.start_wide(0, work, "write").unwrap();
    level.end(first);
    assert_eq!(
        level.set.next_timer(),
        Some(level.now + Duration::from_millis(25))
    );
}

#[test]
fn waiting_requests_survive_a_change_of_the_queues() {
    let mut level = Fixture::new(queues(8, 50), 1);
    let first = level.start(7, "a");
    let second = level.start(7, "b");
    level.start(6, "c");
    level.set.configure(level.now, queues(2, 50), 1);
    level.start(1, "d");
    level.check(&["a"]);
    assert_eq!(level.set.queues().len(), 8);
    level.end(first);
    level.check(&["d"]);
    level.set.configure(level.now, LimitResponse::Reject, 3);
    level.collect();
    level.check(&["c", "b"]);
    level.end(second);
    assert_eq!(level.set.queues().len(), 7);
}

#[test]
fn a_higher_limit_dispatches_at_once() {
    let mut level = Fixture::new(queues(4, 50), 1);
    level.start(0, "a");
    level.start(0, "b");
    level.set.configure(level.now, queues(4, 50), 2);
    level.collect();
    level.check(&["a", "b"]);
}

#[test]
fn a_request_may_end_at_a_time() {
    let mut level = Fixture::new(queues(4, 50), 1);
    let first = level.start(0, "a");
    level.start(0, "b");
    level.set.end_at(level.now + Duration::from_millis(10), first);
    level.wait(9);
    level.check(&["a"]);
    level.wait(1);
    level.check(&["b"]);
    // Its own end comes later, and the slot has another request by then.
    level.end(first);
    assert_eq!(level.set.totals().executing, 1);
}

#[test]
fn an_idle_flow_does_not_save_up_its_share() {
    let mut level = Fixture::new(queues(4, 50), 1);
    let busy = ["b1", "b2", "b3", "b4"].map(|name| (name, level.start(0, name), 3));
    level.wait(1000);
    let late = ["l1", "l2", "l3"].map(|name| (name, level.start(1, name), 3));
    let order = level.drain(&[busy.as_slice(), &late].concat());
    assert_eq!(order, ["b1", "l1", "b2", "l2", "b3", "l3", "b4"]);
}

#[test]
fn a_flow_leaves_seats_to_others() {
    let mut level = Fixture::new(queues(4, 50), 10);
    for _ in 0..20 {
        level.start(0, "alice");
    }
    level.check(&["alice"; 8]);
    level.start(1, "bob");
    level.check(&["bob"]);
}

#[test]
fn a_flow_of_wide_requests_leaves_seats_to_others() {
    let mut level = Fixture::new(queues(4, 50), 49);
    for _ in 0..8 {
        level.start_wide(0, WorkEstimate::seats(7), "list").unwrap();
    }
    level.check(&["list"; 5]);
    level.start(1, "get");
    level
        .start_wide(2, WorkEstimate::seats(7), "list of another")
        .unwrap();
    level.check(&["get", "list of another"]);
}

#[test]
fn several_flows_share_what_the_others_do_not_use() {
    let mut level = Fixture::new(queues(4, 50), 50);
    for flow in 0..3 {
        for _ in 0..50 {
            level.start(flow, ["a", "b", "c"][usize::try_from(flow).unwrap()]);
        }
    }
    let count = |name: &str, all: &[&str]| all.iter().filter(|own| **own == name).count();
    let dispatched = std::mem::take(&mut level.dispatched);
    assert_eq!(["a", "b", "c"].map(|name| count(name, &dispatched)), [40, 8, 2]);
}

#[test]
fn a_flow_over_its_share_is_passed_in_its_queue() {
    let mut level = Fixture::new(queues(1, 50), 10);
    let alice = [(); 9].map(|()| level.start(0, "alice"));
    level.check(&["alice"; 8]);
    // The hash of another flow, whose queue is the same.
    level.start(1, "bob");
    level.check(&["bob"]);
    level.end(alice[0]);
    level.check(&["alice"]);
}

#[test]
fn a_full_queue_rejects_a_flow_over_its_share() {
    let mut level = Fixture::new(queues(1, 2), 10);
    for _ in 0..10 {
        level.start(0, "alice");
    }
    assert_eq!(level.start_wide(0, ONE, "alice"), Err(RejectReason::QueueFull));
    level.start(1, "bob");
    assert!(level.dispatched.ends_with(&["bob"]), "{:?}", level.dispatched);
}

#[test]
fn a_flow_may_execute_one_request_of_any_width() {
    let mut level = Fixture::new(queues(4, 50), 10);
    let wide = level.start_wide(0, WorkEstimate::seats(10), "wide").unwrap();
    level.check(&["wide"]);
    level.end(wide);
    level.start(0, "next");
    level.start_wide(0, WorkEstimate::seats(8), "wide").unwrap();
    level.check(&["next"]);
}

#[test]
fn a_flow_that_is_not_distinguished_may_take_all_seats() {
    let mut level = Fixture::new(queues(4, 50), 10);
    let flow = Flow {
        hash: 0,
        is_distinguished: false,
    };
    for _ in 0..20 {
        level.start_in_flow(flow, ONE, "a").unwrap();
    }
    level.check(&["a"; 10]);
}

#[test]
fn seats_of_a_flow_are_returned() {
    let mut level = Fixture::new(queues(4, 50), 10);
    for _ in 0..3 {
        let all = [(); 8].map(|()| level.start(0, "a"));
        level.check(&["a"; 8]);
        all.into_iter().for_each(|id| level.end(id));
    }
    assert!(level.set.is_idle());
}
