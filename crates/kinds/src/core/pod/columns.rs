//! What a table shows of a pod. The status word is the first thing people look at, so it says what matters most.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus,
};

use setpoint_api::table::Cell;

use crate::columns::{self, Column, NONE, or_none};

pub(super) const COLUMNS: &[Column<Pod>] = &[
    columns::name(),
    Column::text("Ready", |pod: &Pod, _| {
        let summary = summary(pod);
        Cell::from(format!("{}/{}", summary.ready, summary.total))
    })
    .about("How many of its containers are ready."),
    Column::text("Status", |pod: &Pod, _| Cell::from(summary(pod).word)).about("What it is doing."),
    Column::text("Restarts", |pod: &Pod, now| {
        Cell::from(restarts(&summary(pod), now))
    })
    .about("How often its containers were started again, and when last."),
    columns::age(),
    Column::text("IP", |pod: &Pod, _| or_none(address(pod)))
        .wide()
        .about("Its address."),
    Column::text("Node", |pod: &Pod, _| {
        or_none(pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()))
    })
    .wide()
    .about("The node it is bound to."),
    Column::text("Nominated Node", |pod: &Pod, _| {
        let status = pod.status.as_ref();
        or_none(status.and_then(|status| status.nominated_node_name.as_deref()))
    })
    .wide()
    .about("The node that is being cleared for it."),
    Column::text("Readiness Gates", |pod: &Pod, _| Cell::from(gates(pod)))
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

fn summary(pod: &Pod) -> Summary {
    let default = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&default);
    let spec = pod.spec.clone().unwrap_or_default();
    let init = spec.init_containers.unwrap_or_default();
    let helpers = init.iter().filter(|container| restarts_always(container)).count();
    let mut summary = Summary {
        total: spec.containers.len() + helpers,
        ready: 0,
        restarts: 0,
        last_restart: None,
        word: first_word(status),
    };
    let initializing = summary.add_init(status, &init);
    if !initializing || is_true(status, "Initialized") {
        summary.add_containers(status, &init);
    }
    if pod.metadata.deletion_timestamp.is_some() {
        let over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        if status.reason.as_deref() == Some("NodeLost") {
            summary.word = "Unknown".to_owned();
        } else if !over {
            summary.word = "Terminating".to_owned();
        }
    }
    summary
}

fn first_word(status: &PodStatus) -> String {
    let gated = status.conditions.iter().flatten().any(|condition| {
        condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("SchedulingGated")
    });
    let reason = status.reason.clone().filter(|reason| !reason.is_empty());
    match gated {
        true => "SchedulingGated".to_owned(),
        false => reason.or_else(|| status.phase.clone()).unwrap_or_default(),
    }
}

impl Summary {
    /// Goes through the init containers up to the first that is not done. Whether there is one.
    fn add_init(&mut self, status: &PodStatus, init: &[Container]) -> bool {
        let statuses = status.init_container_statuses.iter().flatten();
        for (at, own) in statuses.enumerate() {
            self.count_restarts(own);
            let helper = find(init, &own.name).is_some_and(restarts_always);
            let state = own.state.clone().unwrap_or_default();
            match (&state.terminated, &state.waiting) {
                (Some(end), _) if end.exit_code == 0 => continue,
                _ if helper && own.started == Some(true) => {
                    self.ready += usize::from(own.ready);
                    continue;
                }
                (Some(end), _) => self.word = format!("Init:{}", ending(end)),
                (None, Some(waiting)) if is_telling(waiting.reason.as_deref()) => {
                    self.word = format!("Init:{}", waiting.reason.as_deref().unwrap_or_default());
                }
                _ => self.word = format!("Init:{at}/{}", init.len()),
            }
            return true;
        }
        false
    }

    fn add_containers(&mut self, status: &PodStatus, init: &[Container]) {
        (self.restarts, self.last_restart) = (0, None);
        for own in status.init_container_statuses.iter().flatten() {
            if find(init, &own.name).is_some_and(restarts_always) {
                self.count_restarts(own);
            }
        }
        let mut running = false;
        for own in status.container_statuses.iter().flatten().rev() {
            self.count_restarts(own);
            let state = own.state.clone().unwrap_or_default();
            match word_of(&state) {
                Some(word) => self.word = word,
                None if own.ready && state.running.is_some() => {
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

    fn count_restarts(&mut self, own: &ContainerStatus) {
        self.restarts += i64::from(own.restart_count);
        let last = own
            .last_state
            .as_ref()
            .and_then(|state| state.terminated.as_ref());
        let finished = last.and_then(|end| end.finished_at.as_ref());
        self.last_restart = self.last_restart.max(finished.map(|time| time.0));
    }
}

/// What keeps a container from running, if something does.
fn word_of(state: &ContainerState) -> Option<String> {
    let waiting = state.waiting.as_ref().and_then(|waiting| waiting.reason.clone());
    match (waiting.filter(|reason| !reason.is_empty()), &state.terminated) {
        (Some(reason), _) => Some(reason),
        (None, Some(end)) => Some(ending(end)),
        (None, None) => None,
    }
}

fn ending(end: &ContainerStateTerminated) -> String {
    let reason = end.reason.as_deref().unwrap_or_default();
    match (reason, end.signal.unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", end.exit_code),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn is_telling(reason: Option<&str>) -> bool {
    !matches!(reason, None | Some("" | "PodInitializing"))
}

fn restarts(summary: &Summary, now: Timestamp) -> String {
    match summary.last_restart {
        Some(last) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, columns::ago(last, now))
        }
        _ => summary.restarts.to_string(),
    }
}

fn find<'a>(containers: &'a [Container], name: &str) -> Option<&'a Container> {
    containers.iter().find(|container| container.name == name)
}

fn restarts_always(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some(super::ALWAYS)
}

fn is_true(status: &PodStatus, kind: &str) -> bool {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    conditions
        .iter()
        .any(|condition| condition.type_ == kind && condition.status == "True")
}

fn address(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref()?;
    status.pod_ip.as_deref()
}

fn gates(pod: &Pod) -> String {
    let gates = pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_deref());
    let gates = gates.unwrap_or_default();
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let status = pod.status.clone().unwrap_or_default();
    let open = gates.iter().filter(|gate| is_true(&status, &gate.condition_type));
    format!("{}/{}", open.count(), gates.len())
}
