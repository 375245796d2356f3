//! Fifty thousand pods deleted by one deletecollection, with concurrent writers of other objects.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

use super::{api_client::ApiClient, create};
use crate::{
    api::{
        Setting,
        load::{self, Load, Outcome},
        objects,
        request::Template,
        server::{Server, ServerComponents, new_dir},
        workloads::exchange::Exchange,
    },
    report::{Measurement, Report},
};

const SETTLE: Duration = Duration::from_secs(3);

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let pods = setting.full_or_quick(50_000, 5_000);
    let dir = new_dir(setting)?;
    let server = Server::setpoint(setting, dir.path(), ServerComponents::ApiOnly).await?;
    create(setting, &server, (objects::PODS, &objects::pod("many")), pods).await?;
    sleep(SETTLE).await;
    let mut client = ApiClient::new(&server).await?;
    let (empty, cpu) = (server.memory()?.resident, server.cpu_time()?);
    let writers = setting.full_or_quick(20_000, 2_000);
    let alone = write(&server, writers, 0).await?;
    let busy = server.cpu_time()? - cpu;
    let before = server.memory()?.resident;
    let start = Instant::now();
    let deletion = async {
        let (status, _) = client.send("DELETE", objects::PODS, "").await?;
        ensure!(status == 200, "deletecollection returned {status}");
        anyhow::Ok(start.elapsed())
    };
    let (deleted, beside) = tokio::join!(deletion, write(&server, writers, writers));
    let (deleted, beside) = (deleted.context("deleting the collection")?, beside?);
    client.wait_for_count(objects::PODS, 0).await?;
    let cpu = (server.cpu_time()? - cpu).saturating_sub(busy * 2).as_secs_f64() * 1e6 / pods as f64;
    let line = Measurement::new("controllers", "collection_deleted", deleted.as_secs_f64(), "s");
    report.add(line.cpu(cpu).operations(pods));
    let line = Measurement::new(
        "controllers",
        "collection_writers_p99",
        beside.latencies.p99_us(),
        "us",
    );
    report.add(line.against(alone.latencies.p99_us()).latency(&beside.latencies));
    // The concurrent writers add as much memory as they did alone.
    let added = server
        .memory()?
        .peak
        .saturating_sub(before + before.saturating_sub(empty)) as f64
        / 1e6;
    report.add(Measurement::new("controllers", "collection_memory_added", added, "MB").operations(pods));
    server.stop().await
}

/// Creates so many ConfigMaps with concurrent clients.
async fn write(server: &Server, operations: u64, first: u64) -> Result<Outcome> {
    let create = Template::with_body("POST", objects::CONFIG_MAPS, &objects::config_map("beside"));
    let load = Load {
        clients: 8,
        operations,
        first,
    };
    load::apply(server, &load, |_| Exchange::new(create.clone(), 201)).await
}
