//! What a table shows of a pod. The status word is the first thing people look at, so it says what matters most.

use jiff::Timestamp;

use setpoint_api::table::Cell;

use crate::at::At;
use crate::columns::{self, Column, NONE, or_none};

pub(super) const COLUMNS: &[Column] = &[
    columns::NAME,
    Column::text("Ready", |pod, _| {
        let summary = summary(pod);
        Cell::from(format!("{}/{}", summary.ready, summary.total))
    })
    .about("How many of its containers are ready."),
    Column::text("Status", |pod, _| Cell::from(summary(pod).word)).about("What it is doing."),
    Column::text("Restarts", |pod, now| Cell::from(restarts(&summary(pod), now)))
        .about("How often its containers were started again, and when last."),
    columns::AGE,
    Column::text("IP", |pod, _| or_none(&pod.at("status").at("podIP")))
        .wide()
        .about("Its address."),
    Column::text("Node", |pod, _| or_none(&pod.at("spec").at("nodeName")))
        .wide()
        .about("The node it is bound to."),
    Column::text("Nominated Node", |pod, _| {
        or_none(&pod.at("status").at("nominatedNodeName"))
    })
    .wide()
    .about("The node that is being cleared for it."),
    Column::text("Readiness Gates", |pod, _| Cell::from(gates(pod)))
        .wide()
        .about("How many of its readiness gates are open."),
];

/// What the columns need to know.
struct Summary {
    total: usize,
    ready: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
    word: String,
}

fn summary(pod: &At<'_>) -> Summary {
    let (spec, status) = (pod.at("spec"), pod.at("status"));
    let init = spec.at("initContainers");
    let helpers = init.items().filter(restarts_always).count();
    let mut summary = Summary {
        total: spec.at("containers").len() + helpers,
        ready: 0,
        restarts: 0,
        last_restart: None,
        word: first_word(&status),
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

fn first_word(status: &At<'_>) -> String {
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
    /// Goes through the init containers up to the first that is not done. Whether there is one.
    fn add_init(&mut self, status: &At<'_>, init: &At<'_>) -> bool {
        for (at, own) in status.at("initContainerStatuses").items().enumerate() {
            self.count_restarts(&own);
            let state = own.at("state");
            let (end, waiting) = (state.at("terminated"), state.at("waiting").at("reason").str());
            if end.is_set() && end.at("exitCode").int() == 0 {
                continue;
            }
            if is_helper(init, &own) && own.at("started").bool() {
                self.ready += usize::from(own.at("ready").bool());
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

    fn add_containers(&mut self, status: &At<'_>, init: &At<'_>) {
        (self.restarts, self.last_restart) = (0, None);
        for own in status.at("initContainerStatuses").items() {
            if is_helper(init, &own) {
                self.count_restarts(&own);
            }
        }
        let mut running = false;
        for own in status.at("containerStatuses").items().rev() {
            self.count_restarts(&own);
            let state = own.at("state");
            match word_of(&state) {
                Some(word) => self.word = word,
                None if own.at("ready").bool() && state.at("running").is_set() => {
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

    fn count_restarts(&mut self, own: &At<'_>) {
        self.restarts += own.at("restartCount").int();
        let finished = own.at("lastState").at("terminated").at("finishedAt");
        self.last_restart = self.last_restart.max(finished.time());
    }
}

/// What keeps a container from running, if something does.
fn word_of(state: &At<'_>) -> Option<String> {
    let end = state.at("terminated");
    match state.at("waiting").at("reason").str() {
        "" if end.is_set() => Some(ending(&end)),
        "" => None,
        reason => Some(reason.to_owned()),
    }
}

fn ending(end: &At<'_>) -> String {
    match (end.at("reason").str(), end.at("signal").int()) {
        ("", 0) => format!("ExitCode:{}", end.at("exitCode").int()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn restarts(summary: &Summary, now: Timestamp) -> String {
    match summary.last_restart {
        Some(last) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, columns::ago(last, now))
        }
        _ => summary.restarts.to_string(),
    }
}

/// Whether the status is that of an init container that stays beside the others.
fn is_helper(init: &At<'_>, own: &At<'_>) -> bool {
    let name = own.at("name").str();
    init.items()
        .find(|container| container.at("name").str() == name)
        .is_some_and(|container| restarts_always(&container))
}

fn restarts_always(container: &At<'_>) -> bool {
    container.at("restartPolicy").str() == super::ALWAYS
}

fn is_true(status: &At<'_>, kind: &str) -> bool {
    let mut conditions = status.at("conditions").items();
    conditions.any(|condition| condition.at("type").str() == kind && condition.at("status").str() == "True")
}

fn gates(pod: &At<'_>) -> String {
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
