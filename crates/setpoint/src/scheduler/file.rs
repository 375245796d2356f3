//! The configuration file of the scheduler: a KubeSchedulerConfiguration, of which a process of its own also uses the
//! leader election and the client connection.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde::Deserialize;
use setpoint_api::{Clock, go_duration};
use setpoint_codec::{json, yaml};
use setpoint_scheduler::Config;

use super::extender_transport;

/// The fields that configure the process, and not the scheduling.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ProcessConfig {
    pub(super) leader_election: LeaderElection,
    client_connection: ClientConnection,
}

/// Upstream: `LeaderElectionConfiguration`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct LeaderElection {
    pub(super) leader_elect: Option<bool>,
    lease_duration: Option<String>,
    renew_deadline: Option<String>,
    retry_period: Option<String>,
    resource_name: Option<String>,
    resource_namespace: Option<String>,
}

/// Upstream: `ClientConnectionConfiguration`. Requests are not limited by the client.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClientConnection {
    kubeconfig: String,
}

/// The scheduling configuration of the file, with its extenders connected.
pub(crate) fn read_config(path: &Path, clock: &Arc<dyn Clock>) -> Result<Config> {
    Ok(read_process_config(path, clock)?.0)
}

/// The configuration of the scheduling and of the process.
pub(super) fn read_process_config(path: &Path, clock: &Arc<dyn Clock>) -> Result<(Config, ProcessConfig)> {
    let object = read_object(path)?;
    let mut config = setpoint_scheduler::configuration::parse(&object)?;
    config.connect_extenders(extender_transport::connect, clock)?;
    Ok((config, serde_json::from_value(object)?))
}

fn read_object(path: &Path) -> Result<serde_json::Value> {
    let text = std::fs::read(path)?;
    let tree = yaml::parse(&text)?;
    Ok(serde_json::from_slice(&json::write(&tree))?)
}

impl ProcessConfig {
    /// The kubeconfig that the file names.
    pub(super) fn kubeconfig(&self) -> Option<&Path> {
        let path = &self.client_connection.kubeconfig;
        (!path.is_empty()).then(|| Path::new(path))
    }
}

impl LeaderElection {
    pub(super) fn lease_duration(&self, default: Duration) -> Result<Duration> {
        parse_or(self.lease_duration.as_deref(), default, "leaseDuration")
    }

    pub(super) fn renew_deadline(&self, default: Duration) -> Result<Duration> {
        parse_or(self.renew_deadline.as_deref(), default, "renewDeadline")
    }

    pub(super) fn retry_period(&self, default: Duration) -> Result<Duration> {
        parse_or(self.retry_period.as_deref(), default, "retryPeriod")
    }

    pub(super) fn resource_name<'a>(&'a self, default: &'a str) -> &'a str {
        self.resource_name.as_deref().unwrap_or(default)
    }

    pub(super) fn resource_namespace<'a>(&'a self, default: &'a str) -> &'a str {
        self.resource_namespace.as_deref().unwrap_or(default)
    }
}

/// The duration; zero and absent mean the default, as upstream.
fn parse_or(text: Option<&str>, default: Duration, field: &str) -> Result<Duration> {
    let Some(text) = text else {
        return Ok(default);
    };
    let parsed = go_duration::parse(text).map_err(|error| anyhow!("leaderElection.{field}: {error}"))?;
    Ok(if parsed.is_zero() { default } else { parsed })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kubeconfig, whether a leader is elected, the lease and its duration, of a file with these lines.
    #[track_caller]
    fn check(lines: &str, expected: &str) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        std::fs::write(&path, format!("{head}{lines}")).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(setpoint_api::SystemClock::new());
        let (_, process) = read_process_config(&path, &clock).unwrap();
        let election = &process.leader_election;
        let shown = format!(
            "{:?} {:?} {}/{} {:?}",
            process.kubeconfig(),
            election.leader_elect,
            election.resource_namespace("kube-system"),
            election.resource_name("kube-scheduler"),
            election.lease_duration(Duration::from_secs(15)).unwrap(),
        );
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_file_configures_the_process_and_its_defaults_are_the_flags() {
        check("", "None None kube-system/kube-scheduler 15s");
        check(
            "leaderElection: {leaderElect: false, leaseDuration: 30s, resourceName: mine}\n\
             clientConnection: {kubeconfig: /etc/scheduler.conf}\n",
            "Some(\"/etc/scheduler.conf\") Some(false) kube-system/mine 30s",
        );
        check(
            "leaderElection: {leaseDuration: 0s}\n",
            "None None kube-system/kube-scheduler 15s",
        );
    }
}
