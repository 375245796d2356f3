//! Creates and updates, durable on the server before they are acknowledged.

use anyhow::{Context, Result, ensure};

use super::exchange::{self, Exchange};
use crate::{
    api::{
        Setting,
        connection::Connection,
        load::{self, Client, Load},
        objects::{self, Scheduler},
        request::{self, Template},
        server::{Server, ServerComponents, new_dir},
    },
    paired_rounds::PairedRounds,
    report::{Goal, Report},
};

/// One kind of write under test.
#[derive(Debug)]
struct Create {
    name: &'static str,
    path: &'static str,
    body: String,
    clients: usize,
    operations: u64,
    goal: Option<Goal>,
}

pub(crate) async fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let dir = new_dir(setting)?;
    let null = Server::null(dir.path()).await?;
    let server = Server::setpoint(setting, dir.path(), ServerComponents::ApiOnly).await?;
    for create in creates(setting) {
        measure_create(setting, report, (&null, &server), &create).await?;
    }
    measure_update(setting, report, (&null, &server)).await?;
    // Last, because the scheduler continues with these pods after their creates.
    measure_create(setting, report, (&null, &server), &unschedulable(setting)).await?;
    server.stop().await
}

fn creates(setting: &Setting) -> [Create; 3] {
    [
        Create {
            name: "create_configmap",
            path: objects::CONFIG_MAPS,
            body: objects::config_map("create"),
            clients: setting.clients,
            operations: setting.full_or_quick(20_000, 5_000),
            goal: Some(Goal::AtMost(70.0)),
        },
        Create {
            name: "create_pod",
            path: objects::PODS,
            body: objects::pod("create"),
            clients: setting.clients,
            operations: setting.full_or_quick(10_000, 3_000),
            goal: Some(Goal::AtMost(150.0)),
        },
        Create {
            name: "create_configmap_one_client",
            path: objects::CONFIG_MAPS,
            body: objects::config_map("alone"),
            clients: 1,
            operations: setting.full_or_quick(3_000, 1_000),
            goal: None,
        },
    ]
}

/// Pods that the scheduler finds no node for: the cost of a create with its follow-up writes.
fn unschedulable(setting: &Setting) -> Create {
    Create {
        name: "create_pod_unschedulable",
        path: objects::PODS,
        body: objects::pod_for("waits", Scheduler::Default),
        clients: setting.clients,
        operations: setting.full_or_quick(5_000, 2_000),
        goal: None,
    }
}

async fn measure_create(
    setting: &Setting,
    report: &mut Report,
    (null, server): (&Server, &Server),
    create: &Create,
) -> Result<()> {
    let template = Template::with_body("POST", create.path, &create.body);
    let client = |_| Exchange::new(template.clone(), 201);
    let mut load = Load {
        clients: create.clients,
        operations: create.operations,
        first: 0,
    };
    let mut rounds = PairedRounds::default();
    for _ in 0..setting.rounds {
        rounds.baseline.push(load::apply(null, &load, client).await?);
        rounds.subject.push(load::apply(server, &load, client).await?);
        load.first += create.operations;
    }
    exchange::add(report, create.name, &rounds, create.goal);
    Ok(())
}

async fn measure_update(
    setting: &Setting,
    report: &mut Report,
    (null, server): (&Server, &Server),
) -> Result<()> {
    let mut load = Load {
        clients: setting.clients,
        operations: setting.clients as u64,
        first: 0,
    };
    let create = Template::with_body("POST", objects::CONFIG_MAPS, &objects::config_map("update"));
    load::apply(server, &load, |_| Exchange::new(create.clone(), 201)).await?;
    load.operations = setting.full_or_quick(20_000, 5_000);
    let post = Template::with_body("POST", objects::CONFIG_MAPS, &objects::config_map("update"));
    let mut rounds = PairedRounds::default();
    for _ in 0..setting.rounds {
        rounds
            .baseline
            .push(load::apply(null, &load, |_| Exchange::new(post.clone(), 201)).await?);
        load.first += load.operations;
        rounds
            .subject
            .push(load::apply(server, &load, Update::new).await?);
    }
    exchange::add(report, "update_configmap", &rounds, None);
    Ok(())
}

/// Updates its own object, each time with the resourceVersion of the last response.
#[derive(Debug)]
pub(crate) struct Update {
    path: String,
    name: String,
    /// `None` before the first response.
    version: Option<String>,
}

impl Update {
    pub(crate) fn new(index: usize) -> Self {
        let name = format!("update-{index:08}");
        Self {
            path: format!("{}/{name}", objects::CONFIG_MAPS),
            name,
            version: None,
        }
    }

    async fn version(&self, connection: &mut Connection) -> Result<String> {
        let response = connection
            .round_trip(&request::encode("GET", &self.path, b""))
            .await?;
        read_version(response.body).with_context(|| format!("reading {}", self.path))
    }
}

impl Client for Update {
    async fn operate(&mut self, connection: &mut Connection, number: u64) -> Result<()> {
        let version = match self.version.take() {
            Some(version) => version,
            None => self.version(connection).await?,
        };
        let body = objects::config_map("update")
            .replacen(
                "update-########",
                &format!("{}\",\"resourceVersion\":\"{version}", self.name),
                1,
            )
            .replacen("########", &format!("{number:08}"), 1);
        let response = connection
            .round_trip(&request::encode("PUT", &self.path, body.as_bytes()))
            .await?;
        ensure!(
            response.status == 200,
            "an update of {} returned {}",
            self.path,
            response.status
        );
        self.version = Some(read_version(response.body)?);
        Ok(())
    }
}

fn read_version(object: &[u8]) -> Result<String> {
    Ok(request::find_text(object, "resourceVersion")
        .context("the object has no resourceVersion")?
        .to_owned())
}
