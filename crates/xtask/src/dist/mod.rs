//! `cargo xtask dist` and `cargo xtask sbom`: the binary that ships, its bill of materials and its build provenance.
//!
//! Both files follow from the source and the tools alone: no time, no path and no name of the machine is in them,
//! so two builds of one commit can be compared. Start reading at [`run`].

mod metadata;
mod provenance;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};

use metadata::Packages;
use provenance::Build;

/// The binary that ships, and its package.
const BINARY: &str = "setpoint";

/// The cargo profile of what ships, and its directory under `target`.
const PROFILE: &str = "dist";

/// Builds the binary and writes its bill of materials and its provenance beside it.
pub(crate) fn run(root: &Path) -> Result<()> {
    let built = Command::new("cargo")
        .args(["build", "--locked", "--profile", PROFILE, "--package", BINARY])
        .current_dir(root)
        .status();
    ensure!(built.context("cannot run cargo")?.success(), "the build failed");
    write_sbom(root)?;
    let build = Build {
        commit: output(root, "git", &["rev-parse", "HEAD"])?.trim().to_owned(),
        is_modified: !output(root, "git", &["status", "--porcelain"])?.is_empty(),
        rustc: output(root, "rustc", &["-vV"])?,
        lock_digest: digest(&root.join("Cargo.lock"))?,
        binary_digest: digest(&directory(root).join(BINARY))?,
    };
    write(root, "provenance.json", &build.statement())
}

/// Writes the bill of materials of the binary.
pub(crate) fn write_sbom(root: &Path) -> Result<()> {
    let rustc = output(root, "rustc", &["-vV"])?;
    let host = provenance::field(&rustc, "host");
    let args = [
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        host,
    ];
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let packages = Packages::parse(&output(root, "cargo", &args)?, &lock)?;
    write(root, "cdx.json", &sbom::document(&packages, BINARY)?)
}

fn directory(root: &Path) -> PathBuf {
    root.join("target").join(PROFILE)
}

/// Writes a file beside the binary.
fn write(root: &Path, extension: &str, contents: &Value) -> Result<()> {
    let path = directory(root).join(format!("{BINARY}.{extension}"));
    let text = format!("{}\n", serde_json::to_string_pretty(contents)?);
    fs::create_dir_all(directory(root)).context("cannot create the directory of the binary")?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

/// The standard output of a command.
fn output(root: &Path, program: &str, args: &[&str]) -> Result<String> {
    let run = Command::new(program).args(args).current_dir(root).output();
    let run = run.with_context(|| format!("cannot run {program}"))?;
    let errors = String::from_utf8_lossy(&run.stderr);
    ensure!(
        run.status.success(),
        "{program} {} failed: {errors}",
        args.join(" ")
    );
    Ok(String::from_utf8(run.stdout)?)
}

/// The SHA-256 digest of a file.
fn digest(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let digest = Sha256::digest(&bytes);
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}
