//! The program as `kube-apiserver`, for test suites that start a control plane of kube-apiserver and etcd (envtest).
//!
//! It accepts kube-apiserver's command line, converts it to the arguments of `setpoint up`, and serves without nodes and,
//! unless the user names some, without the controllers of kube-controller-manager. The objects are in the data directory
//! of the process that serves `--etcd-servers`, or in a real etcd. Start reading at `run`; `flags` has what becomes of each flag.

mod cert_dir;
mod controllers;
mod etcd_servers;
mod feature_gates;
mod flags;
mod runtime_config;
mod up_arguments;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use setpoint_api::{Clock, SystemClock, go_duration};
use setpoint_apiserver::version::Version;
use tracing_subscriber::filter::LevelFilter;

use crate::args::{EtcdFlags, Up};
use crate::flag_set::{self, Flag, Values};
use crate::{log, serve};
use etcd_servers::Storage;

/// kube-apiserver's default of `--etcd-prefix`.
const DEFAULT_PREFIX: &str = "/registry";

/// Runs kube-apiserver with these arguments. Errors are printed as kube-apiserver prints them.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    match parse(arguments).and_then(|values| print_or_start(&values)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the help text or the version, or serves.
fn print_or_start(values: &Values) -> Result<()> {
    if values.bool("help").or(values.bool("h")) == Some(true) {
        print!("{}", help());
        return Ok(());
    }
    match values.text("version") {
        Some("true") => println!("Kubernetes {}", Version::client().git_version),
        Some("raw") => println!("{:?}", Version::client()),
        _ => return start(values),
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Values> {
    let (values, positional) = flag_set::parse(&flags::all(), arguments)?;
    anyhow::ensure!(
        positional.is_empty(),
        "\"kube-apiserver\" does not take any arguments, got [{}]",
        positional
            .iter()
            .map(|argument| format!("{argument:?}"))
            .collect::<Vec<_>>()
            .join(" ")
    );
    if let Some(name) = flags::find_unsupported(&values) {
        anyhow::bail!("--{name} is not supported by Setpoint");
    }
    Ok(values)
}

/// Serves until stopped.
fn start(values: &Values) -> Result<()> {
    feature_gates::check(values)?;
    runtime_config::check(values)?;
    let variable = std::env::var(controllers::VARIABLE).ok();
    let controllers = controllers::selection(values, variable.as_deref());
    let up = up_arguments::from_flags(values, &controllers)?;
    log::start_at(up.log_format, level(values));
    Version::report(up.version.clone(), up.version_git_commit.clone());
    serve::runtime()?.block_on(serve_on_etcd(values, up))
}

async fn serve_on_etcd(values: &Values, mut up: Up) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let storage = etcd_servers::storage(&values.list("etcd-servers"), &clock).await?;
    let prefix = values.text("etcd-prefix").unwrap_or(DEFAULT_PREFIX);
    let addresses = up.certificate_addresses();
    let cert_dir = PathBuf::from(values.text("cert-dir").unwrap_or(cert_dir::DEFAULT));
    let data_dir = match storage {
        Storage::DataDir(shared) => {
            anyhow::ensure!(
                values.list("etcd-servers-overrides").is_empty(),
                "--etcd-servers-overrides needs a real etcd in --etcd-servers"
            );
            etcd_servers::prefix_dir(&shared, prefix)
        }
        Storage::Etcd => {
            up.etcd_flags = etcd_flags(values, prefix)?;
            up.unsafe_no_fsync = false;
            cert_dir.join("setpoint")
        }
    };
    setpoint_store::open_private_dir(&data_dir)?;
    let pki = data_dir.join("pki");
    cert_dir::use_certificate(&mut up.tls_flags, &cert_dir, &pki, &addresses, clock.now())?;
    up.data_dir = Some(data_dir);
    serve::up(up).await
}

/// The flags of a store on etcd.
fn etcd_flags(values: &Values, prefix: &str) -> Result<EtcdFlags> {
    let file = |name| values.text(name).map(PathBuf::from);
    let interval = values.text("etcd-compaction-interval").unwrap_or("5m");
    Ok(EtcdFlags {
        etcd_servers: values.list("etcd-servers"),
        etcd_servers_overrides: up_arguments::etcd_overrides(values)?,
        etcd_prefix: prefix.to_owned(),
        etcd_cafile: file("etcd-cafile"),
        etcd_certfile: file("etcd-certfile"),
        etcd_keyfile: file("etcd-keyfile"),
        etcd_user: None,
        etcd_password_file: None,
        etcd_compaction_interval: go_duration::parse(interval).map_err(anyhow::Error::msg)?,
    })
}

/// The log level of `--v`.
fn level(values: &Values) -> LevelFilter {
    match values
        .text("v")
        .and_then(|text| text.parse::<i64>().ok())
        .unwrap_or(0)
    {
        ..=1 => LevelFilter::WARN,
        2..=3 => LevelFilter::INFO,
        4..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// The help text. envtest looks for flags in it, each at the start of a line.
fn help() -> String {
    let section = |title: &str, flags: &[Flag]| {
        let lines: String = flags
            .iter()
            .map(|flag| format!("      --{}\n", flag.name))
            .collect();
        format!("{title}:\n\n{lines}\n")
    };
    let mut text =
        "Setpoint as kube-apiserver, for test suites: Kubernetes' API without nodes and controllers.\n\n\
                    Usage:\n  kube-apiserver [flags]\n\n"
            .to_owned();
    let used = [flags::HANDLED, flags::FORWARDED].concat();
    text.push_str(&section("Flags", &used));
    text.push_str(&section(
        "Flags that kube-apiserver does not have (a list as in kube-controller-manager, or `all`; SETPOINT_CONTROLLERS \
         sets it, too)",
        flags::ADDED,
    ));
    text.push_str(&section("Flags without effect", flags::IGNORED));
    text
}
