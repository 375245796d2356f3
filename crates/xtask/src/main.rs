//! The repository's own commands: `tidy` checks its rules, `public-api` writes the snapshots of the
//! libraries' interfaces, `test` runs every test, `soak` runs a server under faults, `pack` writes the
//! schema pack, `dist` builds what ships.
//!
//! Nothing here ships and no crate depends on it. Start reading at `tidy/mod.rs` or `test/mod.rs`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command prints for its user"
)]

mod dist;
mod pack;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Result;

const USAGE: &str = "\
usage: cargo xtask <command>
  tidy                check the repository's rules: layers, invariants, sizes, names, docs
  public-api          write the public items of the library crates to docs/public-api
  test [--only NAME]  run every test, and report what was skipped and why
  soak [--minutes N] [--seed N] [--faults LIST] [--max-memory MB] [--max-p99 MS]
                      run a server under load and faults, and check its invariants;
                      --floods [LIST] [--seconds N]: measure what one user notices of another's floods instead;
                      --etcd [histories|rollout]: run three servers on three etcd members instead
  pack [--check]      write the schema pack from the published API types, or compare it
  fuzz [ARGS]         fuzz the readers of untrusted bytes: --target NAME, --seconds N or --inputs N, --seed N
  dist                build the binary that ships, with its bill of materials and build provenance
  sbom                write the bill of materials alone (CycloneDX)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(args: &[String]) -> Result<ExitCode> {
    let (command, rest) = args
        .split_first()
        .map_or(("help", args), |(command, rest)| (command.as_str(), rest));
    match command {
        "fuzz" => fuzz(&root(), rest),
        "dist" => dist::run(&root()).map(|()| ExitCode::SUCCESS),
        "sbom" => dist::write_sbom(&root()).map(|()| ExitCode::SUCCESS),
        "pack" => pack::run(rest).map(|()| ExitCode::SUCCESS),
        "public-api" => tidy::write_public_api(&root()),
        "soak" => Ok(test::run_soak(&root(), rest)),
        "tidy" => tidy::run(&root()),
        "test" => test::run(&root(), rest),
        test::LIMIT_COMMAND => test::run_limited(rest).map(ExitCode::from),
        _ => Ok(usage()),
    }
}

/// Runs the fuzzer, optimized: it then tries several times as many inputs.
fn fuzz(root: &Path, args: &[String]) -> Result<ExitCode> {
    let status = Command::new("cargo")
        .args([
            "run",
            "--release",
            "--quiet",
            "--locked",
            "--package",
            "setpoint-fuzz",
            "--",
        ])
        .args(args)
        .current_dir(root)
        .status()?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// The workspace, found from where this crate was compiled, so that the commands work in any directory.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("the crate is two directories below the root")
        .to_path_buf()
}
