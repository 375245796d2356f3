//! The client most workloads use: send a request encoded ahead, check the status. And how its figures are reported.

use anyhow::{Result, ensure};

use crate::{
    api::{
        connection::Connection,
        load::{Client, Outcome},
        request::Template,
    },
    report::{Goal, Measurement, Report},
    statistics::Latencies,
    turns::Turns,
};

/// Sends one template again and again.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    template: Template,
    status: u16,
    /// Numbers are taken modulo this, when requests are to fall on objects that exist.
    objects: Option<u64>,
}

impl Exchange {
    pub(crate) fn new(template: Template, status: u16) -> Self {
        Self {
            template,
            status,
            objects: None,
        }
    }

    /// Requests fall on the first `objects` objects, out of order.
    pub(crate) fn among(mut self, objects: u64) -> Self {
        self.objects = Some(objects);
        self
    }
}

impl Client for Exchange {
    async fn operate(&mut self, connection: &mut Connection, number: u64) -> Result<()> {
        // A large odd step visits objects out of order, so that no cache line is warm by accident.
        let number = self
            .objects
            .map_or(number, |objects| number.wrapping_mul(48_271) % objects);
        let answer = connection.answer(self.template.fill(number)).await?;
        ensure!(
            answer.status == self.status,
            "status {} instead of {}: {}",
            answer.status,
            self.status,
            String::from_utf8_lossy(&answer.body[..answer.body.len().min(400)])
        );
        Ok(())
    }
}

/// Adds the server's CPU per operation, in turns with the server that does nothing, and the rate beside it.
pub(crate) fn add(report: &mut Report, name: &str, turns: &Turns<Outcome>, goal: Option<Goal>) {
    let cpu = Outcome::server_cpu_us;
    let latencies = merged(&turns.subject);
    let measurement = Measurement::spread("api", format!("{name}_cpu"), turns.subject(cpu), "us/op")
        .in_turns(turns.baseline(cpu), turns.ratio(cpu))
        .latency(&latencies)
        .cpu(turns.subject(cpu).median)
        .baseline_cpu(turns.baseline(cpu).median)
        .generator_cpu(turns.subject(Outcome::generator_cpu_us).median);
    report.add(match goal {
        Some(goal) => measurement.goal(goal),
        None => measurement,
    });
    report.add(
        Measurement::spread(
            "api",
            format!("{name}_rate"),
            turns.subject(Outcome::rate),
            "op/s",
        )
        .in_turns(turns.baseline(Outcome::rate), turns.ratio(Outcome::rate))
        .operations(latencies.count()),
    );
}

pub(crate) fn merged(outcomes: &[Outcome]) -> Latencies {
    let mut all = Latencies::new();
    outcomes.iter().for_each(|outcome| all.merge(&outcome.latencies));
    all
}
