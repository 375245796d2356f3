//! [`ProbeSpec`]: a probe of a pod spec, with the kubelet's defaults: pure.

use std::time::Duration;

use k8s_openapi::api::core::v1::{self, Container, ExecAction, GRPCAction, HTTPGetAction, TCPSocketAction};

/// What a probe is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProbeKind {
    /// Holds the others back until it succeeds; the container is restarted if it does not.
    Startup,
    /// The container is restarted when it fails.
    Liveness,
    /// The container is ready while it succeeds.
    Readiness,
}

/// A probe of a container.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ProbeSpec {
    pub(super) kind: ProbeKind,
    pub(super) action: ProbeAction,
    pub(super) initial_delay: Duration,
    pub(super) timeout: Duration,
    pub(super) period: Duration,
    pub(super) success_threshold: u32,
    pub(super) failure_threshold: u32,
}

/// How a container is probed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ProbeAction {
    Exec(ExecAction),
    HttpGet(HTTPGetAction),
    TcpSocket(TCPSocketAction),
    Grpc(GRPCAction),
}

impl ProbeKind {
    /// The word of the kubelet's events.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }
}

/// The probes of a container.
pub(super) fn probes(container: &Container) -> Vec<ProbeSpec> {
    let probes = [
        (ProbeKind::Startup, &container.startup_probe),
        (ProbeKind::Liveness, &container.liveness_probe),
        (ProbeKind::Readiness, &container.readiness_probe),
    ];
    let specs = probes
        .into_iter()
        .filter_map(|(kind, probe)| spec(kind, probe.as_ref()?));
    specs.collect()
}

fn spec(kind: ProbeKind, probe: &v1::Probe) -> Option<ProbeSpec> {
    let exec = probe.exec.clone().map(ProbeAction::Exec);
    let http = || probe.http_get.clone().map(ProbeAction::HttpGet);
    let tcp = || probe.tcp_socket.clone().map(ProbeAction::TcpSocket);
    let grpc = || probe.grpc.clone().map(ProbeAction::Grpc);
    let seconds = |value: Option<i32>, default: u64| {
        let value = value.and_then(|value| u64::try_from(value).ok());
        Duration::from_secs(value.filter(|value| *value > 0).unwrap_or(default))
    };
    let count = |value: Option<i32>, default: u32| {
        let value = value.and_then(|value| u32::try_from(value).ok());
        value.filter(|value| *value > 0).unwrap_or(default)
    };
    Some(ProbeSpec {
        kind,
        action: exec.or_else(http).or_else(tcp).or_else(grpc)?,
        initial_delay: seconds(probe.initial_delay_seconds, 0),
        timeout: seconds(probe.timeout_seconds, 1),
        period: seconds(probe.period_seconds, 10),
        success_threshold: count(probe.success_threshold, 1),
        failure_threshold: count(probe.failure_threshold, 3),
    })
}
