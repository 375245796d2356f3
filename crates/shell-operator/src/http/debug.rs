//! Responses to the debug commands: queues, hooks and their snapshots, runtime parameters.

use ::http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use setpoint_codec::{to_tree, yaml};

use super::Reply;
use crate::binding_context::objects_to_json;
use crate::config::MAIN_QUEUE;
use crate::hook::Hook;
use crate::operator::Shared;
use crate::queue::QueueDump;

/// The response to a request. A path ends with the format: `.json`, `.yaml` or `.text`.
pub(super) fn reply(shared: &Shared, method: &Method, path: &str) -> Reply {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    if *method == Method::POST {
        return match path {
            "/config/set" => set_parameter(shared, query),
            _ => not_found(),
        };
    }
    let (path, format) = path.rsplit_once('.').unwrap_or((path, "text"));
    match path {
        "/" => (StatusCode::OK, "debug endpoint is alive\n".to_owned()),
        "/queue/main" => formatted(format, &main_queue(shared), || main_dump(shared).to_text()),
        "/queue/list" => {
            let show_empty = query.split('&').any(|word| word == "showEmpty=true");
            let dumps = shared.queues.values().map(|queue| queue.describe()).collect();
            queue_list(format, dumps, show_empty)
        }
        "/hook/list" => {
            let names: Vec<&str> = shared.hooks.iter().map(|hook| hook.name.as_str()).collect();
            formatted(format, &json!(names), || names.join("\n"))
        }
        "/config/list" => formatted(format, &parameters(shared), || parameters_text(shared)),
        _ => {
            let name = path.strip_prefix("/hook/");
            let name = name.and_then(|rest| rest.strip_suffix("/snapshots"));
            let hook = name.map(|name| shared.hooks.iter().find(|hook| hook.name == name));
            match (hook, name) {
                (Some(Some(hook)), _) => (StatusCode::OK, snapshots(hook)),
                (Some(None), Some(name)) => {
                    (StatusCode::BAD_REQUEST, format!("hook '{name}' is not exist\n"))
                }
                _ => not_found(),
            }
        }
    }
}

fn not_found() -> Reply {
    (StatusCode::NOT_FOUND, "404 page not found\n".to_owned())
}

fn formatted(format: &str, value: &Value, text: impl FnOnce() -> String) -> Reply {
    let body = match format {
        "json" => value.to_string(),
        "yaml" => to_yaml(value),
        _ => text(),
    };
    (StatusCode::OK, body)
}

fn to_yaml(value: &Value) -> String {
    to_tree(value).map_or_else(|error| error.to_string(), |tree| yaml::write(&tree))
}

fn main_dump(shared: &Shared) -> QueueDump {
    shared.queues[MAIN_QUEUE].describe()
}

fn main_queue(shared: &Shared) -> Value {
    serde_json::to_value(main_dump(shared)).unwrap_or_default()
}

/// All queues: the main queue first, the others by name.
fn queue_list(format: &str, mut dumps: Vec<QueueDump>, show_empty: bool) -> Reply {
    dumps.sort_by_key(|dump| (dump.name != MAIN_QUEUE, dump.name.clone()));
    let (active, empty): (Vec<QueueDump>, Vec<QueueDump>) =
        dumps.into_iter().partition(|dump| dump.tasks_count > 0);
    let others = |dumps: &[QueueDump]| dumps.iter().filter(|dump| dump.name != MAIN_QUEUE).count();
    let tasks: usize = active.iter().map(|dump| dump.tasks_count).sum();
    let main: usize = active
        .iter()
        .filter(|dump| dump.name == MAIN_QUEUE)
        .map(|dump| dump.tasks_count)
        .sum();
    let mut value = json!({"active": active});
    if show_empty {
        value["empty"] = json!(empty);
    }
    value["summary"] = json!({
        "mainQueueTasks": main,
        "otherQueues": {"active": others(&active), "empty": others(&empty), "tasks": tasks - main},
        "totalTasks": tasks,
    });
    formatted(format, &value, || {
        let mut text: Vec<String> = active.iter().map(QueueDump::to_text).collect();
        if show_empty {
            let names = empty.iter().map(|dump| format!("- {}\n", dump.name));
            text.push(format!(
                "Empty queues ({}):\n{}",
                empty.len(),
                names.collect::<String>()
            ));
        }
        let main = count(main, "empty", "task", "tasks");
        let mut summary = format!("Summary:\n- '{MAIN_QUEUE}' queue: {main}.\n");
        let (other_active, other_empty) = (others(&active), others(&empty));
        if other_active + other_empty > 0 {
            let queues = count(other_active + other_empty, "", "other queue", "other queues");
            let tasks = count(
                value["summary"]["otherQueues"]["tasks"]
                    .as_u64()
                    .unwrap_or_default() as usize,
                "",
                "task",
                "tasks",
            );
            summary.push_str(&format!(
                "- {queues} ({other_active} active, {other_empty} empty): {tasks}.\n"
            ));
        }
        summary.push_str(&match tasks {
            0 => "- no tasks to handle.\n".to_owned(),
            tasks => format!("- total {} to handle.\n", count(tasks, "", "task", "tasks")),
        });
        text.push(summary);
        text.join("\n")
    })
}

fn count(count: usize, none: &str, one: &str, many: &str) -> String {
    match count {
        0 if !none.is_empty() => none.to_owned(),
        1 => format!("1 {one}"),
        _ => format!("{count} {many}"),
    }
}

/// The objects of each binding of a hook, and how many changes it has seen. Reading them does not drop events.
fn snapshots(hook: &Hook) -> String {
    let monitors = hook.monitors.read().clone();
    let mut bindings = Map::new();
    for (binding, monitor) in hook.config.kubernetes.iter().zip(monitors) {
        let (since_start, since_last) = monitor.counts();
        let objects = objects_to_json(&monitor.snapshot());
        let objects: Value = serde_json::from_slice(&objects).unwrap_or_default();
        bindings.insert(
            binding.options.name.clone(),
            json!({
                "operations": {"sinceLastExecution": since_last, "sinceStart": since_start},
                "snapshot": objects,
            }),
        );
    }
    Value::Object(bindings).to_string()
}

fn parameters(shared: &Shared) -> Value {
    json!([{
        "name": "log.level",
        "description": "Global log level",
        "value": shared.options.log.level().as_str().to_lowercase(),
    }, {
        "name": "log.type",
        "description": "Format of log lines: json, text or color",
        "value": shared.options.log.type_name(),
    }])
}

fn parameters_text(shared: &Shared) -> String {
    let parameters = parameters(shared);
    let lines = parameters.as_array().into_iter().flatten().map(|parameter| {
        let text = |field: &str| parameter[field].as_str().unwrap_or_default().to_owned();
        format!("{} = {} ({})\n", text("name"), text("value"), text("description"))
    });
    lines.collect()
}

fn set_parameter(shared: &Shared, query: &str) -> Reply {
    let value = |name: &str| {
        let mut words = query.split('&').filter_map(|word| word.split_once('='));
        words
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value.to_owned())
    };
    let (name, value) = (
        value("name").unwrap_or_default(),
        value("value").unwrap_or_default(),
    );
    let set = match name.as_str() {
        "log.level" => shared.options.log.set_level(&value),
        "log.type" => shared.options.log.set_type(&value),
        _ => Err(format!("unknown runtime parameter {name:?}")),
    };
    match set {
        Ok(()) => (StatusCode::OK, String::new()),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")),
    }
}
