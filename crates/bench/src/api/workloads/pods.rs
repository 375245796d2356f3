//! Twenty thousand pods: the memory of each, and the duration of a restart.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::sleep;

use super::exchange::Exchange;
use crate::{
    api::{
        Setting,
        load::{self, Load},
        objects, request,
        request::Template,
        server::{Server, ServerComponents, new_dir},
    },
    report::{Goal, Measurement, Report},
};

/// Long enough for the work after a write (caches, the log's maintenance) to complete.
const SETTLE: Duration = Duration::from_secs(3);

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let pods = setting.full_or_quick(20_000, 5_000);
    let dir = new_dir(setting)?;
    let server = Server::setpoint(setting, dir.path(), ServerComponents::ApiOnly).await?;
    sleep(SETTLE).await;
    let before = server.memory()?.resident;
    let create = Template::with_body("POST", objects::PODS, &objects::pod("many"));
    let load = Load {
        clients: setting.clients,
        operations: pods,
        first: 0,
    };
    load::apply(&server, &load, |_| Exchange::new(create.clone(), 201)).await?;
    sleep(SETTLE).await;
    let after = server.memory()?.resident;
    add_memory(report, "memory_per_pod", after.saturating_sub(before), pods);
    server.stop().await?;
    measure_restart(setting, report, dir.path(), (before, pods)).await
}

/// The memory after a restart is compared with that of the empty server: it has the pods but no old revisions.
async fn measure_restart(
    setting: &Setting,
    report: &mut Report,
    dir: &std::path::Path,
    (empty, pods): (u64, u64),
) -> Result<()> {
    let server = Server::setpoint(setting, dir, ServerComponents::ApiOnly).await?;
    let ready = server.ready_after.as_secs_f64() * 1e3;
    report.add(
        Measurement::new("api", "restart_with_pods", ready, "ms")
            .cpu(server.ready_cpu.as_secs_f64() * 1e6)
            .operations(pods),
    );
    let mut connections = load::connect(&server.endpoint, 1).await?;
    let start = Instant::now();
    let mut bytes = 0;
    let status = connections[0]
        .visit(&request::encode("GET", objects::PODS, b""), |data| {
            bytes += data.len()
        })
        .await?;
    let first_list = start.elapsed().as_secs_f64() * 1e3;
    ensure!(
        status == 200 && bytes > pods as usize * objects::POD_BYTES,
        "the list returned {status}, {bytes} bytes"
    );
    report.add(Measurement::new("api", "first_list_after_restart", first_list, "ms").operations(pods));
    sleep(SETTLE).await;
    add_memory(
        report,
        "memory_per_pod_restarted",
        server.memory()?.resident.saturating_sub(empty),
        pods,
    );
    server.stop().await
}

fn add_memory(report: &mut Report, name: &str, bytes: u64, pods: u64) {
    let per_pod = bytes as f64 / pods as f64 / 1e3;
    report.add(
        Measurement::new("api", name, per_pod, "kB")
            .operations(pods)
            .goal(Goal::AtMost(10.0)),
    );
}
