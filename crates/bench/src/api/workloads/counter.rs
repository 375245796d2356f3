//! Many clients increment a counter in one object: read, add one, update, retry on conflict. No increment may be lost.

use std::{cell::Cell, rc::Rc};

use anyhow::{Context, Result, bail, ensure};

use super::exchange::Exchange;
use crate::{
    api::{
        Setting,
        connection::Connection,
        load::{self, Client, Load, Outcome},
        objects,
        request::{self, Template},
        server::{Server, ServerComponents, new_dir},
    },
    report::{Measurement, Report},
    statistics::Spread,
};

/// A client that always loses against all others needs about as many attempts as there are clients.
const MAX_ATTEMPTS: u32 = 100_000;

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let dir = new_dir(setting)?;
    let server = Server::setpoint(setting, dir.path(), ServerComponents::ApiOnly).await?;
    let increments = setting.full_or_quick(2_000, 500);
    let conflicts = Rc::new(Cell::new(0));
    let mut rounds = Vec::new();
    for round in 0..setting.rounds as u64 {
        let path = create(&server, round).await?;
        let load = Load {
            clients: setting.clients,
            operations: increments,
            first: 0,
        };
        let counter = |_| Counter {
            path: path.clone(),
            conflicts: conflicts.clone(),
        };
        rounds.push(load::apply(&server, &load, counter).await?);
        let counted = read(&mut load::connect(&server.endpoint, 1).await?[0], &path)
            .await?
            .1;
        ensure!(
            counted == increments,
            "{increments} increments were acknowledged, the counter has {counted}"
        );
    }
    add(report, &rounds, conflicts.get());
    server.stop().await
}

async fn create(server: &Server, round: u64) -> Result<String> {
    let zero = Template::with_body(
        "POST",
        objects::CONFIG_MAPS,
        &body(&format!("counter-{round:08}"), None, 0),
    );
    let load = Load {
        clients: 1,
        operations: 1,
        first: 0,
    };
    load::apply(server, &load, |_| Exchange::new(zero.clone(), 201)).await?;
    Ok(format!("{}/counter-{round:08}", objects::CONFIG_MAPS))
}

fn add(report: &mut Report, rounds: &[Outcome], conflicts: u64) {
    let spread =
        |metric: fn(&Outcome) -> f64| Spread::of(rounds.iter().map(metric)).expect("a round was run");
    let increments: u64 = rounds.iter().map(|round| round.operations).sum();
    report.add(
        Measurement::spread("api", "counter_cpu", spread(Outcome::server_cpu_us), "us/op")
            .latency(&super::exchange::merged(rounds))
            .cpu(spread(Outcome::server_cpu_us).median)
            .generator_cpu(spread(Outcome::generator_cpu_us).median),
    );
    report.add(
        Measurement::spread("api", "counter_rate", spread(Outcome::rate), "op/s").operations(increments),
    );
    let per_increment = conflicts as f64 / increments as f64;
    report.add(Measurement::new("api", "counter_conflicts", per_increment, "per op").operations(increments));
}

#[derive(Debug)]
struct Counter {
    path: String,
    conflicts: Rc<Cell<u64>>,
}

impl Client for Counter {
    async fn operate(&mut self, connection: &mut Connection, _: u64) -> Result<()> {
        let name = self.path.rsplit('/').next().context("a path ends in a name")?;
        for _ in 0..MAX_ATTEMPTS {
            let (version, count) = read(connection, &self.path).await?;
            let body = body(name, Some(&version), count + 1);
            let response = connection
                .round_trip(&request::encode("PUT", &self.path, body.as_bytes()))
                .await?;
            match response.status {
                200 => return Ok(()),
                409 => self.conflicts.set(self.conflicts.get() + 1),
                other => bail!("an update of {} returned {other}", self.path),
            }
        }
        bail!("{MAX_ATTEMPTS} attempts at one increment failed")
    }
}

/// The counter's version and count.
async fn read(connection: &mut Connection, path: &str) -> Result<(String, u64)> {
    let response = connection.round_trip(&request::encode("GET", path, b"")).await?;
    ensure!(
        response.status == 200,
        "a get of {path} returned {}",
        response.status
    );
    let version = request::find_text(response.body, "resourceVersion")
        .context("no resourceVersion")?
        .to_owned();
    let count = request::find_text(response.body, "count")
        .context("no count")?
        .parse()?;
    Ok((version, count))
}

fn body(name: &str, version: Option<&str>, count: u64) -> String {
    let version = version
        .map(|version| format!(r#","resourceVersion":"{version}""#))
        .unwrap_or_default();
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"{version}}},"data":{{"count":"{count}"}}}}"#
    )
}
