//! Floods: while one user sends expensive requests as fast as it can, the latency of another user's reads and writes, of
//! `/livez` and the memory of the server are measured.
//!
//! Each flood is a row of [`ALL`]: its setup, by an administrator, and its attack, by `alice`, who has all rights in one
//! namespace. The probes of `bob` run beside it (`probe`). Start reading at [`run`].

mod attack;
mod backends;
mod bodies;
mod connections;
mod custom;
mod probe;
mod requests;
mod table;

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use setpoint_conformance::time::sleep;
use setpoint_conformance::wire::Request;

use crate::args::Args;
use crate::objects;
use crate::process::Process;
use crate::session::Session;
use crate::soak::ADMIN;
use attack::Attack;
use probe::Probes;
use table::Row;

/// The namespaces of the users.
pub(crate) const ALICES: &str = "alice";
pub(crate) const BOBS: &str = "bob";

/// How long the server rests after a flood before its memory is measured again.
const REST: Duration = Duration::from_secs(3);

/// A flood.
#[derive(Clone, Copy)]
struct Flood {
    name: &'static str,
    /// What the user sends.
    description: &'static str,
    setup: fn(&mut Session) -> Result<()>,
    attack: fn(&Attack),
}

const ALL: &[Flood] = &[
    row("none", "nothing", no_setup, requests::nothing),
    row(
        "yaml-aliases",
        "YAML of 1.3 MB whose aliases would expand to 90 GB, 4 at a time",
        no_setup,
        bodies::yaml_aliases,
    ),
    row(
        "large-bodies",
        "bodies of 4 MB, 8 at a time",
        no_setup,
        bodies::too_large,
    ),
    row(
        "deep-bodies",
        "JSON nested 400,000 deep, 8 at a time",
        no_setup,
        bodies::deep,
    ),
    row(
        "duplicate-keys",
        "150,000 duplicate keys, 4 at a time",
        no_setup,
        bodies::duplicate_keys,
    ),
    row(
        "unknown-fields",
        "100,000 unknown fields, 4 at a time",
        no_setup,
        bodies::unknown_fields,
    ),
    row(
        "json-patch-copies",
        "JSON patches of 10,000 copies, 4 at a time",
        bodies::create_map,
        bodies::copies,
    ),
    row(
        "strategic-merges",
        "strategic merge patches of 20,000 items in reverse, 4 at a time",
        bodies::create_account,
        bodies::strategic_merges,
    ),
    row(
        "long-applies",
        "applies of 40,000 fields, 4 at a time",
        no_setup,
        bodies::long_applies,
    ),
    row(
        "many-managers",
        "applies of one object by ever new managers, 4 at a time",
        no_setup,
        bodies::many_managers,
    ),
    row(
        "large-managed-fields",
        "updates with 1.2 MB of managedFields, 4 at a time",
        bodies::create_map,
        bodies::managed_fields,
    ),
    row(
        "crd-defaults",
        "objects of 20,000 items with a default of 100 KB each, 4 at a time",
        custom::create_defaults,
        custom::defaults,
    ),
    row(
        "crd-branches",
        "objects checked against 4^6 branches of anyOf, 4 at a time",
        custom::create_branches,
        custom::branches,
    ),
    row(
        "many-crds",
        "300 CustomResourceDefinitions, then OpenAPI and discovery, 4 at a time",
        no_setup,
        custom::definitions,
    ),
    row(
        "long-lists",
        "lists of 5,000 ConfigMaps of 2 KB, 8 at a time",
        requests::create_maps,
        requests::long_lists,
    ),
    row(
        "long-selectors",
        "lists with label selectors of 12 KB, 8 at a time",
        requests::create_maps,
        requests::long_selectors,
    ),
    row(
        "resource-versions",
        "gets and lists with future, past and odd resourceVersions, 16 at a time",
        no_setup,
        requests::resource_versions,
    ),
    row("events", "Events, 8 at a time", no_setup, requests::events),
    row(
        "create-delete",
        "creates and deletes, 8 at a time",
        no_setup,
        requests::create_delete,
    ),
    row(
        "half-bodies",
        "700 requests whose bodies never end",
        no_setup,
        connections::half_bodies,
    ),
    row(
        "tls-connections",
        "5,000 TLS connections that send nothing",
        no_setup,
        connections::idle,
    ),
    row(
        "watches",
        "10,000 watches on HTTP/1.1",
        no_setup,
        connections::watches,
    ),
    row(
        "unread-watches",
        "200 watches that are never read, during writes of 50 KB",
        no_setup,
        connections::unread_watches,
    ),
    row(
        "http2-watches",
        "2,000 watches on HTTP/2, opened and reset",
        no_setup,
        connections::http2_watches,
    ),
    row(
        "hanging-webhook",
        "writes for which a webhook never responds, 32 at a time",
        backends::create_webhook,
        backends::webhook_writes,
    ),
    row(
        "hanging-api-service",
        "requests to an aggregated server that never responds, 32 at a time",
        backends::create_api_service,
        backends::api_service_requests,
    ),
];

/// Runs the floods of these names, or all, one after the other, each on a new server. Returns whether every server lived.
pub(crate) fn run(args: &Args, names: &[String]) -> Result<bool> {
    if let Some(unknown) = names
        .iter()
        .find(|name| ALL.iter().all(|flood| flood.name != **name))
    {
        let known: Vec<&str> = ALL.iter().map(|flood| flood.name).collect();
        bail!("unknown flood {unknown:?}; the floods are {}", known.join(", "));
    }
    let mut rows = Vec::new();
    for flood in ALL {
        if names.is_empty() || names.iter().any(|name| name == flood.name) {
            let row = measure(args, *flood).with_context(|| format!("flood {}", flood.name))?;
            println!("{}", row.summary());
            rows.push(row);
        }
    }
    table::print(&rows);
    Ok(rows.iter().all(|row| row.is_served(args.max_p99)))
}

/// Measures one flood.
fn measure(args: &Args, flood: Flood) -> Result<Row> {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    fs::create_dir(&data)?;
    let mut process = Process::start(&args.start, dir.path(), &data)?;
    let endpoint = process.endpoint()?;
    let mut admin = Session::new(&endpoint, ADMIN);
    create_users(&mut admin)?;
    (flood.setup)(&mut admin)?;
    let pid = process.pid().context("the server runs")?;
    let attack = Attack::new(&endpoint, &process.kubeconfig());
    let probes = Probes::new(&endpoint, pid)?;
    thread::scope(|scope| {
        scope.spawn(|| (flood.attack)(&attack));
        probes.run(scope);
        sleep(Duration::from_secs(args.seconds));
        probes.stop();
        attack.stop();
    });
    sleep(REST);
    Ok(Row {
        name: flood.name,
        description: flood.description,
        is_running: process.is_running(),
        statuses: attack.statuses(),
        measurements: probes.into_measurements(),
    })
}

/// Creates the namespaces of the users, in which they have all rights.
fn create_users(admin: &mut Session) -> Result<()> {
    let group = "rbac.authorization.k8s.io";
    for name in [ALICES, BOBS] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(admin, "/api/v1/namespaces", &namespace)?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
        });
        create(
            admin,
            &format!("/apis/{group}/v1/namespaces/{name}/rolebindings"),
            &binding,
        )?;
    }
    let rule = json!({"apiGroups": ["apiextensions.k8s.io", "flood.example.com"], "resources": ["*"], "verbs": ["*"]});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "flood"}, "rules": [rule]});
    create(admin, &format!("/apis/{group}/v1/clusterroles"), &role)?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "flood"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "flood"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
    });
    create(admin, &format!("/apis/{group}/v1/clusterrolebindings"), &binding)
}

fn create(admin: &mut Session, path: &str, object: &Value) -> Result<()> {
    send(admin, &objects::post(path, object))
}

fn send(admin: &mut Session, request: &Request) -> Result<()> {
    let response = admin.send(request)?;
    ensure!(
        response.status < 300,
        "{} {}: {}",
        request.method,
        request.path,
        response.text()
    );
    Ok(())
}

fn no_setup(_: &mut Session) -> Result<()> {
    Ok(())
}

const fn row(
    name: &'static str,
    description: &'static str,
    setup: fn(&mut Session) -> Result<()>,
    attack: fn(&Attack),
) -> Flood {
    Flood {
        name,
        description,
        setup,
        attack,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_of_floods_are_unique() {
        let names: HashSet<&str> = ALL.iter().map(|flood| flood.name).collect();
        assert_eq!(names.len(), ALL.len());
    }
}
