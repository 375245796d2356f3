//! Rounds of both servers, in alternating order, with the CPU time of etcd beside theirs.

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;

use super::{
    EIGHTH,
    rig::{Rig, Subject},
};
use crate::{
    api::{Setting, load::Outcome, server::Server},
    paired_rounds::PairedRounds,
    report::{Measurement, Report},
};

/// Both servers, running.
#[derive(Debug)]
pub(super) struct Pair<'a> {
    pub(super) rig: &'a Rig,
    pub(super) kube_apiserver: Server,
    pub(super) setpoint: Server,
    /// CPU time that each needs for one second without requests, in the order of [`Subject::BOTH`].
    idle: [f64; 2],
}

/// CPU time for one operation, in microseconds, of the server and of etcd.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    pub(super) server_us: f64,
    pub(super) etcd_us: f64,
    pub(super) operations: u64,
}

/// For how long servers are idle before the first measurement.
const SETTLE: Duration = Duration::from_secs(5);

impl<'a> Pair<'a> {
    /// Measures the idle servers, which costs seconds.
    pub(super) async fn new(
        setting: &Setting,
        rig: &'a Rig,
        (kube_apiserver, setpoint): (Server, Server),
        report: &mut Report,
    ) -> Result<Self> {
        let window = Duration::from_secs(setting.full_or_quick(20, 5));
        sleep(SETTLE).await;
        let before = [kube_apiserver.cpu_time()?, setpoint.cpu_time()?];
        sleep(window).await;
        let after = [kube_apiserver.cpu_time()?, setpoint.cpu_time()?];
        let idle = [0, 1].map(|one| (after[one] - before[one]).as_secs_f64() / window.as_secs_f64());
        let line = Measurement::new("etcd", "idle_cpu", idle[1] * 100.0, "% core").against(idle[0] * 100.0);
        report.add(line.operations(1));
        Ok(Self {
            rig,
            kube_apiserver,
            setpoint,
            idle,
        })
    }

    pub(super) fn server(&self, subject: Subject) -> &Server {
        match subject {
            Subject::KubeApiserver => &self.kube_apiserver,
            Subject::Setpoint => &self.setpoint,
        }
    }

    /// The server that a watched server shares its etcd with.
    pub(super) fn other(&self, subject: Subject) -> &Server {
        match subject {
            Subject::KubeApiserver => &self.setpoint,
            Subject::Setpoint => &self.kube_apiserver,
        }
    }

    /// The CPU time of a server less what it needs without requests, in microseconds.
    pub(super) fn busy_us(&self, subject: Subject, used: Duration, elapsed: Duration) -> f64 {
        let idle = self.idle[usize::from(subject == Subject::Setpoint)];
        (used.as_secs_f64() - idle * elapsed.as_secs_f64()).max(0.0) * 1e6
    }

    /// The cost of one operation of a load.
    pub(super) fn cost(&self, subject: Subject, outcome: &Outcome, etcd: Duration) -> Cost {
        let operations = outcome.operations as f64;
        Cost {
            server_us: self.busy_us(subject, outcome.server_cpu, outcome.elapsed) / operations,
            etcd_us: etcd.as_secs_f64() * 1e6 / operations,
            operations: outcome.operations,
        }
    }
}

/// Runs `measure` for both servers once without counting and then `rounds` times; each round has another order. The function
/// gets the server and the number of the round.
pub(super) async fn run<T>(
    rounds: usize,
    mut measure: impl AsyncFnMut(Subject, usize) -> Result<T>,
) -> Result<PairedRounds<T>> {
    let mut pairs = PairedRounds::default();
    for round in 0..=rounds {
        let mut order = Subject::BOTH;
        if round % 2 == 1 {
            order.reverse();
        }
        for subject in order {
            let measured = measure(subject, round).await?;
            match subject {
                _ if round == 0 => {}
                Subject::KubeApiserver => pairs.baseline.push(measured),
                Subject::Setpoint => pairs.subject.push(measured),
            }
        }
    }
    Ok(pairs)
}

/// Adds the CPU time of the servers for one operation, which has the goal, and that of etcd.
pub(super) fn add(report: &mut Report, name: &str, rounds: &PairedRounds<Cost>) {
    let operations = rounds.subject.iter().map(|cost| cost.operations).sum();
    let line = |what: &str, cpu: fn(&Cost) -> f64| {
        Measurement::spread("etcd", format!("{name}_{what}"), rounds.subject(cpu), "us/op")
            .paired(rounds.baseline(cpu), rounds.ratio(cpu))
            .operations(operations)
    };
    report.add(line("cpu", |cost| cost.server_us).goal(EIGHTH));
    report.add(line("etcd_cpu", |cost| cost.etcd_us));
}
