//! Probes and lifecycle hooks of a container.

use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, name};

use super::ContainerContext;

const PORTS: &str = "must be between 1 and 65535, inclusive";
const HEADER: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
const PROBE_HANDLERS: &[&str] = &[fields::EXEC, fields::HTTP_GET, fields::TCP_SOCKET, fields::GRPC];
const LIFECYCLE_HANDLERS: &[&str] = &[fields::EXEC, fields::HTTP_GET, fields::TCP_SOCKET, fields::SLEEP];

/// Validates the lifecycle and the probes of a long-running container.
pub(super) fn validate(container: &FieldRef<'_>, container_context: &ContainerContext<'_>) {
    for moment in [fields::POST_START, fields::PRE_STOP] {
        let handler = container.at(fields::LIFECYCLE).at(moment);
        if handler.is_set() {
            validate_handler(&handler, LIFECYCLE_HANDLERS, container_context);
        }
    }
    for kind in [
        fields::LIVENESS_PROBE,
        fields::READINESS_PROBE,
        fields::STARTUP_PROBE,
    ] {
        let probe = container.at(kind);
        if probe.is_set() {
            validate_probe(&probe, kind == fields::READINESS_PROBE, container_context);
        }
    }
}

fn validate_probe(probe: &FieldRef<'_>, of_readiness: bool, container_context: &ContainerContext<'_>) {
    validate_handler(probe, PROBE_HANDLERS, container_context);
    for field in [
        fields::INITIAL_DELAY_SECONDS,
        fields::TIMEOUT_SECONDS,
        fields::PERIOD_SECONDS,
        fields::SUCCESS_THRESHOLD,
        fields::FAILURE_THRESHOLD,
    ] {
        probe.at(field).not_negative();
    }
    let (grace, successes) = (
        probe.at(fields::TERMINATION_GRACE_PERIOD_SECONDS),
        probe.at(fields::SUCCESS_THRESHOLD),
    );
    if grace.find_int().is_some_and(|seconds| seconds <= 0) {
        grace.invalid("must be greater than 0");
    }
    if of_readiness && grace.is_set() {
        grace.invalid("must not be set for readinessProbes");
    }
    if !of_readiness && successes.int() != 1 {
        successes.invalid("must be 1");
    }
}

fn validate_handler(handler: &FieldRef<'_>, kinds: &[&str], container_context: &ContainerContext<'_>) {
    let mut handlers = kinds
        .iter()
        .map(|kind| (*kind, handler.at(kind)))
        .filter(|(_, action)| action.is_set());
    let Some((kind, action)) = handlers.next() else {
        return handler.required("must specify a handler type");
    };
    match kind {
        fields::EXEC => _ = action.at(fields::COMMAND).require(),
        fields::HTTP_GET => validate_http(&action),
        fields::SLEEP => validate_sleep(&action, container_context.grace_period()),
        _ => validate_port(&action.at(fields::PORT)),
    }
    for (_, action) in handlers {
        action.forbidden("may not specify more than 1 handler type");
    }
}

fn validate_http(action: &FieldRef<'_>) {
    action.at(fields::PATH).require();
    validate_port(&action.at(fields::PORT));
    let scheme = action.at(fields::SCHEME);
    if !matches!(scheme.str(), "HTTP" | "HTTPS") {
        scheme.not_supported(&["HTTP", "HTTPS"]);
    }
    for header in action.at(fields::HTTP_HEADERS).items() {
        let name = header.at(fields::NAME).str();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || !name.bytes().all(allowed) {
            action.at(fields::HTTP_HEADERS).invalid_as(name, HEADER);
        }
    }
}

/// A port number or a port name.
fn validate_port(port: &FieldRef<'_>) {
    match port.value() {
        Tree::Str(text) => name::report(text, name::port(text), port.errors()),
        _ if (1..=65535).contains(&port.int()) => {}
        _ => port.invalid_as(port.int(), PORTS),
    }
}

fn validate_sleep(action: &FieldRef<'_>, grace: Option<i64>) {
    let seconds = action.at(fields::SECONDS).int();
    if let Some(grace) = grace
        && !(0..=grace).contains(&seconds)
    {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        action.invalid_as(seconds, &detail);
    }
}
