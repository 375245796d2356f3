//! Lists: bytes sent per second of the server's CPU.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::exchange::Exchange;
use crate::{
    api::{
        Setting,
        connection::Connection,
        load::{self, Load},
        objects, request,
        request::{Encoding, Template},
        server::{Server, ServerComponents, new_dir},
    },
    paired_rounds::PairedRounds,
    report::{Goal, Measurement, Report},
    statistics::Latencies,
};

/// The page size of the paged variant, as common clients use it.
const PAGE: &str = "limit=500";

/// The longest start of a list that holds its own metadata.
const LIST_HEAD_BYTES: usize = 4096;

/// The outcome of a slice of lists.
#[derive(Debug)]
struct Lists {
    bytes: u64,
    server_cpu: Duration,
    generator_cpu: Duration,
    elapsed: Duration,
    latencies: Latencies,
}

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let pods = setting.full_or_quick(10_000, 3_000);
    let dir = new_dir(setting)?;
    let null = Server::null(dir.path()).await?;
    let server = Server::setpoint(setting, dir.path(), ServerComponents::ApiOnly).await?;
    let create = Template::with_body("POST", objects::PODS, &objects::pod("list"));
    let load = Load {
        clients: setting.clients,
        operations: pods,
        first: 0,
    };
    load::apply(&server, &load, |_| Exchange::new(create.clone(), 201)).await?;

    let lists = setting.full_or_quick(20, 10);
    let json = request::encode("GET", objects::PODS, b"");
    let binary = request::encode_as("GET", objects::PODS, Encoding::PROTOBUF, b"");
    let length = whole(&server, &json, 1).await?.bytes;
    ensure!(
        length > pods * objects::POD_BYTES as u64,
        "a list of {pods} pods has only {length} bytes"
    );
    let floor = request::encode("GET", &format!("/bytes/{length}"), b"");
    let (mut rounds, mut messages, mut pages) = (
        PairedRounds::default(),
        PairedRounds::default(),
        PairedRounds::default(),
    );
    // The protobuf messages are encoded once, at the first request.
    whole(&server, &binary, 1).await?;
    for _ in 0..setting.rounds {
        rounds.baseline.push(whole(&null, &floor, lists).await?);
        rounds.subject.push(whole(&server, &json, lists).await?);
        messages.baseline.push(whole(&null, &floor, lists).await?);
        messages.subject.push(whole(&server, &binary, lists).await?);
        pages.baseline.push(whole(&null, &floor, lists).await?);
        pages.subject.push(paged(&server, lists).await?);
    }
    add(report, "list_pods", &rounds, Some(Goal::AtLeast(450.0)));
    // Three times what the reference server's JSON comes to.
    add(
        report,
        "list_pods_protobuf",
        &messages,
        Some(Goal::AtLeast(552.0)),
    );
    add(report, "list_pods_in_pages", &pages, None);
    server.stop().await
}

fn add(report: &mut Report, name: &str, rounds: &PairedRounds<Lists>, goal: Option<Goal>) {
    let mut latencies = Latencies::new();
    rounds
        .subject
        .iter()
        .for_each(|lists| latencies.merge(&lists.latencies));
    let measurement = Measurement::spread(
        "api",
        format!("{name}_per_cpu"),
        rounds.subject(Lists::per_cpu),
        "MB/CPU-s",
    )
    .paired(rounds.baseline(Lists::per_cpu), rounds.ratio(Lists::per_cpu))
    .latency(&latencies)
    .cpu(
        rounds
            .subject(|lists| lists.server_cpu.as_secs_f64() * 1e6 / lists.latencies.count() as f64)
            .median,
    )
    .generator_cpu(
        rounds
            .subject(|lists| lists.generator_cpu.as_secs_f64() * 1e6 / lists.latencies.count() as f64)
            .median,
    );
    report.add(match goal {
        Some(goal) => measurement.goal(goal),
        None => measurement,
    });
    report.add(
        Measurement::spread("api", format!("{name}_rate"), rounds.subject(Lists::rate), "MB/s")
            .paired(rounds.baseline(Lists::rate), rounds.ratio(Lists::rate))
            .operations(latencies.count()),
    );
}

/// Lists everything in one response, `lists` times on one connection.
async fn whole(server: &Server, list: &[u8], lists: u64) -> Result<Lists> {
    measured(server, lists, async |connection| {
        let mut bytes = 0;
        let status = connection.visit(list, |data| bytes += data.len() as u64).await?;
        ensure!(status == 200, "a list returned {status}");
        Ok(bytes)
    })
    .await
}

/// Lists everything page by page, `lists` times on one connection.
async fn paged(server: &Server, lists: u64) -> Result<Lists> {
    measured(server, lists, async |connection| {
        let mut path = format!("{}?{PAGE}", objects::PODS);
        let mut bytes = 0;
        loop {
            let page = connection.round_trip(&request::encode("GET", &path, b"")).await?;
            ensure!(page.status == 200, "a page returned {}", page.status);
            bytes += page.body.len() as u64;
            match continuation(page.body) {
                Some(token) => path = format!("{}?{PAGE}&continue={token}", objects::PODS),
                None => return Ok(bytes),
            }
        }
    })
    .await
}

async fn measured(
    server: &Server,
    lists: u64,
    mut list: impl AsyncFnMut(&mut Connection) -> Result<u64>,
) -> Result<Lists> {
    let mut connections = load::connect(&server.endpoint, 1).await?;
    let connection = connections.first_mut().context("one connection was opened")?;
    let mut latencies = Latencies::new();
    let mut bytes = 0;
    let (server_cpu, generator_cpu, start) = (
        server.cpu_time()?,
        crate::processes::own_cpu_time(),
        Instant::now(),
    );
    for _ in 0..lists {
        let start = Instant::now();
        bytes += list(connection).await?;
        latencies.record(start.elapsed());
    }
    Ok(Lists {
        bytes,
        server_cpu: server.cpu_time()? - server_cpu,
        generator_cpu: crate::processes::own_cpu_time() - generator_cpu,
        elapsed: start.elapsed(),
        latencies,
    })
}

/// The token of the next page: in the list's own metadata, which stands before or after the items.
fn continuation(page: &[u8]) -> Option<&str> {
    let head = &page[..page.len().min(LIST_HEAD_BYTES)];
    let tail = &page[page.len().saturating_sub(LIST_HEAD_BYTES)..];
    let token = find_in(head).or_else(|| find_in(tail))?;
    (!token.is_empty()).then_some(token)
}

/// A cut may fall inside a character, so only the part that is text is looked at.
fn find_in(bytes: &[u8]) -> Option<&str> {
    let text = bytes.utf8_chunks().next().map(|chunk| chunk.valid().as_bytes())?;
    request::find_text(text, "continue")
}

impl Lists {
    fn per_cpu(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.server_cpu.as_secs_f64()
    }

    fn rate(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.elapsed.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(page: &str, expected: Option<&str>) {
        assert_eq!(continuation(page.as_bytes()), expected);
    }

    #[test]
    fn the_last_page_has_no_continuation() {
        check(
            r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]}"#,
            None,
        );
        check(
            r#"{"metadata":{"continue":"","resourceVersion":"7"},"items":[]}"#,
            None,
        );
    }

    #[test]
    fn a_continuation_is_found_before_and_after_the_items() {
        check(
            r#"{"metadata":{"continue":"abc","resourceVersion":"7"},"items":[]}"#,
            Some("abc"),
        );
        let items = "x".repeat(3 * LIST_HEAD_BYTES);
        check(
            &format!(r#"{{"items":["{items}"],"metadata":{{"continue":"abc"}}}}"#),
            Some("abc"),
        );
    }
}
