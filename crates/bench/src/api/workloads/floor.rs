//! The null server by itself: the cost of HTTPS, and of the load generator.
//!
//! No measurement of Setpoint can be lower than these. If the generator's CPU share is larger than the server's, the rate
//! is limited by the generator and only the CPU time is meaningful.

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
            operations: setting.full_or_quick(40_000, 10_000),
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
    let spread = |metric: fn(&Outcome) -> f64| Spread::of(rounds.iter().map(metric)).expect("a round is run");
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
