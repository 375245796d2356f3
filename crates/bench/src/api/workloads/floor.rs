//! The server that does nothing, by itself: what HTTPS costs here, and what the generator costs.
//!
//! A figure of Setpoint can be no lower than these; and where the generator's share is larger than the server's, a
//! rate is the generator's and only the CPU time speaks.

use anyhow::Result;

use super::exchange::{Exchange, merged};
use crate::{
    api::{
        Setting,
        load::{self, Load, Outcome},
        objects,
        request::Template,
        server::{Server, new_dir},
    },
    report::{Measurement, Report},
    statistics::Spread,
};

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let dir = new_dir(setting)?;
    let null = Server::null(dir.path()).await?;
    let get = Template::without_body("GET", &format!("{}/floor-########", objects::CONFIG_MAPS));
    let post = Template::with_body("POST", objects::CONFIG_MAPS, &objects::config_map("floor"));
    for (name, template, status) in [("floor_get", get, 200), ("floor_post_1kb", post, 201)] {
        let load = Load {
            clients: setting.clients,
            operations: setting.pick(40_000, 10_000),
            first: 0,
        };
        let mut rounds = Vec::new();
        for _ in 0..setting.rounds {
            rounds.push(load::apply(&null, &load, |_| Exchange::new(template.clone(), status)).await?);
        }
        add(report, name, &rounds);
    }
    Ok(())
}

fn add(report: &mut Report, name: &str, rounds: &[Outcome]) {
    let spread = |figure: fn(&Outcome) -> f64| Spread::of(rounds.iter().map(figure)).expect("a round is run");
    report.add(
        Measurement::spread(
            "api",
            format!("{name}_cpu"),
            spread(Outcome::server_cpu_us),
            "us/op",
        )
        .latency(&merged(rounds))
        .cpu(spread(Outcome::server_cpu_us).median)
        .generator_cpu(spread(Outcome::generator_cpu_us).median),
    );
    let operations = rounds.iter().map(|round| round.operations).sum();
    report.add(
        Measurement::spread("api", format!("{name}_rate"), spread(Outcome::rate), "op/s")
            .operations(operations),
    );
}
