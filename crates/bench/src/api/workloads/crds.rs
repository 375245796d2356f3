//! Many unused CustomResourceDefinitions: the memory of each, and their effect on the start time.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    api::{
        Setting,
        connection::Connection,
        load, objects, request,
        server::{Server, ServerComponents, new_dir},
    },
    report::{Goal, Measurement, Report},
};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// As large as the largest in common use.
const SCHEMA_BYTES: usize = 200 << 10;

/// Long enough for the startup work to complete.
const SETTLE: Duration = Duration::from_secs(3);

/// Long enough for the store to compact old revisions.
const COMPACTION: Duration = Duration::from_secs(15);

/// The number and interval of checks whether a CustomResourceDefinition is established.
const ESTABLISHED_CHECKS: usize = 600;
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The memory of an idle server, and the cost of its start.
#[derive(Debug)]
struct Idle {
    resident: u64,
    ready: Duration,
    ready_cpu: Duration,
}

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let count = setting.full_or_quick(1_000, 100);
    let (empty, filled) = (new_dir(setting)?, new_dir(setting)?);
    let server = Server::setpoint(setting, filled.path(), ServerComponents::All).await?;
    let cpu = server.cpu_time()?;
    create(&server, count).await?;
    let cpu = (server.cpu_time()? - cpu).as_secs_f64() * 1e6 / count as f64;
    server.stop().await?;
    // Both have been started before, so that both measure a restart.
    Server::setpoint(setting, empty.path(), ServerComponents::All)
        .await?
        .stop()
        .await?;
    let without = idle(
        Server::setpoint(setting, empty.path(), ServerComponents::All).await?,
        SETTLE,
    )
    .await?;
    let with = idle(
        Server::setpoint(setting, filled.path(), ServerComponents::All).await?,
        SETTLE,
    )
    .await?;
    let long_idle = idle(
        Server::setpoint(setting, filled.path(), ServerComponents::ShortHistory).await?,
        COMPACTION,
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
            let body = objects::crd(number, SCHEMA_BYTES);
            let request = request::encode("POST", CRDS, body.as_bytes());
            let response = connection.round_trip(&request).await?;
            ensure!(
                response.status == 201,
                "creating a CustomResourceDefinition returned {}",
                response.status
            );
        }
        for number in 0..count {
            wait_until_established(connection, number).await?;
        }
    }
    sleep(SETTLE).await;
    Ok(())
}

/// Waits until a CustomResourceDefinition is established: before that the server is not idle.
async fn wait_until_established(connection: &mut Connection, number: u64) -> Result<()> {
    let path = format!("{CRDS}/{}", objects::crd_name(number));
    let request = request::encode("GET", &path, &[]);
    for _ in 0..ESTABLISHED_CHECKS {
        let response = connection.round_trip(&request).await?;
        ensure!(response.status == 200, "{path} returned {}", response.status);
        let crd: Value = serde_json::from_slice(response.body)?;
        let conditions = crd["status"]["conditions"].as_array();
        let is_established = |one: &Value| one["type"] == "Established" && one["status"] == "True";
        if conditions.is_some_and(|conditions| conditions.iter().any(is_established)) {
            return Ok(());
        }
        sleep(CHECK_INTERVAL).await;
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
