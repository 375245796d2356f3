//! Creates and updates, durable on the server before they are answered.

use anyhow::{Context, Result, ensure};

use super::exchange::{self, Exchange};
use crate::{
    api::{
        Setting,
        connection::Connection,
        load::{self, Client, Load},
        objects::{self, Scheduler},
        request::{self, Template},
        server::{Parts, Server, new_dir},
    },
    report::{Goal, Report},
    turns::Turns,
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
    let server = Server::setpoint(setting, dir.path(), Parts::ApiOnly).await?;
    for create in creates(setting) {
        measure_create(setting, report, (&null, &server), &create).await?;
    }
    measure_update(setting, report, (&null, &server)).await?;
    // Last, because the scheduler goes on with these pods after their creates were answered.
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
            operations: setting.pick(20_000, 5_000),
            goal: Some(Goal::AtMost(70.0)),
        },
        Create {
            name: "create_pod",
            path: objects::PODS,
            body: objects::pod("create"),
            clients: setting.clients,
            operations: setting.pick(10_000, 3_000),
            goal: Some(Goal::AtMost(150.0)),
        },
        Create {
            name: "create_configmap_one_client",
            path: objects::CONFIG_MAPS,
            body: objects::config_map("alone"),
            clients: 1,
            operations: setting.pick(3_000, 1_000),
            goal: None,
        },
    ]
}

/// Pods that the scheduler takes up and finds no node for: what a create costs with what follows from it.
fn unschedulable(setting: &Setting) -> Create {
    Create {
        name: "create_pod_unschedulable",
        path: objects::PODS,
        body: objects::pod_for("waits", Scheduler::Default),
        clients: setting.clients,
        operations: setting.pick(5_000, 2_000),
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
    let mut turns = Turns::default();
    for _ in 0..setting.rounds {
        turns.baseline.push(load::apply(null, &load, client).await?);
        turns.subject.push(load::apply(server, &load, client).await?);
        load.first += create.operations;
    }
    exchange::add(report, create.name, &turns, create.goal);
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
    load.operations = setting.pick(20_000, 5_000);
    let post = Template::with_body("POST", objects::CONFIG_MAPS, &objects::config_map("update"));
    let mut turns = Turns::default();
    for _ in 0..setting.rounds {
        turns
            .baseline
            .push(load::apply(null, &load, |_| Exchange::new(post.clone(), 201)).await?);
        load.first += load.operations;
        turns.subject.push(load::apply(server, &load, Update::new).await?);
    }
    exchange::add(report, "update_configmap", &turns, None);
    Ok(())
}

/// Changes one object of its own, each time from the version that the last answer told.
#[derive(Debug)]
struct Update {
    path: String,
    name: String,
    /// Not known before the first answer.
    version: Option<String>,
}

impl Update {
    fn new(index: usize) -> Self {
        let name = format!("update-{index:08}");
        Self {
            path: format!("{}/{name}", objects::CONFIG_MAPS),
            name,
            version: None,
        }
    }

    async fn version(&self, connection: &mut Connection) -> Result<String> {
        let answer = connection
            .answer(&request::encode("GET", &self.path, b""))
            .await?;
        read_version(answer.body).with_context(|| format!("reading {}", self.path))
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
        let answer = connection
            .answer(&request::encode("PUT", &self.path, body.as_bytes()))
            .await?;
        ensure!(
            answer.status == 200,
            "an update of {} answers {}",
            self.path,
            answer.status
        );
        self.version = Some(read_version(answer.body)?);
        Ok(())
    }
}

fn read_version(object: &[u8]) -> Result<String> {
    Ok(request::find_text(object, "resourceVersion")
        .context("the object has no resourceVersion")?
        .to_owned())
}
