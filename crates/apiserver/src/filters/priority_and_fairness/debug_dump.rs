//! The debug dumps under `/debug/api_priority_and_fairness/`: levels, queues and requests, in upstream's columns.

use std::time::Duration;

use jiff::Timestamp;

use super::configuration::LevelConfiguration;
use super::level::{ActiveRequest, LevelState};
use super::objects::DistinguisherMethod;
use super::queue_set::{Request, RequestState};
use super::{PriorityAndFairness, namespace};
use crate::request::query::Query;
use crate::request::{RequestInfo, parse};

const PREFIX: &str = "/debug/api_priority_and_fairness/";
/// The least width of a column.
const MIN_COLUMN_WIDTH: usize = 8;
/// The start time of a request that has not started.
const NEVER: &str = "0001-01-01T00:00:00Z";

#[rustfmt::skip]
const LEVEL_COLUMNS: [&str; 10] = [
    "PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests",
    "DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests",
];
#[rustfmt::skip]
const QUEUE_COLUMNS: [&str; 9] = [
    "PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR",
    "InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum",
];
#[rustfmt::skip]
const REQUEST_COLUMNS: [&str; 10] = [
    "PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher", "ArriveTime",
    "InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime",
];
#[rustfmt::skip]
const DETAIL_COLUMNS: [&str; 8] = [
    "UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource",
];

/// A row of a dump.
type Row = Vec<String>;

/// The dump at a path; `None` if there is none.
pub(crate) fn dump(filter: &PriorityAndFairness, path: &str, query: &Query<'_>) -> Option<String> {
    let configuration = filter.configuration.load();
    let levels = &configuration.levels;
    let rows = match path.strip_prefix(PREFIX)? {
        "dump_priority_levels" => {
            let rows = levels.iter().map(level_row);
            std::iter::once(headers(&LEVEL_COLUMNS)).chain(rows).collect()
        }
        "dump_queues" => {
            let rows = levels.iter().flat_map(queue_rows);
            std::iter::once(headers(&QUEUE_COLUMNS)).chain(rows).collect()
        }
        "dump_requests" => {
            let with_details = query.text("includeRequestDetails").is_some();
            let mut header = headers(&REQUEST_COLUMNS);
            if with_details {
                header.extend(headers(&DETAIL_COLUMNS));
            }
            let rows = levels.iter().flat_map(|one| request_rows(one, with_details));
            std::iter::once(header).chain(rows).collect()
        }
        _ => return None,
    };
    Some(align(rows))
}

fn headers(columns: &[&str]) -> Row {
    columns.iter().map(|column| (*column).to_owned()).collect()
}

fn level_row(one: &LevelConfiguration) -> Row {
    one.level.read(|state| {
        let totals = state.queue_set.totals();
        let active = state
            .queue_set
            .queues()
            .iter()
            .filter(|queue| queue.len() > 0)
            .count();
        vec![
            one.level.name().to_owned(),
            active.to_string(),
            state.queue_set.is_idle().to_string(),
            one.level.is_quiescing().to_string(),
            totals.waiting.to_string(),
            totals.executing.to_string(),
            totals.dispatched.to_string(),
            totals.rejected.to_string(),
            // Upstream counts those that waited for too long as cancelled, too.
            "0".to_owned(),
            totals.cancelled.to_string(),
        ]
    })
}

fn queue_rows(one: &LevelConfiguration) -> Vec<Row> {
    one.level.read(|state| {
        let queues = state.queue_set.queues().iter().enumerate();
        let rows = queues.map(|(index, queue)| {
            let sums = queue.sums();
            vec![
                one.level.name().to_owned(),
                index.to_string(),
                queue.len().to_string(),
                queue.executing().to_string(),
                queue.seats_in_use().to_string(),
                queue.next_dispatch_r().to_string(),
                sums.initial_seats.to_string(),
                sums.max_seats.to_string(),
                sums.work.to_string(),
            ]
        });
        rows.collect()
    })
}

/// The waiting requests of each queue in order, then the executing ones.
fn request_rows(one: &LevelConfiguration, with_details: bool) -> Vec<Row> {
    one.level.read(|state| {
        let mut rows = Vec::new();
        for queue in state.queue_set.queues() {
            for (index, id) in queue.waiting().enumerate() {
                let request = state.queue_set.find(id);
                rows.extend(
                    request.map(|request| request_row(state, request, &index.to_string(), with_details)),
                );
            }
        }
        let executing =
            |request: &&Request<ActiveRequest>| matches!(request.state, RequestState::Executing { .. });
        for request in state.queue_set.requests().filter(executing) {
            rows.push(request_row(state, request, "-1", with_details));
        }
        for row in &mut rows {
            row.insert(0, one.level.name().to_owned());
        }
        rows
    })
}

/// All columns but the level's name.
fn request_row(state: &LevelState, request: &Request<ActiveRequest>, index: &str, with_details: bool) -> Row {
    let details = &request.attached.details;
    let path = details.path.as_ref();
    let query = Query::parse(path.and_then(|path| path.query()));
    let info = parse(&details.method, path.map_or("", |path| path.path()), &query);
    let distinguisher = match request.attached.distinguisher {
        None => "",
        Some(DistinguisherMethod::ByUser) => &details.user.name,
        Some(DistinguisherMethod::ByNamespace) => namespace(&info.attributes()),
    };
    let mut row = vec![
        state.flows[request.attached.slot].name().to_owned(),
        request
            .queue
            .map_or_else(|| "-1".to_owned(), |queue| queue.to_string()),
        index.to_owned(),
        distinguisher.to_owned(),
        request.arrival.to_string(),
        request.work.initial_seats.to_string(),
        request.work.final_seats.to_string(),
        go_duration(request.work.additional_latency),
        started(request).map_or_else(|| NEVER.to_owned(), |started| started.to_string()),
    ];
    if with_details {
        row.push(details.user.name.clone());
        row.push(info.verb().to_owned());
        row.push(path.map_or("", |path| path.path()).to_owned());
        row.extend(target_columns(&info));
    }
    row
}

fn started(request: &Request<ActiveRequest>) -> Option<Timestamp> {
    match request.state {
        RequestState::Executing { started } => Some(started),
        RequestState::Waiting | RequestState::Lingering => None,
    }
}

/// Namespace, name, API version, resource and subresource.
fn target_columns(info: &RequestInfo<'_>) -> [String; 5] {
    let RequestInfo::Resource(resource) = info else {
        return Default::default();
    };
    let gvr = &resource.target.resource;
    let api_version = match gvr.group.as_str() {
        "" => gvr.version.to_string(),
        group => format!("{group}/{}", gvr.version),
    };
    [
        resource.namespace.clone(),
        resource.name.clone(),
        api_version,
        gvr.resource.to_string(),
        resource
            .target
            .subresource
            .as_deref()
            .unwrap_or_default()
            .to_owned(),
    ]
}

/// A duration of less than a minute as Go writes it: `0s`, `5ms`, `1.5s`.
fn go_duration(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    let (unit, scale) = match nanoseconds {
        0 => return "0s".to_owned(),
        1..1_000 => ("ns", 0),
        1_000..1_000_000 => ("\u{b5}s", 3),
        1_000_000..1_000_000_000 => ("ms", 6),
        _ => ("s", 9),
    };
    let whole = nanoseconds / 10_u128.pow(scale);
    let fraction = format!(
        "{:0width$}",
        nanoseconds % 10_u128.pow(scale),
        width = scale as usize
    );
    match fraction.trim_end_matches('0') {
        "" => format!("{whole}{unit}"),
        fraction => format!("{whole}.{fraction}{unit}"),
    }
}

/// Separates the columns by commas and pads them, except the last, to the same width.
fn align(rows: Vec<Row>) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width_of = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count() + ",".len());
        (cells.max().unwrap_or_default() + 1).max(MIN_COLUMN_WIDTH)
    };
    let widths: Vec<usize> = (0..columns).map(width_of).collect();
    let mut text = String::new();
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            match column + 1 == columns {
                true => text.push_str(cell),
                false => text.push_str(&format!("{:width$}", format!("{cell},"), width = widths[column])),
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_padded_to_the_same_width() {
        let rows = [["Name", "Length", "End"], ["a-long-name", "1", "x"]];
        let rows = rows.map(|row| headers(&row)).to_vec();
        assert_eq!(align(rows), "Name,        Length, End\na-long-name, 1,      x\n");
    }

    #[test]
    fn durations_are_written_as_go_does() {
        for (nanoseconds, expected) in [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5\u{b5}s"),
            (5_000_000, "5ms"),
            (12_340_000, "12.34ms"),
            (1_050_000_000, "1.05s"),
        ] {
            assert_eq!(go_duration(Duration::from_nanos(nanoseconds)), expected);
        }
    }
}
