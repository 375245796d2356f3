//! Compares informers of two libraries on the same server: Setpoint's and kube-runtime's.
//!
//! `informers run PODS EVENTS ROUNDS` creates pods on the server of `$KUBECONFIG`, then runs each candidate in a process
//! of its own while a writer changes pods, first at a steady rate, then as fast as possible. It prints a line of JSON for
//! each run: the time of the initial sync, memory, the delay from sending a write to its delivery to a handler, and the CPU
//! time per change. At the end it prints the medians, and the ratios of kube-runtime's values to Setpoint's.
//! `informers run PODS EVENTS ROUNDS NAME:CONSUMERS...` runs only these candidates.
//!
//! A candidate is a library with its options, and a number of consumers:
//!
//! | name | its consumers |
//! |---|---|
//! | `floor` | none: the bytes of the watch are read and counted, the minimum for any client |
//! | `setpoint` | handlers of one shared informer, which read labels |
//! | `setpoint-decoding` | the same, and each change is decoded, once for all handlers |
//! | `setpoint-decoded` | the same, and the initial pods are decoded as well and stay decoded |
//! | `kube` | one reflector per consumer, the default of controllers in one process |
//! | `kube-stream` | the same, with a streaming list, as `setpoint` uses |
//! | `kube-shared` | subscribers of one reflector (an unstable feature of kube-runtime) |

mod follow;
mod measure;
mod summary;
mod write;

use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// Candidates in the order they run; comparable ones are adjacent.
const CANDIDATES: [&str; 11] = [
    "floor:1",
    "setpoint:1",
    "kube:1",
    "setpoint-decoding:1",
    "kube-stream:1",
    "setpoint-decoded:1",
    "setpoint:10",
    "kube-shared:10",
    "setpoint-decoding:10",
    "kube:10",
    "setpoint-decoded:10",
];

/// Changes per second in the steady phase: less than the capacity of server and candidates, so that delays contain no
/// queueing.
const RATE: &str = "500";

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = args.iter().map(String::as_str).collect();
    match arguments[..] {
        ["run", pods, events, rounds] => run(pods, events, rounds.parse()?, &CANDIDATES).await,
        ["run", pods, events, rounds, ref candidates @ ..] => {
            run(pods, events, rounds.parse()?, candidates).await
        }
        ["seed", pods] => write::seed(pods.parse()?).await,
        ["write", events] => write::changes(events.parse()?, None).await,
        ["write", events, rate] => write::changes(events.parse()?, Some(rate.parse()?)).await,
        ["follow", library, consumers, pods, events] => {
            follow::follow(library, consumers.parse()?, pods.parse()?, events.parse()?).await
        }
        _ => bail!("usage: informers run PODS EVENTS ROUNDS [NAME:CONSUMERS...], with $KUBECONFIG set"),
    }
}

async fn run(pods: &str, events: &str, rounds: usize, candidates: &[&str]) -> Result<()> {
    ensure!(
        this_program(&["seed", pods]).status().await?.success(),
        "the pods could not be created"
    );
    let mut lines = Vec::new();
    for round in 0..rounds {
        for candidate in candidates {
            let (library, consumers) = candidate
                .split_once(':')
                .context("a candidate is NAME:CONSUMERS")?;
            let load = measure::load();
            let mut line = run_candidate(&["follow", library, consumers, pods, events], events).await?;
            line["round"] = json!(round);
            line["load_before"] = json!(load);
            println!("{line}");
            lines.push(line);
        }
    }
    summary::print(&lines);
    Ok(())
}

/// Runs one candidate: after its sync a writer starts, and after the delivery of its changes the next one.
async fn run_candidate(args: &[&str], events: &str) -> Result<Value> {
    let mut follower = this_program(args).stdout(Stdio::piped()).spawn()?;
    let output = follower.stdout.take().context("stdout is piped")?;
    let mut lines = BufReader::new(output).lines();
    let mut measured = json!({});
    for writer in [
        None,
        Some(&["write", events, RATE][..]),
        Some(&["write", events][..]),
    ] {
        if let Some(writer) = writer {
            ensure!(
                this_program(writer).status().await?.success(),
                "the writer failed"
            );
        }
        let line = lines
            .next_line()
            .await?
            .context("the candidate ended without a result")?;
        let line: Value = serde_json::from_str(&line)?;
        for (name, value) in line.as_object().into_iter().flatten() {
            measured[name] = value.clone();
        }
    }
    follower.wait().await?;
    Ok(measured)
}

fn this_program(args: &[&str]) -> Command {
    let program = std::env::current_exe().unwrap_or_else(|_| "informers".into());
    let mut command = Command::new(program);
    command.args(args).kill_on_drop(true);
    command
}
