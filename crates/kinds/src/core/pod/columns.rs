//! Printer columns of a pod, above all the status column.

use jiff::Timestamp;

use setpoint_api::table::Cell;
use setpoint_schema::fields;
use setpoint_strategy::FieldRef;
use setpoint_strategy::columns::{self, Column, NONE, or_none};

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
    Column::text("IP", |pod, _| or_none(&pod.at(fields::STATUS).at(fields::POD_IP)))
        .wide()
        .description("The pod IP."),
    Column::text("Node", |pod, _| {
        or_none(&pod.at(fields::SPEC).at(fields::NODE_NAME))
    })
    .wide()
    .description("The node of the pod."),
    Column::text("Nominated Node", |pod, _| {
        or_none(&pod.at(fields::STATUS).at(fields::NOMINATED_NODE_NAME))
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
    let (spec, status) = (pod.at(fields::SPEC), pod.at(fields::STATUS));
    let init = spec.at(fields::INIT_CONTAINERS);
    let helpers = init.items().filter(restarts_always).count();
    let mut summary = Summary {
        total: spec.at(fields::CONTAINERS).len() + helpers,
        ready: 0,
        restarts: 0,
        last_restart: None,
        word: phase_or_reason(&status),
    };
    let initializing = summary.add_init(&status, &init);
    if !initializing || is_true(&status, "Initialized") {
        summary.add_containers(&status, &init);
    }
    if pod.at(fields::METADATA).at(fields::DELETION_TIMESTAMP).is_set() {
        let over = matches!(status.at(fields::PHASE).str(), "Succeeded" | "Failed");
        if status.at(fields::REASON).str() == "NodeLost" {
            summary.word = "Unknown".to_owned();
        } else if !over {
            summary.word = "Terminating".to_owned();
        }
    }
    summary
}

fn phase_or_reason(status: &FieldRef<'_>) -> String {
    let gated = status.at(fields::CONDITIONS).items().any(|condition| {
        condition.at(fields::TYPE).str() == "PodScheduled"
            && condition.at(fields::REASON).str() == "SchedulingGated"
    });
    let word = match (gated, status.at(fields::REASON).str()) {
        (true, _) => "SchedulingGated",
        (false, "") => status.at(fields::PHASE).str(),
        (false, reason) => reason,
    };
    word.to_owned()
}

impl Summary {
    /// Adds init containers up to the first that has not finished. Returns whether there is one.
    fn add_init(&mut self, status: &FieldRef<'_>, init: &FieldRef<'_>) -> bool {
        for (at, container_status) in status.at(fields::INIT_CONTAINER_STATUSES).items().enumerate() {
            self.count_restarts(&container_status);
            let state = container_status.at(fields::STATE);
            let (end, waiting) = (
                state.at(fields::TERMINATED),
                state.at(fields::WAITING).at(fields::REASON).str(),
            );
            if end.is_set() && end.at(fields::EXIT_CODE).int() == 0 {
                continue;
            }
            if is_sidecar(init, &container_status) && container_status.at(fields::STARTED).bool() {
                self.ready += usize::from(container_status.at(fields::READY).bool());
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
        for container_status in status.at(fields::INIT_CONTAINER_STATUSES).items() {
            if is_sidecar(init, &container_status) {
                self.count_restarts(&container_status);
            }
        }
        let mut running = false;
        for container_status in status.at(fields::CONTAINER_STATUSES).items().rev() {
            self.count_restarts(&container_status);
            let state = container_status.at(fields::STATE);
            match state_reason(&state) {
                Some(word) => self.word = word,
                None if container_status.at(fields::READY).bool() && state.at(fields::RUNNING).is_set() => {
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
        self.restarts += container_status.at(fields::RESTART_COUNT).int();
        let finished = container_status
            .at(fields::LAST_STATE)
            .at(fields::TERMINATED)
            .at(fields::FINISHED_AT);
        self.last_restart = self.last_restart.max(finished.time());
    }
}

/// The reason why a container is not running, if there is one.
fn state_reason(state: &FieldRef<'_>) -> Option<String> {
    let end = state.at(fields::TERMINATED);
    match state.at(fields::WAITING).at(fields::REASON).str() {
        "" if end.is_set() => Some(ending(&end)),
        "" => None,
        reason => Some(reason.to_owned()),
    }
}

fn ending(end: &FieldRef<'_>) -> String {
    match (end.at(fields::REASON).str(), end.at(fields::SIGNAL).int()) {
        ("", 0) => format!("ExitCode:{}", end.at(fields::EXIT_CODE).int()),
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
    let name = container_status.at(fields::NAME).str();
    init.items()
        .find(|container| container.at(fields::NAME).str() == name)
        .is_some_and(|container| restarts_always(&container))
}

fn restarts_always(container: &FieldRef<'_>) -> bool {
    container.at(fields::RESTART_POLICY).str() == super::ALWAYS
}

fn is_true(status: &FieldRef<'_>, kind: &str) -> bool {
    let mut conditions = status.at(fields::CONDITIONS).items();
    conditions.any(|condition| {
        condition.at(fields::TYPE).str() == kind && condition.at(fields::STATUS).str() == "True"
    })
}

fn gates(pod: &FieldRef<'_>) -> String {
    let gates = pod.at(fields::SPEC).at(fields::READINESS_GATES);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let status = pod.at(fields::STATUS);
    let open = gates
        .items()
        .filter(|gate| is_true(&status, gate.at(fields::CONDITION_TYPE).str()));
    format!("{}/{}", open.count(), gates.len())
}
