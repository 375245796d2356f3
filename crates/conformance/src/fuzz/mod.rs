//! Requests that nobody would write: broken documents, odd paths, wrong media types, bodies that come slowly, in pieces or
//! never whole.
//!
//! Each request follows from the seed and its number alone, so that one that finds something can be sent again by itself.
//! `shot` makes a request, `body` spoils documents, `verdict` says what must never happen. Start reading at [`run`].

mod body;
mod memory;
mod shot;
mod target;
mod verdict;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::corpus::{self, Entry};
use crate::server::Server;
use crate::wire::{Answer, Caller, Client, Connection, Endpoint, Request};
use shot::{Manner, Shot};

pub use memory::Memory;
pub use target::Target;
pub use verdict::Finding;

/// The namespace everything happens in.
const NAMESPACE: &str = "fuzz";

/// How much, and from where.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    /// The number of the first request.
    pub first: u64,
    pub requests: u64,
    pub at_once: usize,
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Report {
    pub findings: Vec<Finding>,
    /// How many answers had which status; 0 stands for none.
    pub statuses: std::collections::BTreeMap<u16, u64>,
}

/// What shots are made of.
#[derive(Debug)]
struct Stock {
    targets: Vec<Target>,
    entries: Vec<Entry>,
}

/// Sends every request of the plan and judges every answer.
pub fn run(endpoint: &Endpoint, plan: Plan) -> Result<Report> {
    let mut client = Client::new(endpoint.clone());
    prepare(&mut client)?;
    let stock = Stock {
        targets: target::discover(&mut client)?,
        entries: corpus::entries(NAMESPACE),
    };
    let next = AtomicU64::new(plan.first);
    let parts = std::thread::scope(|scope| {
        let shooters: Vec<_> = (0..plan.at_once)
            .map(|_| scope.spawn(|| shoot(endpoint, &stock, plan, &next)))
            .collect();
        let joined = shooters
            .into_iter()
            .map(|shooter| shooter.join().expect("a shooter returns"));
        joined.collect::<Vec<Report>>()
    });
    Ok(parts.into_iter().fold(Report::default(), Report::with))
}

/// Signs of trouble in what a server wrote about itself.
pub fn panics(server: &Server) -> Vec<String> {
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("panicked"));
    lines.map(str::to_owned).collect()
}

/// One request, in words, for a person who looks at a finding.
pub fn describe(endpoint: &Endpoint, plan: Plan) -> Result<String> {
    let stock = Stock {
        targets: target::discover(&mut Client::new(endpoint.clone()))?,
        entries: corpus::entries(NAMESPACE),
    };
    Ok(format!("{:?}", shot(&stock, plan.seed, plan.first)))
}

fn prepare(client: &mut Client) -> Result<()> {
    for (path, kind, name) in [
        ("/api/v1/namespaces".to_owned(), "Namespace", NAMESPACE),
        (
            format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"),
            "ServiceAccount",
            "default",
        ),
    ] {
        let object = serde_json::json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        client.ask(&Request::new("POST", &path).body("application/json", object.to_string()))?;
    }
    Ok(())
}

fn shot(stock: &Stock, seed: u64, number: u64) -> Shot {
    // Neighbouring seeds must not give neighbouring requests.
    let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number));
    shot::make(stock, &mut rng)
}

/// Takes the next number until none is left.
fn shoot(endpoint: &Endpoint, stock: &Stock, plan: Plan, next: &AtomicU64) -> Report {
    let mut report = Report::default();
    let mut kept = None;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= plan.first + plan.requests {
            return report;
        }
        let shot = shot(stock, plan.seed, number);
        let result = send(endpoint, &shot, &mut kept);
        *report
            .statuses
            .entry(result.as_ref().map_or(0, |answer| answer.status))
            .or_default() += 1;
        report.findings.extend(verdict::judge(number, &shot, &result));
    }
}

/// Sends a shot. A connection is kept only after an answer that leaves it in order.
fn send(endpoint: &Endpoint, shot: &Shot, kept: &mut Option<Connection>) -> io::Result<Answer> {
    let (mut connection, is_fresh) = match kept.take() {
        Some(connection) => (connection, false),
        None => (endpoint.connect(&Caller::Owner)?, true),
    };
    let result = shot::fire(&mut connection, shot);
    match &result {
        Ok(answer) if !answer.closes && shot.leaves_order() => *kept = Some(connection),
        Ok(_) => {}
        // The server may have closed a connection between two requests, or while a body that it refused was still coming,
        // which can cost the answer on its way; only silence twice is silence.
        Err(_) if !is_fresh || matches!(shot.manner, Manner::Pieces(_) | Manner::Chunked) => {
            let mut connection = endpoint.connect(&Caller::Owner)?;
            return shot::fire(&mut connection, shot);
        }
        Err(_) => {}
    }
    result
}

// === impl Report ===

impl Report {
    fn with(mut self, other: Self) -> Self {
        self.findings.extend(other.findings);
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_follows_from_its_seed_and_number() {
        let stock = Stock {
            targets: vec![Target::planted()],
            entries: corpus::entries(NAMESPACE),
        };
        let text = |seed, number| format!("{:?}", shot(&stock, seed, number));
        for number in 0..200 {
            assert_eq!(text(7, number), text(7, number));
        }
        assert_ne!(text(7, 1), text(8, 1));
    }
}
