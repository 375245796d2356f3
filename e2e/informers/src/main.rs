//! Informers of two libraries beside each other, on the same server and in turns: this house's and kube-runtime's.
//!
//! `informers run PODS EVENTS TURNS` fills the server of `$KUBECONFIG` with pods, then lets each contender follow them in
//! a process of its own while a writer changes them, first at a steady rate, then as fast as it can. A line of JSON for each
//! tells how long it took to have all pods, what memory that takes, how long after a write is sent a handler hears of it,
//! and what CPU time a change costs.
//! At the end it tells the medians, and what the other library takes of each thing for one that this house's takes.
//! `informers run PODS EVENTS TURNS NAME:CONSUMERS...` lets only these take part.
//!
//! A contender is a library and a number of consumers:
//!
//! | name | what its consumers do |
//! |---|---|
//! | `line` | nobody is told: the bytes are read and counted, the least that anybody needs |
//! | `setpoint` | handlers on one shared informer look at labels |
//! | `setpoint-decoding` | the same, and each change is decoded, once for all of them |
//! | `setpoint-decoded` | the same, and the pods that are there at the start are decoded and stay so |
//! | `kube` | a reflector for each, as controllers in one process have by default |
//! | `kube-stream` | the same, and what is there comes by the watch instead of by a list, as in `setpoint` |
//! | `kube-shared` | one reflector that all subscribe to, which its authors call unstable |

mod follow;
mod measure;
mod summary;
mod write;

use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// Beside each other stand those whose consumers get the same.
const CONTENDERS: [&str; 11] = [
    "line:1",
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

/// So many changes in a second: less than either side can bear, so that delays are not those of a queue.
const RATE: &str = "500";

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["run", pods, events, turns] => run(pods, events, turns.parse()?, &CONTENDERS).await,
        ["run", pods, events, turns, ref contenders @ ..] => {
            run(pods, events, turns.parse()?, contenders).await
        }
        ["seed", pods] => write::seed(pods.parse()?).await,
        ["write", events] => write::changes(events.parse()?, None).await,
        ["write", events, rate] => write::changes(events.parse()?, Some(rate.parse()?)).await,
        ["follow", library, consumers, pods, events] => {
            follow::follow(library, consumers.parse()?, pods.parse()?, events.parse()?).await
        }
        _ => bail!("informers run PODS EVENTS TURNS, with $KUBECONFIG"),
    }
}

async fn run(pods: &str, events: &str, turns: usize, contenders: &[&str]) -> Result<()> {
    ensure!(
        own(&["seed", pods]).status().await?.success(),
        "the pods cannot be made"
    );
    let mut lines = Vec::new();
    for turn in 0..turns {
        for contender in contenders {
            let (library, consumers) = contender
                .split_once(':')
                .context("a contender is NAME:CONSUMERS")?;
            let load = measure::load();
            let mut line = one(&["follow", library, consumers, pods, events], events).await?;
            line["turn"] = json!(turn);
            line["load_before"] = json!(load);
            println!("{line}");
            lines.push(line);
        }
    }
    summary::tell(&lines);
    Ok(())
}

/// One contender: once it has everything, a writer starts, and when all of that is heard, another.
async fn one(args: &[&str], events: &str) -> Result<Value> {
    let mut follower = own(args).stdout(Stdio::piped()).spawn()?;
    let output = follower.stdout.take().context("its output is ours")?;
    let mut lines = BufReader::new(output).lines();
    let mut measured = json!({});
    for writer in [
        None,
        Some(&["write", events, RATE][..]),
        Some(&["write", events][..]),
    ] {
        if let Some(writer) = writer {
            ensure!(own(writer).status().await?.success(), "the writer gave up");
        }
        let line = lines.next_line().await?.context("a follower says what it took")?;
        let line: Value = serde_json::from_str(&line)?;
        for (name, value) in line.as_object().into_iter().flatten() {
            measured[name] = value.clone();
        }
    }
    follower.wait().await?;
    Ok(measured)
}

fn own(args: &[&str]) -> Command {
    let program = std::env::current_exe().unwrap_or_else(|_| "informers".into());
    let mut command = Command::new(program);
    command.args(args).kill_on_drop(true);
    command
}
