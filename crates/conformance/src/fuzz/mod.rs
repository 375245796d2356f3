//! Fuzzing: requests with malformed bodies, odd paths and wrong media types, and bodies that arrive slowly, in chunks or
//! truncated.
//!
//! Each request is determined by the seed and its number, so that one with a finding can be sent again by itself.
//! `request` builds a request, `body` mutates objects, `checker` finds responses that must never occur. Start reading at
//! [`run`].

mod body;
mod checker;
mod memory;
mod request;
mod target;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::corpus::{self, CustomKind, Entry};
use crate::server::Server;
use crate::time;
use crate::wire::{Caller, Client, Connection, Endpoint, Request, Response};
use request::{Delivery, FuzzRequest};

pub use checker::Finding;
pub use memory::Memory;
pub use target::Target;

/// The namespace of all requests.
const NAMESPACE: &str = "fuzz";

/// How often and at which interval the custom kind is polled.
const ESTABLISHED_POLLS: usize = 200;
const ESTABLISHED_POLL: Duration = Duration::from_millis(50);

/// The range of requests to send.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    /// The number of the first request.
    pub first: u64,
    pub requests: u64,
    pub concurrency: usize,
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Report {
    pub findings: Vec<Finding>,
    /// The number of responses by status code; 0 means no response.
    pub statuses: std::collections::BTreeMap<u16, u64>,
}

/// What fuzzed requests are built from.
#[derive(Debug)]
struct Inputs {
    targets: Vec<Target>,
    entries: Vec<Entry>,
}

/// Sends every request of the plan and checks every response.
pub fn run(endpoint: &Endpoint, plan: Plan) -> Result<Report> {
    let mut client = Client::new(endpoint.clone());
    prepare(&mut client)?;
    let inputs = Inputs::new(&mut client)?;
    let next = AtomicU64::new(plan.first);
    let reports = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.concurrency)
            .map(|_| scope.spawn(|| run_worker(endpoint, &inputs, plan, &next)))
            .collect();
        let joined = workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker does not panic"));
        joined.collect::<Vec<Report>>()
    });
    Ok(reports.into_iter().fold(Report::default(), Report::with))
}

/// The panics in a server's log.
pub fn panics(server: &Server) -> Vec<String> {
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("panicked"));
    lines.map(str::to_owned).collect()
}

/// A debug dump of the plan's first request, to examine a finding.
pub fn describe(endpoint: &Endpoint, plan: Plan) -> Result<String> {
    let mut client = Client::new(endpoint.clone());
    prepare(&mut client)?;
    let inputs = Inputs::new(&mut client)?;
    Ok(format!("{:?}", fuzz_request(&inputs, plan.seed, plan.first)))
}

/// Creates the namespace, its ServiceAccount and the custom kind, and waits until that is served.
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
        client.send(&Request::new("POST", &path).body("application/json", object.to_string()))?;
    }
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let definition = CustomKind::of_corpus().definition.to_string();
    client.send(&Request::new("POST", path).body("application/json", definition))?;
    let collection = Request::new("GET", &CustomKind::collection(NAMESPACE));
    for _ in 0..ESTABLISHED_POLLS {
        if client.send(&collection)?.status == 200 {
            return Ok(());
        }
        time::sleep(ESTABLISHED_POLL);
    }
    bail!("the custom kind is not served")
}

fn fuzz_request(inputs: &Inputs, seed: u64, number: u64) -> FuzzRequest {
    // Consecutive seeds must not give overlapping requests.
    let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number));
    request::build(inputs, &mut rng)
}

/// Sends the requests of the next numbers until none is left.
fn run_worker(endpoint: &Endpoint, inputs: &Inputs, plan: Plan, next: &AtomicU64) -> Report {
    let mut report = Report::default();
    let mut reusable = None;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= plan.first + plan.requests {
            return report;
        }
        let request = fuzz_request(inputs, plan.seed, number);
        let result = send(endpoint, &request, &mut reusable);
        *report
            .statuses
            .entry(result.as_ref().map_or(0, |response| response.status))
            .or_default() += 1;
        report
            .findings
            .extend(checker::check_response(number, &request, &result));
    }
}

/// Sends a request. The connection is reused only after a response with intact framing.
fn send(
    endpoint: &Endpoint,
    request: &FuzzRequest,
    reusable: &mut Option<Connection>,
) -> io::Result<Response> {
    let (mut connection, is_fresh) = match reusable.take() {
        Some(connection) => (connection, false),
        None => (endpoint.connect(&Caller::Owner)?, true),
    };
    let result = request::send(&mut connection, request);
    match &result {
        Ok(response) if !response.closes && request.is_well_framed() => *reusable = Some(connection),
        Ok(_) => {}
        // The server may have closed a reused connection, or closed it while a rejected body was still being sent, which
        // can lose the response; only a second failure counts.
        Err(_) if !is_fresh || matches!(request.delivery, Delivery::SlowWrites(_) | Delivery::Chunked) => {
            let mut connection = endpoint.connect(&Caller::Owner)?;
            return request::send(&mut connection, request);
        }
        Err(_) => {}
    }
    result
}

// === impl Inputs ===

impl Inputs {
    fn new(client: &mut Client) -> Result<Self> {
        let mut entries = corpus::entries(NAMESPACE);
        entries.push(CustomKind::of_corpus().entry(NAMESPACE));
        Ok(Self {
            targets: target::discover(client)?,
            entries,
        })
    }
}

// === impl Report ===

impl Report {
    /// The sum of two reports.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
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
        let inputs = Inputs {
            targets: vec![Target::config_maps()],
            entries: corpus::entries(NAMESPACE),
        };
        let text = |seed, number| format!("{:?}", fuzz_request(&inputs, seed, number));
        for number in 0..200 {
            assert_eq!(text(7, number), text(7, number));
        }
        assert_ne!(text(7, 1), text(8, 1));
    }
}
