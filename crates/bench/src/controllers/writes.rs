//! Counts writes during an operation, by watching the relevant resources.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc, time::Duration};

use anyhow::{Context, Result, ensure};
use tokio::{
    task::{JoinSet, LocalSet},
    time::{sleep, timeout},
};

use crate::api::{connection::Connection, load, request, server::Server};

/// The number of events by resource and type.
pub(crate) type Counts = BTreeMap<(&'static str, &'static str), u64>;

/// The watched resources and their paths.
const RESOURCES: [(&str, &str); 6] = [
    ("pods", "/api/v1/pods"),
    ("events", "/api/v1/events"),
    ("nodes", "/api/v1/nodes"),
    ("leases", "/apis/coordination.k8s.io/v1/leases"),
    ("replicasets", "/apis/apps/v1/replicasets"),
    ("deployments", "/apis/apps/v1/deployments"),
];

/// The types of events that are writes, and the verb of each.
const KINDS: [(&[u8], &str); 3] = [
    (b"{\"type\":\"ADDED\"", "create"),
    (b"{\"type\":\"MODIFIED\"", "update"),
    (b"{\"type\":\"DELETED\"", "delete"),
];

/// The maximum time of delivery of events.
const ARRIVAL: Duration = Duration::from_secs(2);
const START_LIMIT: Duration = Duration::from_secs(60);

/// Runs an operation and counts the writes from its start to its end.
pub(crate) async fn during<T>(server: &Server, act: impl Future<Output = Result<T>>) -> Result<(T, Counts)> {
    let counts = Rc::new(RefCell::new(Counts::new()));
    let connections = load::connect(&server.endpoint, RESOURCES.len()).await?;
    let local = LocalSet::new();
    let mut watches = JoinSet::new();
    for (connection, resource) in connections.into_iter().zip(RESOURCES) {
        watches.spawn_local_on(watch(connection, resource, counts.clone()), &local);
    }
    let all_listening = async {
        while counts.borrow().len() < RESOURCES.len() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    local
        .run_until(timeout(START_LIMIT, all_listening))
        .await
        .context("not all watches were answered")?;
    let done = local.run_until(act).await?;
    local.run_until(sleep(ARRIVAL)).await;
    watches.abort_all();
    counts.borrow_mut().retain(|(_, kind), _| !kind.is_empty());
    Ok((done, counts.take()))
}

/// Counts the events of one watch. The start of the watch is counted under an empty event type.
async fn watch(
    mut connection: Connection,
    (resource, path): (&'static str, &'static str),
    counts: Rc<RefCell<Counts>>,
) -> Result<()> {
    let list = request::encode("GET", &format!("{path}?limit=1"), b"");
    let response = connection.round_trip(&list).await?;
    let version = request::find_text(response.body, "resourceVersion").context("a list without a version")?;
    let path = format!("{path}?watch=1&resourceVersion={version}");
    let mut status = 0;
    // The start of the line that is being received, up to the type of the event.
    let mut line: Vec<u8> = Vec::new();
    let followed = connection
        .follow(
            &request::encode("GET", &path, b""),
            |received| {
                status = received;
                counts.borrow_mut().insert((resource, ""), 1);
            },
            |data| {
                for byte in data {
                    if *byte == b'\n' {
                        if let Some(kind) = kind_of(&line) {
                            *counts.borrow_mut().entry((resource, kind)).or_default() += 1;
                        }
                        line.clear();
                    } else if line.len() < 32 {
                        line.push(*byte);
                    }
                }
                true
            },
        )
        .await;
    ensure!(status == 200, "a watch returned {status}");
    followed
}

fn kind_of(line: &[u8]) -> Option<&'static str> {
    let found = KINDS.iter().find(|(start, _)| line.starts_with(start));
    found.map(|(_, kind)| *kind)
}
