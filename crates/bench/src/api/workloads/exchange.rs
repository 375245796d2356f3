//! The client of most workloads: it sends a pre-encoded request and checks the status. And the report of its measurements.

use anyhow::{Result, ensure};

use crate::{
    api::{
        connection::Connection,
        load::{Client, Outcome},
        request::Template,
    },
    paired_rounds::PairedRounds,
    report::{Goal, Measurement, Report},
    statistics::Latencies,
};

/// Sends one template repeatedly.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    template: Template,
    status: u16,
    /// Numbers are taken modulo this, so that requests address existing objects.
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

    /// Requests address the first `objects` objects, out of order.
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
        let response = connection.round_trip(self.template.fill(number)).await?;
        ensure!(
            response.status == self.status,
            "status {} instead of {}: {}",
            response.status,
            self.status,
            String::from_utf8_lossy(&response.body[..response.body.len().min(400)])
        );
        Ok(())
    }
}

/// Adds the server's CPU per operation, paired with the null server, and the rate.
pub(crate) fn add(report: &mut Report, name: &str, rounds: &PairedRounds<Outcome>, goal: Option<Goal>) {
    let cpu = Outcome::server_cpu_us;
    let latencies = merged(&rounds.subject);
    let measurement = Measurement::spread("api", format!("{name}_cpu"), rounds.subject(cpu), "us/op")
        .paired(rounds.baseline(cpu), rounds.ratio(cpu))
        .latency(&latencies)
        .cpu(rounds.subject(cpu).median)
        .baseline_cpu(rounds.baseline(cpu).median)
        .generator_cpu(rounds.subject(Outcome::generator_cpu_us).median);
    report.add(match goal {
        Some(goal) => measurement.goal(goal),
        None => measurement,
    });
    report.add(
        Measurement::spread(
            "api",
            format!("{name}_rate"),
            rounds.subject(Outcome::rate),
            "op/s",
        )
        .paired(rounds.baseline(Outcome::rate), rounds.ratio(Outcome::rate))
        .operations(latencies.count()),
    );
}

pub(crate) fn merged(outcomes: &[Outcome]) -> Latencies {
    let mut all = Latencies::new();
    outcomes.iter().for_each(|outcome| all.merge(&outcome.latencies));
    all
}
