//! Who gets a seat when there are few.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use setpoint_api::SystemClock;

use super::*;

const LOW: usize = 8;
const DEFAULT: usize = 9;
const CATCH_ALL: usize = 10;

/// Requests on a server of few seats. A row is the requests as they come, and the order in which they are carried out
/// when one seat after the other is given up.
struct Hall {
    fairness: Arc<Fairness>,
    clock: Arc<SystemClock>,
}

type Asking = Pin<Box<dyn Future<Output = Result<Admitted, Rejected>>>>;

impl Hall {
    fn new(seats: usize) -> Self {
        Self {
            fairness: Fairness::new(seats),
            clock: Arc::new(SystemClock::new()),
        }
    }

    fn ask(&self, schema: usize, key: u64) -> Asking {
        let (fairness, clock) = (self.fairness.clone(), self.clock.clone());
        Box::pin(async move { fairness.admit(&Flow { schema, key }, &*clock).await })
    }

    /// Takes seats of a level until a request has to wait, and keeps them.
    fn fill(&self, schema: usize) -> Vec<Admitted> {
        let mut taken = Vec::new();
        while let Some(Ok(seat)) = poll(&mut self.ask(schema, 0)) {
            taken.push(seat);
        }
        taken
    }
}

fn poll(asking: &mut Asking) -> Option<Result<Admitted, Rejected>> {
    match asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

#[tokio::test]
async fn each_flow_has_its_turn() {
    let hall = Hall::new(10);
    let mut taken = hall.fill(DEFAULT);
    let mut waiting: Vec<(u64, Asking)> = [1, 1, 1, 2, 3].map(|key| (key, hall.ask(DEFAULT, key))).into();
    assert!(waiting.iter_mut().all(|(_, asking)| poll(asking).is_none()));
    let mut order = Vec::new();
    while !waiting.is_empty() {
        drop(taken.pop());
        let at = waiting.iter_mut().position(|(_, asking)| match poll(asking) {
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
    let hall = Hall::new(20);
    let taken = hall.fill(LOW);
    assert!(taken.len() >= 20, "{}", taken.len());
    assert!(poll(&mut hall.ask(DEFAULT, 1)).unwrap().is_ok());
}

#[tokio::test]
async fn a_level_without_a_queue_turns_away() {
    let hall = Hall::new(10);
    let _taken = hall.fill(LOW);
    let _own = hall.fill(CATCH_ALL);
    assert_eq!(
        poll(&mut hall.ask(CATCH_ALL, 1)).unwrap().unwrap_err(),
        Rejected::NoQueue
    );
}

#[tokio::test]
async fn a_flow_that_waits_with_too_many_is_turned_away() {
    let hall = Hall::new(10);
    let _taken = hall.fill(DEFAULT);
    let mut waiting: Vec<Asking> = (0..FLOW_WAITING).map(|_| hall.ask(DEFAULT, 1)).collect();
    assert!(waiting.iter_mut().all(|asking| poll(asking).is_none()));
    assert!(poll(&mut hall.ask(DEFAULT, 1)).unwrap().is_err());
    assert!(poll(&mut hall.ask(DEFAULT, 2)).is_none());
    waiting.pop();
    assert!(poll(&mut hall.ask(DEFAULT, 1)).is_none());
}

#[tokio::test]
async fn a_seat_for_a_request_that_is_gone_is_given_on() {
    let hall = Hall::new(10);
    let mut taken = hall.fill(DEFAULT);
    let (mut first, mut second) = (hall.ask(DEFAULT, 1), hall.ask(DEFAULT, 2));
    assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
    taken.pop();
    // The first was called and leaves before it looks.
    drop(first);
    assert!(poll(&mut second).unwrap().is_ok());
}

#[tokio::test]
async fn administrators_are_never_counted() {
    let hall = Hall::new(1);
    let _taken: Vec<Admitted> = (0..100)
        .map(|_| poll(&mut hall.ask(0, 0)).unwrap().unwrap())
        .collect();
}

#[tokio::test(start_paused = true)]
async fn patience_ends() {
    let hall = Hall::new(10);
    let _taken = hall.fill(DEFAULT);
    assert_eq!(hall.ask(DEFAULT, 1).await.unwrap_err(), Rejected::TimedOut);
    let mut text = Text::default();
    hall.fairness.write(&mut text);
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
