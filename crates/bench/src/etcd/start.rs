//! Start with many objects in etcd: until the server is ready and has responded to a list.

use std::time::Duration;

use anyhow::Result;

use super::{
    paired,
    rig::{Rig, Subject},
};
use crate::{
    api::{
        Setting,
        load::{self, Load},
        objects,
        request::Template,
        workloads::exchange::Exchange,
    },
    args::EtcdArgs,
    controllers::api_client::ApiClient,
    paired_rounds::PairedRounds,
    report::{Measurement, Report},
};

/// Starts of each server.
const STARTS: usize = 3;

/// Clients that create the objects.
const CREATORS: usize = 64;

/// A start of one server.
#[derive(Debug)]
struct Start {
    wall: Duration,
    cpu: Duration,
    resident: u64,
}

/// Creates the objects in an etcd of their own and starts the servers in turns, each alone.
pub(super) async fn measure(setting: &Setting, args: &EtcdArgs, report: &mut Report) -> Result<()> {
    let rig = Rig::start(setting, args).await?;
    let setpoint = rig.start_server(Subject::Setpoint).await?;
    let objects = setting.full_or_quick(100_000, 10_000);
    let create = Template::with_body("POST", objects::CONFIG_MAPS, &objects::config_map("stored"));
    let load = Load {
        clients: CREATORS,
        operations: objects,
        first: 0,
    };
    load::apply(&setpoint, &load, |_| Exchange::new(create.clone(), 201)).await?;
    setpoint.stop().await?;
    let rounds = paired::run(STARTS, async |subject, _| start(&rig, subject).await).await?;
    add(report, &rounds, objects);
    Ok(())
}

async fn start(rig: &Rig, subject: Subject) -> Result<Start> {
    let server = rig.start_server(subject).await?;
    let list = format!("{}?limit=1", objects::CONFIG_MAPS);
    let mut client = ApiClient::new(&server).await?;
    client.send_ok("GET", &list, "").await?;
    Ok(Start {
        wall: server.since_start(),
        cpu: server.cpu_time()?,
        resident: server.memory()?.resident,
    })
}

fn add(report: &mut Report, rounds: &PairedRounds<Start>, objects: u64) {
    let mut line = |name: &str, value: fn(&Start) -> f64, unit| {
        let name = format!("start_{objects}_{name}");
        let line = Measurement::spread("etcd", name, rounds.subject(value), unit)
            .paired(rounds.baseline(value), rounds.ratio(value));
        report.add(line.operations(STARTS as u64));
    };
    line("time", |start| start.wall.as_secs_f64() * 1e3, "ms");
    line("cpu", |start| start.cpu.as_secs_f64() * 1e3, "ms");
    line("resident", |start| start.resident as f64 / 1e6, "MB");
}
