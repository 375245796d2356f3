//! Creates, updates, gets, lists and deletes of ConfigMaps of 1 KB.

use anyhow::Result;

use super::{
    paired::{self, Cost, Pair},
    rig::Subject,
};
use crate::{
    api::{
        Setting,
        load::{self, Client, Load},
        objects,
        request::Template,
        workloads::{exchange::Exchange, write::Update},
    },
    controllers::api_client::ApiClient,
    paired_rounds::PairedRounds,
    report::Report,
};

/// A namespace of its own for the objects that are listed.
const LISTED: &str = "listed";

/// The objects of the list.
const LISTED_OBJECTS: u64 = 500;

/// The objects that are read.
const READ_OBJECTS: u64 = 1_000;

pub(super) async fn measure(setting: &Setting, pair: &Pair<'_>, report: &mut Report) -> Result<()> {
    prepare(setting, pair).await?;
    let writes = setting.full_or_quick(5_000, 1_000);
    let bench = Requests { setting, pair };
    let path = |subject: Subject| format!("{}/{}-########", objects::CONFIG_MAPS, subject.name());
    let creates = bench
        .run(writes, |subject| {
            let body = objects::config_map(subject.name());
            Exchange::new(Template::with_body("POST", objects::CONFIG_MAPS, &body), 201)
        })
        .await?;
    paired::add(report, "create", &creates);
    let deletes = bench
        .run(writes, |subject| {
            Exchange::new(Template::without_body("DELETE", &path(subject)), 200)
        })
        .await?;
    paired::add(report, "delete", &deletes);
    let updates = paired::run(setting.rounds, async |subject, round| {
        bench
            .apply(subject, bench.load(subject, round, writes), Update::new)
            .await
    })
    .await?;
    paired::add(report, "update", &updates);
    let get = format!("{}/read-########", objects::CONFIG_MAPS);
    let gets = bench
        .run(writes * 4, |_| {
            Exchange::new(Template::without_body("GET", &get), 200).among(READ_OBJECTS)
        })
        .await?;
    paired::add(report, "get", &gets);
    let list = format!("/api/v1/namespaces/{LISTED}/configmaps");
    let lists = bench
        .run(writes / 10, |_| {
            Exchange::new(Template::without_body("GET", &list), 200)
        })
        .await?;
    paired::add(report, "list_500", &lists);
    Ok(())
}

/// Creates the objects that are updated, read and listed.
async fn prepare(setting: &Setting, pair: &Pair<'_>) -> Result<()> {
    let server = &pair.setpoint;
    let namespace = format!(r#"{{"metadata":{{"name":"{LISTED}"}}}}"#);
    let mut client = ApiClient::new(server).await?;
    client.send_ok("POST", "/api/v1/namespaces", &namespace).await?;
    let listed = format!("/api/v1/namespaces/{LISTED}/configmaps");
    for (path, prefix, objects) in [
        (objects::CONFIG_MAPS, "update", setting.clients as u64),
        (objects::CONFIG_MAPS, "read", READ_OBJECTS),
        (&listed, "listed", LISTED_OBJECTS),
    ] {
        let create = Template::with_body("POST", path, &objects::config_map(prefix));
        let load = Load {
            clients: setting.clients,
            operations: objects,
            first: 0,
        };
        load::apply(server, &load, |_| Exchange::new(create.clone(), 201)).await?;
    }
    Ok(())
}

/// The bench and its servers.
struct Requests<'a> {
    setting: &'a Setting,
    pair: &'a Pair<'a>,
}

impl Requests<'_> {
    /// Rounds of one request, for which each server has numbers of its own in each round.
    async fn run<C: Client + Clone>(
        &self,
        operations: u64,
        client: impl Fn(Subject) -> C,
    ) -> Result<PairedRounds<Cost>> {
        paired::run(self.setting.rounds, async |subject, round| {
            let client = client(subject);
            let load = self.load(subject, round, operations);
            self.apply(subject, load, |_| client.clone()).await
        })
        .await
    }

    /// The load of a round. Updates of the same object by both servers differ in their numbers.
    fn load(&self, subject: Subject, round: usize, operations: u64) -> Load {
        let turn = 2 * round as u64 + u64::from(subject == Subject::Setpoint);
        Load {
            clients: self.setting.clients,
            operations,
            first: turn * operations,
        }
    }

    async fn apply<C: Client>(
        &self,
        subject: Subject,
        load: Load,
        client: impl Fn(usize) -> C,
    ) -> Result<Cost> {
        let before = self.pair.rig.etcd_cpu_time()?;
        let outcome = load::apply(self.pair.server(subject), &load, client).await?;
        let etcd = self.pair.rig.etcd_cpu_time()? - before;
        Ok(self.pair.cost(subject, &outcome, etcd))
    }
}
