//! Many definitions that nobody uses: what each costs in memory, and what they cost a start.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    api::{
        Setting,
        connection::Connection,
        load, objects, request,
        server::{Parts, Server, new_dir},
    },
    report::{Goal, Measurement, Report},
};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// As large as the largest that are in common use.
const SCHEMA_BYTES: usize = 200 << 10;

/// Long enough for the work of starting to be over.
const SETTLE: Duration = Duration::from_secs(3);

/// Long enough for the store to have forgotten what it may forget.
const FORGET: Duration = Duration::from_secs(15);

/// How often, and how far apart, a definition is asked whether it is established.
const ESTABLISHED_LOOKS: usize = 600;
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// What a server takes once it is idle.
#[derive(Debug)]
struct Idle {
    resident: u64,
    ready: Duration,
    ready_cpu: Duration,
}

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let count = setting.pick(1_000, 100);
    let (empty, filled) = (new_dir(setting)?, new_dir(setting)?);
    let server = Server::setpoint(setting, filled.path(), Parts::All).await?;
    let cpu = server.cpu_time()?;
    create(&server, count).await?;
    let cpu = (server.cpu_time()? - cpu).as_secs_f64() * 1e6 / count as f64;
    server.stop().await?;
    // Both have started before, so that both start again.
    Server::setpoint(setting, empty.path(), Parts::All)
        .await?
        .stop()
        .await?;
    let without = idle(Server::setpoint(setting, empty.path(), Parts::All).await?, SETTLE).await?;
    let with = idle(
        Server::setpoint(setting, filled.path(), Parts::All).await?,
        SETTLE,
    )
    .await?;
    let long_idle = idle(
        Server::setpoint(setting, filled.path(), Parts::Forgetful).await?,
        FORGET,
    )
    .await?;
    let each = |idle: &Idle| idle.resident.saturating_sub(without.resident) as f64 / 1e3 / count as f64;
    let later = |with: Duration, without: Duration| (with.as_secs_f64() - without.as_secs_f64()) * 1e3;
    report.add(Measurement::new("api", "crd_create_cpu", cpu, "us/op").operations(count));
    report.add(
        Measurement::new("api", "crd_resident_each", each(&long_idle), "kB")
            .operations(count)
            .goal(Goal::AtMost(100.0)),
    );
    report
        .add(Measurement::new("api", "crd_resident_each_with_history", each(&with), "kB").operations(count));
    let start = later(with.ready, without.ready);
    report.add(Measurement::new("api", "crds_start_later", start, "ms").operations(count));
    let start = later(with.ready_cpu, without.ready_cpu);
    report.add(Measurement::new("api", "crds_start_cpu", start, "ms").operations(count));
    Ok(())
}

async fn create(server: &Server, count: u64) -> Result<()> {
    let mut connections = load::connect(&server.endpoint, 1).await?;
    for connection in &mut connections {
        for number in 0..count {
            let body = objects::definition(number, SCHEMA_BYTES);
            let request = request::encode("POST", DEFINITIONS, body.as_bytes());
            let answer = connection.answer(&request).await?;
            ensure!(answer.status == 201, "a definition answers {}", answer.status);
        }
        for number in 0..count {
            until_established(connection, number).await?;
        }
    }
    sleep(SETTLE).await;
    Ok(())
}

/// Until then a definition is at work, not idle.
async fn until_established(connection: &mut Connection, number: u64) -> Result<()> {
    let path = format!("{DEFINITIONS}/{}", objects::definition_name(number));
    let request = request::encode("GET", &path, &[]);
    for _ in 0..ESTABLISHED_LOOKS {
        let answer = connection.answer(&request).await?;
        ensure!(answer.status == 200, "{path} answers {}", answer.status);
        let definition: Value = serde_json::from_slice(answer.body)?;
        let conditions = definition["status"]["conditions"].as_array();
        let is_established = |one: &Value| one["type"] == "Established" && one["status"] == "True";
        if conditions.is_some_and(|conditions| conditions.iter().any(is_established)) {
            return Ok(());
        }
        sleep(BETWEEN_LOOKS).await;
    }
    bail!("{path} is not established")
}

async fn idle(server: Server, settle: Duration) -> Result<Idle> {
    sleep(settle).await;
    let idle = Idle {
        resident: server.memory()?.resident,
        ready: server.ready_after,
        ready_cpu: server.ready_cpu,
    };
    server.stop().await?;
    Ok(idle)
}
