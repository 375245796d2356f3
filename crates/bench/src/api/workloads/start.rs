//! Time from the start of the process to readiness, and the memory and CPU of an idle server.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use crate::{
    api::{
        Setting,
        server::{Server, ServerComponents, new_dir},
    },
    report::{Goal, Measurement, Report},
    statistics::{Latencies, Spread},
};

/// Long enough for the startup work to complete.
const SETTLE: Duration = Duration::from_secs(3);

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let starts = setting.full_or_quick(20, 5);
    let mut empty = Starts::default();
    let mut again = Starts::default();
    for _ in 0..starts {
        let dir = new_dir(setting)?;
        empty
            .add(Server::setpoint(setting, dir.path(), ServerComponents::All).await?)
            .await?;
        again
            .add(Server::setpoint(setting, dir.path(), ServerComponents::All).await?)
            .await?;
    }
    empty.report(report, "start_to_ready", Some(Goal::AtMost(80.0)));
    again.report(report, "restart_to_ready", None);
    measure_idle(setting, report).await
}

/// Times of several starts, in milliseconds.
#[derive(Debug, Default)]
struct Starts {
    wall: Vec<Duration>,
    cpu: Vec<Duration>,
}

impl Starts {
    async fn add(&mut self, server: Server) -> Result<()> {
        self.wall.push(server.ready_after);
        self.cpu.push(server.ready_cpu);
        server.stop().await
    }

    fn report(&self, report: &mut Report, name: &str, goal: Option<Goal>) {
        let mut latencies = Latencies::new();
        self.wall.iter().for_each(|wall| latencies.record(*wall));
        let measurement = Measurement::spread("api", name, millis(&self.wall), "ms")
            .latency(&latencies)
            .cpu(millis(&self.cpu).median * 1e3);
        report.add(match goal {
            Some(goal) => measurement.goal(goal),
            None => measurement,
        });
    }
}

fn millis(times: &[Duration]) -> Spread {
    Spread::of(times.iter().map(|time| time.as_secs_f64() * 1e3)).expect("at least one start is timed")
}

async fn measure_idle(setting: &Setting, report: &mut Report) -> Result<()> {
    let dir = new_dir(setting)?;
    let server = Server::setpoint(setting, dir.path(), ServerComponents::All).await?;
    sleep(SETTLE).await;
    let memory = server.memory()?;
    let window = Duration::from_secs(setting.full_or_quick(20, 3));
    let cpu = server.cpu_time()?;
    sleep(window).await;
    let busy = (server.cpu_time()? - cpu).as_secs_f64() / window.as_secs_f64();
    report.add(
        Measurement::new("api", "idle_resident", memory.resident as f64 / 1e6, "MB")
            .operations(1)
            .goal(Goal::AtMost(30.0)),
    );
    report.add(Measurement::new("api", "idle_anonymous", memory.anonymous as f64 / 1e6, "MB").operations(1));
    report.add(Measurement::new("api", "idle_cpu", busy * 100.0, "% core").operations(1));
    server.stop().await
}
