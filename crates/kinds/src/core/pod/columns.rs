//! Printer columns of a pod, above all the status column.

use jiff::Timestamp;

use setpoint_api::table::Cell;

use crate::columns::{self, Column, NONE, or_none};
use crate::field::FieldRef;

pub(super) const COLUMNS: &[Column] = &[
    columns::NAME,
    Column::text("Ready", |pod, _| {
        let summary = summary(pod);
        Cell::from(format!("{}/{}", summary.ready, summary.total))
    })
    .description("The number of ready containers, of all."),
    Column::text("Status", |pod, _| Cell::from(summary(pod).word)).description("The current state."),
    Column::text("Restarts", |pod, now| Cell::from(restarts(&summary(pod), now)))
        .description("The number of container restarts, and the time since the last."),
    columns::AGE,
    Column::text("IP", |pod, _| or_none(&pod.at("status").at("podIP")))
        .wide()
        .description("The pod IP."),
    Column::text("Node", |pod, _| or_none(&pod.at("spec").at("nodeName")))
        .wide()
        .description("The node of the pod."),
    Column::text("Nominated Node", |pod, _| {
        or_none(&pod.at("status").at("nominatedNodeName"))
    })
    .wide()
    .description("The node nominated by preemption."),
    Column::text("Readiness Gates", |pod, _| Cell::from(gates(pod)))
        .wide()
        .description("The number of true readiness gates, of all."),
];

/// The values of the table's cells.
struct Summary {
    total: usize,
    ready: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
    word: String,
}

fn summary(pod: &FieldRef<'_>) -> Summary {
    let (spec, status) = (pod.at("spec"), pod.at("status"));
    let init = spec.at("initContainers");
    let helpers = init.items().filter(restarts_always).count();
    let mut summary = Summary {
        total: spec.at("containers").len() + helpers,
        ready: 0,
        restarts: 0,
        last_restart: None,
        word: phase_or_reason(&status),
    };
    let initializing = summary.add_init(&status, &init);
    if !initializing || is_true(&status, "Initialized") {
        summary.add_containers(&status, &init);
    }
    if pod.at("metadata").at("deletionTimestamp").is_set() {
        let over = matches!(status.at("phase").str(), "Succeeded" | "Failed");
        if status.at("reason").str() == "NodeLost" {
            summary.word = "Unknown".to_owned();
        } else if !over {
            summary.word = "Terminating".to_owned();
        }
    }
    summary
}

fn phase_or_reason(status: &FieldRef<'_>) -> String {
    let gated = status.at("conditions").items().any(|condition| {
        condition.at("type").str() == "PodScheduled" && condition.at("reason").str() == "SchedulingGated"
    });
    let word = match (gated, status.at("reason").str()) {
        (true, _) => "SchedulingGated",
        (false, "") => status.at("phase").str(),
        (false, reason) => reason,
    };
    word.to_owned()
}

impl Summary {
    /// Adds init containers up to the first that has not finished. Returns whether there is one.
    fn add_init(&mut self, status: &FieldRef<'_>, init: &FieldRef<'_>) -> bool {
        for (at, container_status) in status.at("initContainerStatuses").items().enumerate() {
            self.count_restarts(&container_status);
            let state = container_status.at("state");
            let (end, waiting) = (state.at("terminated"), state.at("waiting").at("reason").str());
            if end.is_set() && end.at("exitCode").int() == 0 {
                continue;
            }
            if is_sidecar(init, &container_status) && container_status.at("started").bool() {
                self.ready += usize::from(container_status.at("ready").bool());
                continue;
            }
            self.word = match (end.is_set(), waiting) {
                (true, _) => format!("Init:{}", ending(&end)),
                (false, "" | "PodInitializing") => format!("Init:{at}/{}", init.len()),
                (false, waiting) => format!("Init:{waiting}"),
            };
            return true;
        }
        false
    }

    fn add_containers(&mut self, status: &FieldRef<'_>, init: &FieldRef<'_>) {
        (self.restarts, self.last_restart) = (0, None);
        for container_status in status.at("initContainerStatuses").items() {
            if is_sidecar(init, &container_status) {
                self.count_restarts(&container_status);
            }
        }
        let mut running = false;
        for container_status in status.at("containerStatuses").items().rev() {
            self.count_restarts(&container_status);
            let state = container_status.at("state");
            match state_reason(&state) {
                Some(word) => self.word = word,
                None if container_status.at("ready").bool() && state.at("running").is_set() => {
                    running = true;
                    self.ready += 1;
                }
                None => {}
            }
        }
        if self.word == "Completed" && running {
            let ready = is_true(status, "Ready");
            self.word = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }

    fn count_restarts(&mut self, container_status: &FieldRef<'_>) {
        self.restarts += container_status.at("restartCount").int();
        let finished = container_status.at("lastState").at("terminated").at("finishedAt");
        self.last_restart = self.last_restart.max(finished.time());
    }
}

/// The reason why a container is not running, if there is one.
fn state_reason(state: &FieldRef<'_>) -> Option<String> {
    let end = state.at("terminated");
    match state.at("waiting").at("reason").str() {
        "" if end.is_set() => Some(ending(&end)),
        "" => None,
        reason => Some(reason.to_owned()),
    }
}

fn ending(end: &FieldRef<'_>) -> String {
    match (end.at("reason").str(), end.at("signal").int()) {
        ("", 0) => format!("ExitCode:{}", end.at("exitCode").int()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn restarts(summary: &Summary, now: Timestamp) -> String {
    match summary.last_restart {
        Some(last) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, columns::human_age(last, now))
        }
        _ => summary.restarts.to_string(),
    }
}

/// Whether the status is that of a restartable init container (a sidecar).
fn is_sidecar(init: &FieldRef<'_>, container_status: &FieldRef<'_>) -> bool {
    let name = container_status.at("name").str();
    init.items()
        .find(|container| container.at("name").str() == name)
        .is_some_and(|container| restarts_always(&container))
}

fn restarts_always(container: &FieldRef<'_>) -> bool {
    container.at("restartPolicy").str() == super::ALWAYS
}

fn is_true(status: &FieldRef<'_>, kind: &str) -> bool {
    let mut conditions = status.at("conditions").items();
    conditions.any(|condition| condition.at("type").str() == kind && condition.at("status").str() == "True")
}

fn gates(pod: &FieldRef<'_>) -> String {
    let gates = pod.at("spec").at("readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let status = pod.at("status");
    let open = gates
        .items()
        .filter(|gate| is_true(&status, gate.at("conditionType").str()));
    format!("{}/{}", open.count(), gates.len())
}
