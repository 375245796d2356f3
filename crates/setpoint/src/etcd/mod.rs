//! The program as `etcd`, for test suites that start a control plane of kube-apiserver and etcd (envtest).
//!
//! It is no etcd: it stores nothing and serves no key. It creates the data directory and returns its path to the
//! `kube-apiserver` of this program, which stores the objects there; so they outlive that process as long as the directory
//! exists. It responds to health checks. Start reading at `run`.

mod flags;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use setpoint_api::SystemClock;
use setpoint_apiserver::etcd_endpoint::{EtcdEndpoint, VERSION};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::LevelFilter;

use crate::args::LogFormat;
use crate::flag_set::{self, Values};
use crate::log;

/// etcd's defaults.
const DEFAULT_NAME: &str = "default";
const DEFAULT_CLIENT_URL: &str = "http://localhost:2379";

/// The exit code of etcd for an invalid command line.
const USAGE: u8 = 2;

/// Runs etcd with these arguments.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let values = match flag_set::parse(&flags::all(), arguments) {
        Ok((values, positional)) if positional.is_empty() => values,
        Ok((_, positional)) => {
            eprintln!(
                "error verifying flags, {:?} is not a valid flag. See 'etcd --help'.",
                positional[0]
            );
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!("{}", go_flag_error(&error));
            return ExitCode::from(USAGE);
        }
    };
    if values.bool("help") == Some(true) {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    if values.bool("version") == Some(true) {
        println!("etcd Version: {VERSION}\nSetpoint {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    match start(&values) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(values: &Values) -> Result<()> {
    log::start_at(LogFormat::Text, LevelFilter::INFO);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .context("cannot start the runtime")?
        .block_on(serve(values))
}

/// Serves until SIGTERM or SIGINT.
async fn serve(values: &Values) -> Result<()> {
    let mut terminations = signal(SignalKind::terminate()).context("cannot listen for termination")?;
    let mut interrupts = signal(SignalKind::interrupt()).context("cannot listen for interrupts")?;
    let data_dir = open_data_dir(&data_dir(values))?;
    let addresses = client_addresses(&setting(values, "listen-client-urls", DEFAULT_CLIENT_URL))?;
    let endpoint = EtcdEndpoint::bind(&addresses, &data_dir).await?;
    tracing::info!(?addresses, "ready to serve client requests");
    tokio::select! {
        () = endpoint.run(Arc::new(SystemClock::new())) => Ok(()),
        _ = terminations.recv() => Ok(()),
        _ = interrupts.recv() => Ok(()),
    }
}

/// The value of a flag, or else of its environment variable, as etcd reads them.
fn setting(values: &Values, name: &str, default: &str) -> String {
    let variable = format!("ETCD_{}", name.to_uppercase().replace('-', "_"));
    let text = values.text(name).map(str::to_owned);
    text.or_else(|| std::env::var(variable).ok())
        .unwrap_or_else(|| default.to_owned())
}

fn data_dir(values: &Values) -> PathBuf {
    let name = setting(values, "name", DEFAULT_NAME);
    PathBuf::from(setting(values, "data-dir", &format!("{name}.etcd")))
}

fn open_data_dir(dir: &Path) -> Result<PathBuf> {
    setpoint_store::open_private_dir(dir)?;
    dir.canonicalize()
        .with_context(|| format!("cannot use {}", dir.display()))
}

/// The addresses of client URLs, comma separated.
fn client_addresses(urls: &str) -> Result<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    for url in urls.split(',') {
        let Some(authority) = url.trim().strip_prefix("http://") else {
            bail!("unsupported URL {url:?} in --listen-client-urls: the scheme must be http");
        };
        let resolved = authority.trim_end_matches('/').to_socket_addrs();
        let resolved: Vec<SocketAddr> = resolved
            .with_context(|| format!("cannot resolve {url}"))?
            .collect();
        // Of the addresses of a host Go listens on one, of IPv4 if there is one.
        let first = resolved.iter().find(|address| address.is_ipv4());
        addresses.extend(first.or(resolved.first()));
    }
    Ok(addresses)
}

/// The error of Go's `flag` package.
fn go_flag_error(error: &flag_set::Error) -> String {
    match error {
        flag_set::Error::UnknownFlag(name) => format!("flag provided but not defined: -{name}"),
        flag_set::Error::UnknownShorthand { argument, .. } => {
            format!("flag provided but not defined: {argument}")
        }
        other => other.to_string(),
    }
}

/// The help text. envtest looks for flags in it, each at the start of a line.
fn help() -> String {
    let used = flags::USED.iter().map(|flag| format!("  --{}\n", flag.name));
    let all = flags::all();
    let ignored = all[flags::USED.len()..]
        .iter()
        .map(|flag| format!("  --{}\n", flag.name));
    let (used, ignored): (String, String) = (used.collect(), ignored.collect());
    format!(
        "Setpoint as etcd, for test suites: the data directory of a Setpoint kube-apiserver.\n\n\
         Usage:\n\n  etcd [flags]\n\nFlags:\n{used}\nFlags without effect:\n{ignored}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(urls: &str, expected: &[&str]) {
        let addresses = client_addresses(urls).map(|all| all.iter().map(ToString::to_string).collect());
        let expected: Vec<String> = expected.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(
            addresses.map_err(|error| error.to_string()),
            Ok::<Vec<String>, String>(expected)
        );
    }

    #[test]
    fn client_urls_are_addresses_of_plain_http() {
        check("http://127.0.0.1:2379", &["127.0.0.1:2379"]);
        check("http://127.0.0.1:1/,http://[::1]:2", &["127.0.0.1:1", "[::1]:2"]);
        let error = client_addresses("https://127.0.0.1:2379").unwrap_err();
        assert!(error.to_string().contains("the scheme must be http"), "{error}");
    }

    #[test]
    fn the_help_has_the_flags_that_envtest_looks_for() {
        assert!(help().lines().any(|line| line.trim() == "--unsafe-no-fsync"));
    }

    #[test]
    fn an_unknown_flag_is_reported_as_go_does() {
        let error = flag_set::parse(&flags::all(), &["--nope".to_owned()]).unwrap_err();
        assert_eq!(go_flag_error(&error), "flag provided but not defined: -nope");
    }
}
