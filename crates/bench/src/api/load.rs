//! Closed-loop load: each client sends a request, waits for the response and sends the next.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tokio::task::{JoinSet, LocalSet};

use super::{connection::Connection, endpoint::Endpoint, server::Server};
use crate::{processes::own_cpu_time, statistics::Latencies};

/// What one client does, operation by operation.
pub(crate) trait Client: 'static {
    /// Does the operation of this number on a connection of its own.
    fn operate(&mut self, connection: &mut Connection, number: u64) -> impl Future<Output = Result<()>>;
}

/// How much load, and over how many connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) clients: usize,
    pub(crate) operations: u64,
    /// The number of the first operation; the following ones count up.
    pub(crate) first: u64,
}

/// What one slice of load came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) operations: u64,
    pub(crate) elapsed: Duration,
    /// Of the server's process.
    pub(crate) server_cpu: Duration,
    /// Of this process.
    pub(crate) generator_cpu: Duration,
    pub(crate) latencies: Latencies,
}

/// Applies the load to a server. Each connection is opened and has sent one request before the clocks start.
pub(crate) async fn apply<C: Client>(
    server: &Server,
    load: &Load,
    make: impl Fn(usize) -> C,
) -> Result<Outcome> {
    let connections = connect(&server.endpoint, load.clients).await?;
    let taken = Rc::new(Cell::new(0));
    let latencies = Rc::new(RefCell::new(Latencies::new()));
    let (server_cpu, generator_cpu, start) = (server.cpu_time()?, own_cpu_time(), Instant::now());
    let local = LocalSet::new();
    let mut clients = JoinSet::new();
    for (index, connection) in connections.into_iter().enumerate() {
        let progress = Progress {
            taken: taken.clone(),
            latencies: latencies.clone(),
        };
        let run = run(*load, progress, connection, make(index));
        clients.spawn_local_on(run, &local);
    }
    local
        .run_until(async {
            while let Some(finished) = clients.join_next().await {
                finished.context("a client panicked")??;
            }
            anyhow::Ok(())
        })
        .await?;
    Ok(Outcome {
        operations: load.operations,
        elapsed: start.elapsed(),
        server_cpu: server.cpu_time()? - server_cpu,
        generator_cpu: own_cpu_time() - generator_cpu,
        latencies: latencies.replace(Latencies::new()),
    })
}

/// Opens connections one after the other: handshakes are not what is measured.
pub(crate) async fn connect(endpoint: &Endpoint, clients: usize) -> Result<Vec<Connection>> {
    let ready = super::request::encode("GET", "/readyz", b"");
    let mut connections = Vec::with_capacity(clients);
    for _ in 0..clients {
        let mut connection = Connection::open(endpoint).await?;
        let status = connection.round_trip(&ready).await?.status;
        ensure!(status == 200, "/readyz returned {status}");
        connections.push(connection);
    }
    Ok(connections)
}

/// The shared state of the clients of one load.
#[derive(Debug)]
struct Progress {
    taken: Rc<Cell<u64>>,
    latencies: Rc<RefCell<Latencies>>,
}

async fn run(
    load: Load,
    progress: Progress,
    mut connection: Connection,
    mut client: impl Client,
) -> Result<()> {
    let Progress { taken, latencies } = progress;
    while taken.get() < load.operations {
        let number = load.first + taken.replace(taken.get() + 1);
        let start = Instant::now();
        client.operate(&mut connection, number).await?;
        latencies.borrow_mut().record(start.elapsed());
    }
    Ok(())
}

impl Outcome {
    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn server_cpu_us(&self) -> f64 {
        self.server_cpu.as_secs_f64() * 1e6 / self.operations as f64
    }

    pub(crate) fn generator_cpu_us(&self) -> f64 {
        self.generator_cpu.as_secs_f64() * 1e6 / self.operations as f64
    }
}
