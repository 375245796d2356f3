//! Fan-out: five hundred watchers of one namespace, each notified of every created ConfigMap.
//!
//! Two rates. Saturated: creators never pause, so several events wait for each watcher and may share one write.
//! Slow: one create at a time, so each event is sent alone and its latency can be measured from the request to each
//! watcher.
//! The cost of an event to one watcher is the server's CPU time less what the same creates cost without watchers.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tokio::{
    task::{JoinSet, LocalSet},
    time::{sleep, timeout},
};

use super::exchange::Exchange;
use crate::{
    api::{
        Setting,
        connection::Connection,
        load::{self, Load},
        objects, request,
        request::Template,
        server::{Server, ServerComponents, new_dir},
    },
    processes::own_cpu_time,
    report::{Goal, Measurement, Report},
    statistics::{Latencies, Spread},
};

const WATCHERS: usize = 500;

/// Creators of the saturated form.
const CREATORS: usize = 16;

/// Pause between the creates of the slow form.
const SLOW_INTERVAL: Duration = Duration::from_millis(20);

/// Events that have not arrived by then are lost.
const DELIVERY_LIMIT: Duration = Duration::from_secs(120);

/// The shared state of the watchers: how many are listening, the time of each create, the latencies.
#[derive(Debug)]
struct WatchProgress {
    expected: usize,
    listening: Cell<usize>,
    /// The times at which the creates were sent, in order; empty when their order is not known.
    sent: RefCell<Vec<Instant>>,
    latencies: RefCell<Latencies>,
}

/// Creates through one server, and watchers of it or of another server that shares its store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fanout {
    pub(crate) watchers: usize,
    pub(crate) pace: Pace,
    pub(crate) load: Load,
}

/// The outcome of one slice.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) events: u64,
    /// Of the watched server.
    pub(crate) server_cpu: Duration,
    generator_cpu: Duration,
    pub(crate) elapsed: Duration,
    watcher_bytes: u64,
    latencies: Latencies,
}

/// The rate of creates.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    Saturated,
    Slow,
}

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let dir = new_dir(setting)?;
    let server = Server::setpoint(setting, dir.path(), ServerComponents::ApiOnly).await?;
    let paces = [
        (
            Pace::Saturated,
            "watch_event",
            setting.full_or_quick(3_000, 1_000),
            Some(Goal::AtMost(2.2)),
        ),
        (
            Pace::Slow,
            "watch_event_slow",
            setting.full_or_quick(200, 50),
            None,
        ),
    ];
    let mut first = 0;
    for (pace, name, events, goal) in paces {
        let mut rounds = Vec::new();
        for _ in 0..setting.rounds {
            let mut fanout = Fanout {
                watchers: 0,
                pace,
                load: Load {
                    clients: CREATORS,
                    operations: events,
                    first,
                },
            };
            let alone = fanout.run(&server, &server).await?;
            fanout.watchers = WATCHERS;
            fanout.load.first += events;
            let watched = fanout.run(&server, &server).await?;
            first += 2 * events;
            rounds.push((alone.server_cpu, watched));
        }
        add(report, name, &rounds, goal);
    }
    server.stop().await
}

fn add(report: &mut Report, name: &str, rounds: &[(Duration, Delivery)], goal: Option<Goal>) {
    let spread = |metric: &dyn Fn(&(Duration, Delivery)) -> f64| {
        Spread::of(rounds.iter().map(metric)).expect("at least one round is run")
    };
    let net = spread(&|(alone, watched)| watched.per_event(watched.server_cpu.saturating_sub(*alone)));
    let generator = spread(&|(_, watched)| watched.per_event(watched.generator_cpu));
    let mut latencies = Latencies::new();
    rounds
        .iter()
        .for_each(|(_, watched)| latencies.merge(&watched.latencies));
    let measurement = Measurement::spread("api", format!("{name}_cpu"), net, "us/event")
        .cpu(spread(&|(_, watched)| watched.per_event(watched.server_cpu)).median)
        .generator_cpu(generator.median);
    let events = rounds.iter().map(|(_, watched)| watched.events).sum();
    let measurement = match latencies.count() {
        0 => measurement.operations(events),
        _ => measurement.latency(&latencies),
    };
    report.add(match goal {
        Some(goal) => measurement.goal(goal),
        None => measurement,
    });
    let rate = spread(&|(_, watched)| watched.events as f64 / watched.elapsed.as_secs_f64());
    report.add(Measurement::spread("api", format!("{name}_rate"), rate, "event/s").operations(events));
    // Later rounds reuse memory that earlier watchers freed, so only the maximum is the memory of a watcher.
    let memory = spread(&|(_, watched)| watched.watcher_bytes as f64 / 1e3).high;
    report.add(
        Measurement::new("api", format!("{name}_memory"), memory, "kB/watcher").operations(WATCHERS as u64),
    );
}

impl Fanout {
    /// Creates the objects through `writer` and returns once all watchers of `watched` have their events. Without watchers
    /// a list shows that the watched server has them.
    pub(crate) async fn run(&self, watched: &Server, writer: &Server) -> Result<Delivery> {
        let progress = Rc::new(WatchProgress::new(self.load.operations as usize));
        let memory = watched.memory()?.resident;
        let connections = load::connect(&watched.endpoint, self.watchers).await?;
        let path = watch_path(watched).await?;
        let local = LocalSet::new();
        let mut watchers = JoinSet::new();
        for connection in connections {
            watchers.spawn_local_on(watch(connection, path.clone(), progress.clone()), &local);
        }
        local
            .run_until(timeout(DELIVERY_LIMIT, progress.all_listening(self.watchers)))
            .await
            .context("not all watches were answered")?;
        let watcher_bytes = watched.memory()?.resident.saturating_sub(memory) / self.watchers.max(1) as u64;
        let (server_cpu, generator_cpu, start) = (watched.cpu_time()?, own_cpu_time(), Instant::now());
        let delivered = async {
            self.create_objects(writer, &progress).await?;
            while let Some(finished) = watchers.join_next().await {
                finished.context("a watcher panicked")??;
            }
            watch_path(watched).await
        };
        local
            .run_until(timeout(DELIVERY_LIMIT, delivered))
            .await
            .context("not all events were delivered")??;
        Ok(Delivery {
            events: self.load.operations * self.watchers as u64,
            server_cpu: watched.cpu_time()? - server_cpu,
            generator_cpu: own_cpu_time() - generator_cpu,
            elapsed: start.elapsed(),
            watcher_bytes,
            latencies: progress.latencies.replace(Latencies::new()),
        })
    }

    /// Creates the ConfigMaps whose events are counted.
    async fn create_objects(&self, writer: &Server, progress: &WatchProgress) -> Result<()> {
        let mut template = Template::with_body("POST", objects::CONFIG_MAPS, &objects::config_map("watch"));
        match self.pace {
            Pace::Saturated => load::apply(writer, &self.load, |_| Exchange::new(template.clone(), 201))
                .await
                .map(|_| ()),
            Pace::Slow => {
                let mut connections = load::connect(&writer.endpoint, 1).await?;
                for number in self.load.first..self.load.first + self.load.operations {
                    progress.sent.borrow_mut().push(Instant::now());
                    let status = connections[0].round_trip(template.fill(number)).await?.status;
                    ensure!(status == 201, "a create returned {status}");
                    sleep(SLOW_INTERVAL).await;
                }
                Ok(())
            }
        }
    }
}

/// A watch of everything that happens after now.
async fn watch_path(server: &Server) -> Result<String> {
    let mut connections = load::connect(&server.endpoint, 1).await?;
    let list = request::encode("GET", &format!("{}?limit=1", objects::CONFIG_MAPS), b"");
    let response = connections[0].round_trip(&list).await?;
    let version =
        request::find_text(response.body, "resourceVersion").context("the list has no resourceVersion")?;
    Ok(format!(
        "{}?watch=1&resourceVersion={version}",
        objects::CONFIG_MAPS
    ))
}

/// Reads one watch until it has delivered every event. An event is a line.
async fn watch(mut connection: Connection, path: String, progress: Rc<WatchProgress>) -> Result<()> {
    let mut delivered_events = 0;
    let mut status = 0;
    let outcome = connection
        .follow(
            &request::encode("GET", &path, b""),
            |received| {
                status = received;
                progress.listening.set(progress.listening.get() + 1);
            },
            |data| {
                let events = data.iter().filter(|byte| **byte == b'\n').count();
                progress.deliver(delivered_events, delivered_events + events);
                delivered_events += events;
                delivered_events < progress.expected
            },
        )
        .await;
    ensure!(status == 200, "a watch returned {status}");
    outcome
}

impl WatchProgress {
    fn new(expected: usize) -> Self {
        Self {
            expected,
            listening: Cell::new(0),
            sent: RefCell::new(Vec::new()),
            latencies: RefCell::new(Latencies::new()),
        }
    }

    /// Records the latencies of the events `from..to` of one watcher, if the times of their creates are known.
    fn deliver(&self, from: usize, to: usize) {
        let sent = self.sent.borrow();
        if from < sent.len() {
            let mut latencies = self.latencies.borrow_mut();
            let caused = &sent[from..to.min(sent.len())];
            caused
                .iter()
                .for_each(|sent_at| latencies.record(sent_at.elapsed()));
        }
    }

    async fn all_listening(&self, watchers: usize) {
        while self.listening.get() < watchers {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Delivery {
    fn per_event(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.events as f64
    }
}
