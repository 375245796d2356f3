//! Which requests get a seat when there are few.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use setpoint_api::SystemClock;

use super::*;

const LOW: usize = 8;
const DEFAULT: usize = 9;
const CATCH_ALL: usize = 10;

/// A server with few seats.
struct Fixture {
    fairness: Arc<PriorityAndFairness>,
    clock: Arc<SystemClock>,
}

type AdmitFuture = Pin<Box<dyn Future<Output = Result<ExecutingRequest, RejectReason>>>>;

impl Fixture {
    fn new(seats: usize) -> Self {
        Self {
            fairness: PriorityAndFairness::new(seats),
            clock: Arc::new(SystemClock::new()),
        }
    }

    fn admit(&self, schema: usize, key: u64) -> AdmitFuture {
        let (fairness, clock) = (self.fairness.clone(), self.clock.clone());
        Box::pin(async move { fairness.admit(&Flow { schema, key }, &*clock).await })
    }

    /// Takes seats of a level until a request has to wait, and keeps them.
    fn fill(&self, schema: usize) -> Vec<ExecutingRequest> {
        let mut taken = Vec::new();
        while let Some(Ok(seat)) = poll(&mut self.admit(schema, 0)) {
            taken.push(seat);
        }
        taken
    }
}

fn poll(admission: &mut AdmitFuture) -> Option<Result<ExecutingRequest, RejectReason>> {
    match admission.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

#[tokio::test]
async fn flows_take_turns() {
    let fixture = Fixture::new(10);
    let mut taken = fixture.fill(DEFAULT);
    let mut waiting: Vec<(u64, AdmitFuture)> = [1, 1, 1, 2, 3]
        .map(|key| (key, fixture.admit(DEFAULT, key)))
        .into();
    assert!(waiting.iter_mut().all(|(_, admission)| poll(admission).is_none()));
    let mut order = Vec::new();
    while !waiting.is_empty() {
        drop(taken.pop());
        let at = waiting
            .iter_mut()
            .position(|(_, admission)| match poll(admission) {
                Some(seat) => {
                    taken.insert(0, seat.unwrap());
                    true
                }
                None => false,
            });
        order.push(waiting.remove(at.unwrap()).0);
    }
    assert_eq!(order, [1, 2, 3, 1, 1]);
}

#[tokio::test]
async fn a_level_has_its_own_seats_when_all_others_are_taken() {
    let fixture = Fixture::new(20);
    let taken = fixture.fill(LOW);
    assert!(taken.len() >= 20, "{}", taken.len());
    assert!(poll(&mut fixture.admit(DEFAULT, 1)).unwrap().is_ok());
}

#[tokio::test]
async fn a_level_without_a_queue_rejects() {
    let fixture = Fixture::new(10);
    let _taken = fixture.fill(LOW);
    let _own = fixture.fill(CATCH_ALL);
    assert_eq!(
        poll(&mut fixture.admit(CATCH_ALL, 1)).unwrap().unwrap_err(),
        RejectReason::NoQueue
    );
}

#[tokio::test]
async fn a_flow_with_a_full_queue_is_rejected() {
    let fixture = Fixture::new(10);
    let _taken = fixture.fill(DEFAULT);
    let mut waiting: Vec<AdmitFuture> = (0..MAX_QUEUED_PER_FLOW)
        .map(|_| fixture.admit(DEFAULT, 1))
        .collect();
    assert!(waiting.iter_mut().all(|admission| poll(admission).is_none()));
    assert!(poll(&mut fixture.admit(DEFAULT, 1)).unwrap().is_err());
    assert!(poll(&mut fixture.admit(DEFAULT, 2)).is_none());
    waiting.pop();
    assert!(poll(&mut fixture.admit(DEFAULT, 1)).is_none());
}

#[tokio::test]
async fn a_seat_for_a_cancelled_request_is_passed_on() {
    let fixture = Fixture::new(10);
    let mut taken = fixture.fill(DEFAULT);
    let (mut first, mut second) = (fixture.admit(DEFAULT, 1), fixture.admit(DEFAULT, 2));
    assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
    taken.pop();
    // The first was sent a seat and is cancelled before it is polled.
    drop(first);
    assert!(poll(&mut second).unwrap().is_ok());
}

#[tokio::test]
async fn exempt_requests_take_no_seat() {
    let fixture = Fixture::new(1);
    let _taken: Vec<ExecutingRequest> = (0..100)
        .map(|_| poll(&mut fixture.admit(0, 0)).unwrap().unwrap())
        .collect();
}

#[tokio::test(start_paused = true)]
async fn a_request_queued_for_too_long_is_rejected() {
    let fixture = Fixture::new(10);
    let _taken = fixture.fill(DEFAULT);
    assert_eq!(
        fixture.admit(DEFAULT, 1).await.unwrap_err(),
        RejectReason::TimedOut
    );
    let mut text = TextEncoder::default();
    fixture.fairness.write(&mut text);
    let text = text.into_string();
    let labels = r#"flow_schema="global-default",priority_level="global-default""#;
    assert!(
        text.contains(&format!(
            "apiserver_flowcontrol_rejected_requests_total{{{labels},reason=\"time-out\"}} 1\n"
        )),
        "{text}"
    );
    assert!(
        text.contains(&format!(
            "apiserver_flowcontrol_current_inqueue_requests{{{labels}}} 0\n"
        )),
        "{text}"
    );
}
