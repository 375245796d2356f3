//! `scheduling record`, `scheduling check`: the decisions of a scheduler in scripted situations.

use std::collections::BTreeMap;

use anyhow::Result;
use setpoint_conformance::differential::KnownDifferences;
use setpoint_conformance::scheduling::{self, Decision, Difference};
use setpoint_conformance::server::Server;
use setpoint_conformance::time;
use setpoint_conformance::transcript::{Count, Floors};
use setpoint_conformance::wire::Endpoint;

use crate::args::{SchedulingCheck, SchedulingCommand, SchedulingRecord};

/// The area in the file of floors.
const AREA: &str = "scheduling";

pub(crate) fn run(args: &SchedulingCommand) -> Result<bool> {
    match args {
        SchedulingCommand::Record(args) => record(args),
        SchedulingCommand::Check(args) => check(args),
    }
}

fn record(args: &SchedulingRecord) -> Result<bool> {
    let worlds = scheduling::read_worlds(&args.files.situations)?;
    let endpoint = Endpoint::of_kubeconfig(&args.kubeconfig)?;
    let mut decisions = match args.files.decisions.exists() {
        true => scheduling::read_decisions(&args.files.decisions)?,
        false => BTreeMap::new(),
    };
    let recorded = scheduling::record(&endpoint, &worlds, &args.files.id)?;
    println!("recorded {} decisions", recorded.len());
    decisions.extend(recorded);
    decisions.retain(|id, _| {
        worlds.iter().any(|world| {
            world
                .situations
                .iter()
                .any(|situation| world.id(situation) == *id)
        })
    });
    scheduling::write_decisions(&args.files.decisions, &decisions)?;
    Ok(true)
}

fn check(args: &SchedulingCheck) -> Result<bool> {
    let worlds = scheduling::read_worlds(&args.files.situations)?;
    let decisions = scheduling::read_decisions(&args.files.decisions)?;
    let known = args
        .known
        .as_deref()
        .map_or_else(|| Ok(KnownDifferences::default()), KnownDifferences::read)?;
    let (server, endpoint) = match (&args.start, &args.kubeconfig) {
        (Some(program), _) => {
            let server = Server::start(program, scheduling::SERVER_FLAGS)?;
            let endpoint = server.endpoint()?;
            (Some(server), endpoint)
        }
        (None, Some(file)) => (None, Endpoint::of_kubeconfig(file)?),
        (None, None) => anyhow::bail!("neither --kubeconfig nor --start is set"),
    };
    let start = time::now();
    let (total, differences) = scheduling::check(&endpoint, &worlds, &args.files.id, &decisions)?;
    drop(server);
    let unknown = print(&differences, &known, args.show);
    let passed = total - differences.len();
    println!(
        "{passed} of {total} decisions are kube-scheduler's, {unknown} unknown differences, {:.1} s",
        start.elapsed().as_secs_f64()
    );
    check_floor(args, Count { passed, total })
}

/// Prints the differences without a known reason, and returns their number.
fn print(differences: &[Difference], known: &KnownDifferences, show: usize) -> usize {
    let mut unknown = 0;
    for difference in differences {
        if let Some(reason) = known.reason_of_case(&difference.id) {
            println!("known: {}: {reason}", difference.id);
            continue;
        }
        unknown += 1;
        if unknown <= show {
            println!("{}\n    expected {}", difference.id, text(&difference.expected));
            let actual = difference.actual.as_ref();
            println!("    actual   {}", actual.map_or_else(Clone::clone, text));
        }
    }
    unknown
}

fn text(decision: &Decision) -> String {
    serde_json::to_string(decision).unwrap_or_default()
}

fn check_floor(args: &SchedulingCheck, count: Count) -> Result<bool> {
    let Some(path) = &args.floors else {
        return Ok(count.passed == count.total);
    };
    let counts = BTreeMap::from([(AREA.to_owned(), count)]);
    let floors = Floors::read(path)?;
    if args.raise_floors {
        floors.raised(&counts).write(path)?;
        return Ok(true);
    }
    let missed = floors.missed(&counts);
    for (area, count, floor) in &missed {
        println!(
            "{area}: {} decisions passed, below the floor of {floor}",
            count.passed
        );
    }
    Ok(missed.is_empty())
}
