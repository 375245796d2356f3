//! Informers of two libraries beside each other, on the same server and in turns: this house's and kube-runtime's.
//!
//! `informers run PODS EVENTS TURNS` fills the server of `$KUBECONFIG` with pods, then lets each contender follow them in
//! a process of its own while a writer changes them, and prints a line of JSON for each: how long it took to have all
//! pods, what memory that takes, how long after a write a handler hears of it, and what CPU time a change costs.
//!
//! A contender is a library and a number of consumers. With several, `kube` has a reflector for each, as controllers in
//! one process have by default; `kube-shared` has one that all subscribe to, which its authors call unstable.

mod follow;
mod measure;
mod write;

use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

const CONTENDERS: [(&str, usize); 6] = [
    ("setpoint", 1),
    ("setpoint-decoding", 1),
    ("kube", 1),
    ("setpoint", 10),
    ("kube-shared", 10),
    ("kube", 10),
];

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["run", pods, events, turns] => run(pods, events, turns.parse()?).await,
        ["seed", pods] => write::seed(pods.parse()?).await,
        ["write", events] => write::changes(events.parse()?).await,
        ["follow", library, consumers, pods, events] => {
            follow::follow(library, consumers.parse()?, pods.parse()?, events.parse()?).await
        }
        _ => bail!("informers run PODS EVENTS TURNS, with $KUBECONFIG"),
    }
}

async fn run(pods: &str, events: &str, turns: usize) -> Result<()> {
    own(&["seed", pods]).status().await?;
    for turn in 0..turns {
        for (library, consumers) in CONTENDERS {
            let consumers = consumers.to_string();
            let mut line = one(&["follow", library, &consumers, pods, events], events).await?;
            line["turn"] = json!(turn);
            println!("{line}");
        }
    }
    Ok(())
}

/// One contender: once it has everything, the writer starts.
async fn one(args: &[&str], events: &str) -> Result<Value> {
    let mut follower = own(args).stdout(Stdio::piped()).spawn()?;
    let output = follower.stdout.take().context("its output is ours")?;
    let mut lines = BufReader::new(output).lines();
    let synced = lines.next_line().await?.context("a follower says when it has everything")?;
    let mut measured: Value = serde_json::from_str(&synced)?;
    own(&["write", events]).status().await?;
    let followed = lines.next_line().await?.context("a follower says what it took")?;
    let followed: Value = serde_json::from_str(&followed)?;
    for (name, value) in followed.as_object().into_iter().flatten() {
        measured[name] = value.clone();
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
