//! The recorded responses of the reference server: every write whose kind is known is replayed on the recorded object, and
//! the managed fields, the merged object or the error are compared with the recorded ones.
//!
//! There is no server here: its defaults are taken from the recorded response, and writes that it rejects for other
//! reasons are skipped.

use std::collections::HashMap;
use std::fmt::Write;

use serde_json::Value;

use super::custom::kind_shape;
use crate::apply::remove::remove;
use crate::apply::{Error, FieldManager, FieldSet, Force, ManagedFields, apply, update};
use crate::pack::Pack;
use crate::patch;
use crate::prune::prune;
use crate::shape::Shape;
use crate::tree::{Tree, to_tree};
use crate::write::write_tree;

const AREAS: [&str; 4] = ["ssa", "kinds", "update", "patches"];

/// The replacement for masked times.
const TIME: &str = "2026-01-01T00:00:00Z";

/// The replacement for masked uids.
const UID: &str = "u-1";

/// Metadata that only the server sets.
const SERVER_SET: [&str; 9] = [
    "managedFields",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "uid",
    "namespace",
    "name",
];

/// Cases in which the server changes the written object by rules of the kind, which are not known here.
const CHANGED_BY_SERVER: [&str; 11] = [
    // The server releases node ports.
    "ssa.svc.type",
    // The server moves stringData into data.
    "ssa.kind.Secret",
    "update.Secret.stringdata",
    // A controller of the server applies to the status meanwhile.
    "kinds.FlowSchema.finalizer",
    // The server resets labels, too.
    "update.status.Deployment",
    // Two uids are recorded as one.
    "patches.smp.meta-owner-add",
    // The server adds a taint.
    "ssa.kind.Node",
    // The server resets the spec, too.
    "kinds.CertificateSigningRequest",
    "update.CertificateSigningRequest",
    "update.csr",
    // A binding is not stored.
    "update.pod.binding",
];

enum Outcome {
    Passed,
    /// It cannot be checked here.
    Skipped,
    Failed(String),
}

#[derive(Default)]
struct Tally {
    passed: usize,
    skipped: usize,
    failed: Vec<String>,
}

/// Mission TO11: server-side apply, field managers, conflicts.
#[test]
fn to11_recorded_writes_have_the_recorded_owners() {
    let mut failures = Vec::new();
    for area in AREAS {
        let cases = setpoint_reference::transcript(area);
        let mut tally = Tally::default();
        cases
            .lines()
            .map(unmasked)
            .for_each(|case| replay(&serde_json::from_str(&case).unwrap(), &mut tally));
        let failed = tally.failed.len();
        println!(
            "{area}: {} passed, {failed} failed, {} skipped",
            tally.passed, tally.skipped
        );
        failures.extend(tally.failed);
    }
    assert!(
        failures.is_empty(),
        "{} failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Replaces the masks of values that differ from run to run.
fn unmasked(case: &str) -> String {
    case.replace("11111111-1111-1111-1111-111111111111", UID)
        .replace("<uid>", UID)
        .replace("<time>", TIME)
        .replace("<rv>", "1")
}

struct Case<'a> {
    steps: &'a [Value],
    /// The shapes of the case's custom kinds, by kind.
    custom: HashMap<String, Shape>,
    /// The last known state of each object, by path.
    objects: HashMap<String, Tree>,
}

fn replay(case: &Value, tally: &mut Tally) {
    let mut known = Case {
        steps: case["steps"].as_array().unwrap(),
        custom: custom_kinds(case),
        objects: HashMap::new(),
    };
    let id = case["id"].as_str().unwrap();
    for (at, step) in known.steps.iter().enumerate() {
        if step["method"] == "GET" || step["method"] == "DELETE" {
            known.record(step);
            continue;
        }
        match known.check(step) {
            Outcome::Failed(_) if CHANGED_BY_SERVER.iter().any(|prefix| id.starts_with(prefix)) => {
                tally.skipped += 1
            }
            Outcome::Passed => tally.passed += 1,
            Outcome::Skipped => tally.skipped += 1,
            Outcome::Failed(why) => tally.failed.push(format!("{id} step {at}: {why}")),
        }
        known.record(step);
    }
}

fn custom_kinds(case: &Value) -> HashMap<String, Shape> {
    let setup = case["setup"].as_array().into_iter().flatten();
    let bodies = setup.filter_map(|step| serde_json::from_str::<Value>(step["body"].as_str()?).ok());
    bodies
        .filter(|body| body["kind"] == "CustomResourceDefinition")
        .map(|body| {
            let kind = body["spec"]["names"]["kind"].as_str().unwrap().to_owned();
            (
                kind,
                kind_shape(&body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]),
            )
        })
        .collect()
}

impl Case<'_> {
    fn check(&self, step: &Value) -> Outcome {
        let Some(write) = self.write(step) else {
            return Outcome::Skipped;
        };
        let expect = &step["expect"];
        let response_kind = expect["body"]["kind"].as_str().filter(|kind| *kind != "Status");
        if response_kind.is_some_and(|kind| write.kind != kind) {
            return Outcome::Skipped;
        }
        let message = expect["body"]["message"].as_str().unwrap_or_default();
        let result = write.execute(&expect["body"]);
        let result = match (expect["status"].as_u64().unwrap(), result) {
            (_, None) => return Outcome::Skipped,
            (200 | 201, Some(Ok(ours))) => write.compare(ours, &expect["body"]),
            (409, Some(Err(error @ Error::Conflicts(_)))) => conflicts(error, &expect["body"]),
            (400 | 500, Some(Err(error))) => same(&error.to_string(), message),
            (status, Some(Ok(_))) if status >= 400 && !is_ours(message) => return Outcome::Skipped,
            (status, result) => Err(format!(
                "{:?}, not {status} {message}",
                result.map(|result| result.map(drop))
            )),
        };
        result.map_or_else(Outcome::Failed, |()| Outcome::Passed)
    }

    /// The write of a step, if its object is known here.
    fn write<'a>(&'a self, step: &'a Value) -> Option<WriteRequest<'a>> {
        let (path, query) = parts(step);
        let body = self.body(step)?;
        let media = step["headers"]["Content-Type"].as_str().unwrap_or_default();
        let (object, subresource) = match path.strip_suffix("/status") {
            Some(object) => (object, "status"),
            None => (path, ""),
        };
        let named = match step["method"].as_str()? {
            "POST" => format!("{object}/{}", body.str_at(&["metadata", "name"])?),
            _ => object.to_owned(),
        };
        let live = self.objects.get(&named);
        let typed = if media.contains("apply-patch") || live.is_none() {
            &body
        } else {
            live?
        };
        let shape = self.shape(typed)?;
        let api_version = typed.str_at(&["apiVersion"])?.to_owned();
        let kind = typed.str_at(&["kind"])?.to_owned();
        if kind == "Scale" || query.contains("dryRun") {
            return None;
        }
        let value = |key: &str| {
            query
                .split('&')
                .find_map(|pair| pair.strip_prefix(key))
                .unwrap_or_default()
        };
        let agent = step["headers"]["User-Agent"]
            .as_str()
            .and_then(|agent| agent.split('/').next())
            .unwrap_or("");
        Some(WriteRequest {
            shape,
            live,
            media: media.to_owned(),
            api_version,
            kind,
            subresource,
            manager: [value("fieldManager="), agent]
                .into_iter()
                .find(|name| !name.is_empty())
                .unwrap_or("")
                .to_owned(),
            force: if value("force=") == "true" {
                Force::Yes
            } else {
                Force::No
            },
            body,
        })
    }

    fn shape(&self, object: &Tree) -> Option<&Shape> {
        let (version, kind) = (object.str_at(&["apiVersion"])?, object.str_at(&["kind"])?);
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        self.custom
            .get(kind)
            .or_else(|| Pack::builtin().shape_of(group, version, kind))
    }

    /// The request body of a step: its text, the response of another step, or a change of that.
    fn body(&self, step: &Value) -> Option<Tree> {
        if let Value::Object(from) = &step["bodyFrom"] {
            let mut body = self.steps[from["step"].as_u64()? as usize]["expect"]["body"].clone();
            for pair in from.get("set").and_then(Value::as_array).into_iter().flatten() {
                let (parent, key) = pair[0].as_str()?.rsplit_once('/')?;
                match body.pointer_mut(parent)? {
                    Value::Object(parent) => drop(parent.insert(key.to_owned(), pair[1].clone())),
                    Value::Array(parent) => match key.parse::<usize>() {
                        Ok(at) => *parent.get_mut(at)? = pair[1].clone(),
                        Err(_) => parent.push(pair[1].clone()),
                    },
                    _ => return None,
                }
            }
            for path in from.get("del").and_then(Value::as_array).into_iter().flatten() {
                let (parent, key) = path.as_str()?.rsplit_once('/')?;
                body.pointer_mut(parent)?.as_object_mut()?.remove(key);
            }
            return to_tree(&body).ok();
        }
        let text = step["body"].as_str()?;
        if let Some(at) = text
            .strip_prefix("{{steps.")
            .and_then(|rest| rest.strip_suffix(".body}}"))
        {
            return to_tree(&self.steps[at.parse::<usize>().ok()?]["expect"]["body"]).ok();
        }
        serde_json::from_str(text).ok()
    }

    /// Records the object that a write or read returned.
    fn record(&mut self, step: &Value) {
        let (path, query) = parts(step);
        let body = to_tree(&step["expect"]["body"]).unwrap_or_default();
        let Some(name) = body
            .str_at(&["metadata", "name"])
            .filter(|_| !query.contains("dryRun"))
        else {
            return;
        };
        let path = match step["method"].as_str().unwrap() {
            "POST" => format!("{path}/{name}"),
            "GET" | "PUT" | "PATCH" => path.trim_end_matches("/status").to_owned(),
            _ => return,
        };
        if self.shape(&body).is_some() && path.ends_with(&format!("/{name}")) {
            self.objects.insert(path, body);
        }
    }
}

fn parts(step: &Value) -> (&str, &str) {
    let path = step["path"].as_str().unwrap();
    path.split_once('?').unwrap_or((path, ""))
}

fn is_ours(message: &str) -> bool {
    message.starts_with("Apply failed") || message.starts_with("failed to create typed")
}

struct WriteRequest<'a> {
    shape: &'a Shape,
    live: Option<&'a Tree>,
    media: String,
    api_version: String,
    kind: String,
    subresource: &'a str,
    manager: String,
    force: Force,
    body: Tree,
}

impl WriteRequest<'_> {
    /// The written object with its managed fields; nothing if the write fails for other reasons.
    fn execute(&self, recorded: &Value) -> Option<Result<Tree, Error>> {
        let reset = self.reset();
        let manager = FieldManager {
            name: &self.manager,
            api_version: &self.api_version,
            subresource: self.subresource,
            now: TIME,
            reset: &reset,
            converter: None,
        };
        let nothing = Tree::Map(Default::default());
        let live = self.live.unwrap_or(&nothing);
        if self.media.contains("apply-patch") {
            return Some(apply(live, &self.body, self.shape, &manager, self.force));
        }
        let mut new = self.with_defaults(self.written(live)?, &to_tree(recorded).ok()?);
        update(live, &mut new, self.shape, &manager);
        Some(Ok(new))
    }

    /// The object as the client wrote or patched it.
    fn written(&self, live: &Tree) -> Option<Tree> {
        let mut new = live.clone();
        match self.media.split(';').next()?.strip_prefix("application/")? {
            "json-patch+json" => patch::apply_json(&mut new, &self.body).ok()?,
            "merge-patch+json" => patch::apply_merge(&mut new, &self.body).ok()?,
            "strategic-merge-patch+json" => patch::apply_strategic(&mut new, &self.body, self.shape).ok()?,
            _ => new = self.body.clone(),
        }
        prune(self.shape, &mut new).type_error.is_none().then_some(new)
    }

    /// The object with the defaults that the server set before it updated the managed fields: of the recorded fields beyond
    /// the written object, only those with an owner.
    fn with_defaults(&self, new: Tree, recorded: &Tree) -> Tree {
        let written = FieldSet::from_value(self.shape, &new);
        let managers = ManagedFields::of(recorded).unwrap_or_default();
        let owned = managers.all_fields();
        let mut filled = new;
        fill(&mut filled, recorded);
        let unowned = FieldSet::from_value(self.shape, &filled)
            .difference(&written)
            .difference(&owned);
        let mut filled = remove(self.shape, filled, &unowned);
        prune(self.shape, &mut filled);
        filled
    }

    fn reset(&self) -> FieldSet {
        let has_status = self.shape.member("status").is_some();
        match self.subresource {
            "status" => FieldSet::of_fields([["spec"].as_slice()]),
            _ if has_status => FieldSet::of_fields([["status"].as_slice()]),
            _ => FieldSet::default(),
        }
    }

    fn compare(&self, mut ours: Tree, recorded: &Value) -> Result<(), String> {
        let mut recorded = to_tree(recorded).unwrap();
        same(&owners(&ours), &owners(&recorded))?;
        for tree in [&mut ours, &mut recorded] {
            prune(self.shape, tree);
            tree.take(&["status"]);
            SERVER_SET
                .iter()
                .for_each(|name| drop(tree.take(&["metadata", name])));
        }
        let mut differences = String::new();
        if self.subresource.is_empty() && self.media.contains("apply-patch") {
            differ(&ours, &recorded, ("", &mut differences));
        }
        match differences.is_empty() {
            true => Ok(()),
            false => Err(differences),
        }
    }
}

/// One line for each entry, in the order of the recording.
fn owners(object: &Tree) -> String {
    let entries = object
        .at(&["metadata", "managedFields"])
        .and_then(Tree::as_list)
        .unwrap_or_default();
    let mut lines: Vec<String> = entries
        .iter()
        .map(|entry| {
            let text = |key| entry.str_at(&[key]).unwrap_or("-");
            let mut fields = Vec::new();
            write_tree(entry.get("fieldsV1").unwrap_or(&Tree::Null), &mut fields);
            let values = [
                "operation",
                "manager",
                "subresource",
                "apiVersion",
                "time",
                "fieldsType",
            ]
            .map(text);
            format!("{} {}", values.join(" "), String::from_utf8(fields).unwrap())
        })
        .collect();
    lines.sort();
    lines.join("\n")
}

fn conflicts(error: Error, recorded: &Value) -> Result<(), String> {
    let Error::Conflicts(ours) = &error else {
        unreachable!("the caller has looked")
    };
    let mut causes: Vec<_> = ours
        .list
        .iter()
        .map(|cause| (cause.message(), cause.path.clone()))
        .collect();
    causes.sort();
    let list = recorded["details"]["causes"].as_array().into_iter().flatten();
    let text = |cause: &Value, key: &str| cause[key].as_str().unwrap().to_owned();
    let mut expected: Vec<_> = list
        .map(|cause| (text(cause, "message"), text(cause, "field")))
        .collect();
    expected.sort();
    same(&format!("{causes:?}"), &format!("{expected:?}"))?;
    same(&error.to_string(), recorded["message"].as_str().unwrap())
}

fn same(ours: &str, recorded: &str) -> Result<(), String> {
    match ours == recorded {
        true => Ok(()),
        false => Err(format!("\n  ours     {ours}\n  recorded {recorded}")),
    }
}

/// Adds missing fields from the recorded response, but no items to lists that have some.
fn fill(ours: &mut Tree, recorded: &Tree) {
    match (ours, recorded) {
        (Tree::Map(ours), Tree::Map(recorded)) => {
            for (key, value) in recorded.iter().filter(|(key, _)| *key != "managedFields") {
                match ours.get_mut(key) {
                    Some(known) => fill(known, value),
                    None => drop(ours.insert(key, value.clone())),
                }
            }
        }
        (Tree::List(ours), Tree::List(recorded)) if ours.len() == recorded.len() => {
            ours.iter_mut()
                .zip(recorded)
                .for_each(|(ours, recorded)| fill(ours, recorded));
        }
        _ => {}
    }
}

/// Everything in our object must be recorded; more may be recorded where the server defaults it.
fn differ(ours: &Tree, recorded: &Tree, (path, found): (&str, &mut String)) {
    match (ours, recorded) {
        (Tree::Map(left), Tree::Map(right)) => {
            for (key, value) in left.iter() {
                let path = format!("{path}.{key}");
                match right.get(key) {
                    Some(other) => differ(value, other, (&path, found)),
                    None if is_zero(value) => {}
                    None => writeln!(found, "{path} is not recorded, ours is {value:?}").unwrap(),
                }
            }
        }
        (Tree::List(left), Tree::List(right)) if left.len() == right.len() => {
            for (at, (left, right)) in left.iter().zip(right).enumerate() {
                differ(left, right, (&format!("{path}[{at}]"), found));
            }
        }
        _ if ours.semantic_eq(recorded) || recorded.as_str() == Some(UID) => {}
        _ => writeln!(found, "{path} is {ours:?}, recorded {recorded:?}").unwrap(),
    }
}

fn is_zero(value: &Tree) -> bool {
    match value {
        Tree::Map(map) => map.values().all(is_zero),
        Tree::List(items) => items.is_empty(),
        Tree::Str(text) => text.is_empty(),
        other => matches!(other, Tree::Null | Tree::Bool(false) | Tree::Int(0)),
    }
}
