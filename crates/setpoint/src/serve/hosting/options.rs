//! [`ClusterOptions`]: the body of a request that creates or forks a cluster.

use serde::Deserialize;
use setpoint_api::Status;
use setpoint_api::name::check_dns1123_label;
use uuid::Uuid;

use crate::args::Up;
use crate::serve::control_plane;

/// The most simulated nodes of a hosted cluster.
const MAX_NODES: u32 = 5000;
/// The admission plugin that rejects pods without a service account, and the controller that creates the accounts.
const ACCOUNT_PLUGIN: &str = "ServiceAccount";
const ACCOUNT_CONTROLLER: &str = "serviceaccount-controller";

/// The name of a new cluster, and what runs in it besides the API server.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ClusterOptions {
    /// Generated if absent.
    pub(super) name: Option<String>,
    /// The controllers to run, in the form of `--controllers`; none if empty.
    pub(super) controllers: Vec<String>,
    /// The number of simulated nodes.
    pub(super) nodes: u32,
}

impl ClusterOptions {
    /// Reads a body, which may be empty.
    pub(super) fn parse(body: &[u8]) -> Result<Self, Status> {
        if body.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        let parsed = serde_json::from_slice(body);
        parsed.map_err(|error| Status::bad_request(format!("invalid options of a cluster: {error}")))
    }

    pub(super) fn check(&self) -> Result<(), Status> {
        let name = self.name.as_deref().unwrap_or_default();
        let problems = self.name.as_deref().map(check_dns1123_label).unwrap_or_default();
        if let Some(problem) = problems.first() {
            return Err(invalid(&format!("name: Invalid value: {name:?}: {problem}")));
        }
        if let Err(error) = control_plane::check_selection(&self.controllers) {
            return Err(invalid(&format!("controllers: {error:#}")));
        }
        if self.nodes > MAX_NODES {
            return Err(invalid(&format!("nodes: must be at most {MAX_NODES}")));
        }
        Ok(())
    }

    /// The flags of the cluster. Where no controller creates service accounts, pods do not need them.
    pub(super) fn args(&self, host: &Up) -> Up {
        let mut args = Up {
            controllers: self.controllers.clone(),
            nodes: self.nodes,
            ..host.clone()
        };
        if !control_plane::selects(&self.controllers, ACCOUNT_CONTROLLER) {
            args.disable_admission_plugins.push(ACCOUNT_PLUGIN.to_owned());
        }
        args
    }
}

/// A name that no other cluster has.
pub(super) fn generate_name() -> String {
    format!("c-{}", Uuid::new_v4().simple())
}

fn invalid(problem: &str) -> Status {
    Status::bad_request(format!("invalid options of a cluster: {problem}"))
}
